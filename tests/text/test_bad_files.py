"""Every bad file and every bad path is refused in one clear sentence, and never by another exception."""

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.errors import InputError
from qkv.text import PAIRS, read_pairs

UNIT = '<tu><tuv xml:lang="{}"><seg>x</seg></tuv><tuv xml:lang="{}"><seg>y</seg></tuv></tu>'
BODY = f"<body>\n{UNIT.format('EN-US', 'de-DE')}\n</body></tmx>"
TMX = f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="EN-US"/>{BODY}'
SEGMENT = "<source>x</source>\n<target>y</target>"
XLIFF_1 = f"""<xliff version="1.2"><file source-language="en-US" target-language="de"><body>
<trans-unit id="1">{SEGMENT}</trans-unit></body></file></xliff>"""
XLIFF_2 = f"""<xliff version="2.0" srcLang="en" trgLang="de-AT"><file id="f">
<unit id="1"><segment>{SEGMENT}</segment></unit></file></xliff>"""
PO = 'msgid ""\nmsgstr "Language: de_DE\\n"\n\nmsgid "x"\nmsgstr "y"\n'
GOOD_FILES = {
    ".tsv": "x\ty\n",
    ".csv": "x,y\n",
    ".jsonl": '{"en": "x", "de": "y"}\n',
    ".tmx": TMX,
    ".xlf": XLIFF_1,
    ".xliff": XLIFF_2,
    ".po": PO,
}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(*paths: Path, source: str | None = "en", target: str | None = "de") -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(paths, source=source, target=target)]


@pytest.mark.parametrize("suffix", PAIRS)
def test_the_files_are_good_before_they_are_spoilt(tmp_path: Path, suffix: str) -> None:
    assert texts(write(tmp_path / f"t{suffix}", GOOD_FILES[suffix])) == [("x", "y")]


BILLION_LAUGHS = '<!DOCTYPE tmx [<!ENTITY a0 "lol">' + "".join(
    f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10)
)

BAD_FILES = {
    "tsv, one cell": ("t.tsv", "a\tb\nc\n", "t.tsv line 2 has 1 cell where 2 were expected"),
    "tsv, three cells": ("t.tsv", "a\tb\tc\n", "t.tsv line 1 has 3 cells where 2 were expected"),
    "tsv, ragged": ("t.tsv", "en\tde\tid\na\tb\n", "line 2 has 2 cells where 3 were expected"),
    "tsv, other languages": ("t.tsv", "en\tfr\na\tb\n", "names the columns en, fr, but the languages asked for are en"),
    "csv, one cell": ("t.csv", "a;b\n", "t.csv line 1 has 1 cell where 2"),
    "csv, open quote": ("t.csv", 'a,b\n"c,d\ne,f\n', "t.csv line 2 is not sound CSV .unexpected end of data"),
    "csv, quote in a cell": ("t.csv", 'a,b\n"c"d,e\n', "t.csv line 2 is not sound CSV"),
    "csv, endless cell": ("t.csv", 'a,b\nc,"' + "x,\n" * 50_000, "t.csv line 2 is not sound CSV .field larger"),
    "jsonl, cut off": ("t.jsonl", '{"source": "a", "target": "b"}\n{"source": ', "t.jsonl line 2 is not valid JSON"),
    "jsonl, nested": ("t.jsonl", "[" * 100_000, "t.jsonl line 1 is not valid JSON .it is nested too deeply"),
    "jsonl, long number": ("t.jsonl", "9" * 10_000, "t.jsonl line 1 is not valid JSON"),
    "jsonl, array": ("t.jsonl", '["a", "b"]', "t.jsonl line 1 holds a JSON list where an object was expected"),
    "jsonl, number": ("t.jsonl", '{"en": 1, "de": "b"}', "t.jsonl line 1 has 1 as 'en' where a text in quotes"),
    "jsonl, keys": ("t.jsonl", '{"en": "a", "fr": "b"}', "no text in 'en' and 'de', only the keys 'en', 'fr'"),
    "jsonl, half a character": ("t.jsonl", '{"en": "a", "de": "\\ud83d"}', "line 1 has half of a character"),
    "tmx, broken": ("t.tmx", "<tmx>\n<body>\n</tmx>", "t.tmx line 3 is not sound XML .Opening and ending tag mismatch"),
    "tmx, cut off": ("t.tmx", TMX[:-20], "t.tmx line 3 is not sound XML"),
    "tmx, empty": ("t.tmx", "", "t.tmx line 1 is not sound XML .no element found"),
    "tmx, other XML": ("t.tmx", "<html/>", "t.tmx begins with <html> where <tmx> was expected"),
    "tmx, no such language": (
        "t.tmx",
        f"<tmx><body>{UNIT.format('en', 'fr')}</body></tmx>",
        "t.tmx has no unit in both 'en' and 'de'; its languages are: en, fr",
    ),
    "tmx, billion laughs": ("t.tmx", f"{BILLION_LAUGHS}]><tmx>&a9;</tmx>", "t.tmx.* uses XML entities"),
    "tmx, laughs in an attribute": ("t.tmx", f'{BILLION_LAUGHS}]><tmx a="&a9;"/>', "t.tmx.* uses XML entities"),
    "tmx, entity": (
        "t.tmx",
        f'<!DOCTYPE tmx [<!ENTITY a "b">]>{TMX[TMX.index("<tmx") :]}',
        "t.tmx uses XML entities .* declares 'a'",
    ),
    "tmx, outside entity": (
        "t.tmx",
        '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/hostname">]><tmx>&a;</tmx>',
        "t.tmx uses XML entities .its DOCTYPE declares 'a'., which are refused",
    ),
    "tmx, parameter entity": (
        "t.tmx",
        '<!DOCTYPE tmx [<!ENTITY % a SYSTEM "file:///etc/hostname"> %a;]><tmx/>',
        "t.tmx uses XML entities .its DOCTYPE declares 'a'",
    ),
    "tmx, entity of the DTD": (
        "t.tmx",
        TMX.replace("x</s", "&nbsp;</s"),
        "t.tmx unit 1 uses XML entities .&nbsp;",
    ),
    "xliff, undefined entity": ("t.xlf", XLIFF_1.replace("y</t", "&nbsp;</t"), "t.xlf line 3 uses XML entities"),
    "xliff, entity": ("t.xlf", f'<!DOCTYPE x [<!ENTITY a "b">]>{XLIFF_1}', "t.xlf uses XML entities"),
    "xliff, source": ("t.xlf", XLIFF_1.replace("en-US", "fr"), "has source-language='fr', but 'en' was asked for"),
    "xliff, target": ("t.xliff", XLIFF_2.replace("de-AT", "nl"), "has trgLang='nl', but 'de' was asked for"),
    "xliff, other XML": ("t.xlf", TMX, "t.xlf begins with <tmx> where <xliff> was expected"),
    "po, language": ("t.po", PO.replace("de_DE", "fr"), "has the header Language: fr, but 'de' was asked for"),
    "po, syntax": ("t.po", 'msgid "a"\nmsgstr "b" c"\n', "t.po is not a sound PO file .Syntax error.*line 2"),
    "po, no catalogue": ("t.po", "Good day!\n", "t.po is not a sound PO file"),
    "not UTF-8": ("t.tsv", "a\tb\nc\tü".encode() + b"\xfc\n", r"t.tsv line 2, byte 5 \(0xfc\) is not UTF-8; save"),
    "UTF-16": ("t.tsv", "a\tb\n".encode("utf-16"), r"t.tsv line 1, byte 1 \(0xff\) is not UTF-8"),
    "NUL": ("t.jsonl", b'{"source": "a", "target": "b"}\n\n\x00', "t.jsonl line 3, byte 1 .0x00. is a NUL byte"),
    "secretly gzip": (
        "t.tsv",
        gzip.compress(b"a\tb\n"),
        "t.tsv line 1, byte 2 .0x8b.*; it is gzipped: let its name end in .gz",
    ),
}


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, name: str, content: str | bytes, sentence: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=sentence) as refused:
        texts(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.jsonl", '{"en": "a", "de": "b"}', "line 1 has the keys 'en', 'de'; say which languages"),
        ("t.tsv", "en\tde\tfr\na\tb\tc\n", "names the columns en, de, fr"),
        ("t.tmx", TMX.replace("EN-US", "*all*", 1), r"has the languages EN-US, de-DE, and '\*all\*' is neither"),
        (
            "t.tmx",
            TMX.replace("<body>", f"<body>{UNIT.format('fr', 'en-US')}"),
            "has the languages fr, en-US, de-DE; say",
        ),
    ],
)
def test_languages_that_must_be_named(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        texts(write(tmp_path / name, content), source=None, target=None)


@pytest.mark.parametrize("suffix", [".en", *PAIRS])
@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda _: b"plain text", "{} is not sound gzip at line 1 .*rename it if it is not packed"),
        (lambda data: data[:-8], "{} is cut short: its gzip data ends inside line [0-9]+; copy the file again"),
        (lambda data: data[:-8] + bytes(8), "{} is not sound gzip at line [0-9]+ .CRC check failed"),
    ],
    ids=["not gzip", "cut short", "damaged"],
)
def test_bad_gzip(tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes], sentence: str) -> None:
    path, other = tmp_path / f"t{suffix}.gz", write(tmp_path / "t.de", "x\n")
    path.write_bytes(damage(gzip.compress(GOOD_FILES.get(suffix, "x\n").encode())))
    with pytest.raises(InputError, match=sentence.format(re.escape(str(path)))):
        texts(*[path, other] if suffix == ".en" else [path])


def test_cut_short_gzip_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 6)[:-8])  # all of the text, but not its checksum
    with pytest.raises(InputError, match=r"t\.tsv\.gz is cut short: its gzip data ends inside line 7"):
        texts(path)


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [
        ("a\nb\nc\n", "d\n", "t.en has 3 lines and .*t.de has 1 line, but line 1"),
        ("a\n", "d\ne\nf", "t.en has 1 line and .*t.de has 3 lines"),
        ("", "d\n" * 1234, "t.en has 0 lines and .*t.de has 1,234 lines.*look for a missing or an extra line"),
    ],
)
def test_plain_files_of_different_length(tmp_path: Path, source: str, target: str, counts: str) -> None:
    with pytest.raises(InputError, match=counts):
        texts(write(tmp_path / "t.en", source), write(tmp_path / "t.de", target))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "no file was given; give one"),
        (["absent.tsv"], "there is no file '.*absent.tsv'; check the path"),
        (["t.tsv", "absent.tsv"], "there is no file '.*absent.tsv'"),
        (["folder"], "folder' is a folder, not a file"),
        (["t.en"], r"1 plain file given \(.*t.en\); give two plain files .source, target., or files .* .tsv, .csv"),
        (["t.en", "t.de", "t.en"], "3 plain files given"),
        (["t.en", "t.tsv"], "t.en is plain text and cannot be read together"),
    ],
)
def test_paths_are_checked_before_anything_is_read(tmp_path: Path, names: list[str], sentence: str) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("t.en", "t.de", "t.tsv"):
        write(tmp_path / name, "a\tb\n")
    with pytest.raises(InputError, match=sentence):
        read_pairs([tmp_path / name for name in names], source="en", target="de")


def test_the_empty_path() -> None:
    with pytest.raises(InputError, match=r"'\.' is a folder"):
        read_pairs([Path("")], source=None, target=None)  # noqa: PTH201 - this is what an empty flag becomes


@pytest.mark.parametrize(("suffix", "package"), [(".tmx", "lxml"), (".xlf", "lxml"), (".po", "polib")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(InputError, match=rf"needs {package}; install it with: pip install 'qkv\[formats\]'"):
        texts(write(tmp_path / f"t{suffix}", GOOD_FILES[suffix]))
