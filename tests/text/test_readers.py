"""Every file format gives the same pairs, from a stream, with their places."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import real, write
from qkv.errors import InputError
from qkv.text import PAIRS, Pair, languages, read_pairs
from qkv.text.lines import BLOCK, read_lines

EXPECTED = [("Good day!", "Guten Tag!"), ("A < B & C", "A < B & C, „ja“"), ("See you.", "Bis bald.")]

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="EN-US" segtype="sentence"/><body>
<tu><tuv xml:lang="EN-US"><seg>Good <hi>day</hi>!</seg></tuv><tuv xml:lang="de-DE"><seg>Guten Tag!</seg></tuv></tu>
<tu><note>one language only</note><tuv xml:lang="EN-US"><seg>Alone</seg></tuv></tu>
<tu><tuv lang="DE-DE"><seg>A &lt; B &amp; C, „ja“</seg></tuv><tuv lang="en-us">
  <seg>A <bpt i="1">&lt;b&gt;</bpt>&lt; B<ept i="1">&lt;/b&gt;</ept> &amp; C</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>See<ph>{br <sub>deep</sub>}</ph> <!-- soon -->you.<ut>x</ut></seg></tuv>
<tuv xml:lang="de-DE"><seg>Bis <hi>b<it pos="end">&lt;/i&gt;</it>ald</hi>.</seg></tuv></tu>
</body></tmx>
"""

XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="de" datatype="plaintext"><body><group>
<trans-unit id="1"><source>Good <g id="1">d<g id="2">ay</g></g>!</source>
<target>Guten <mrk mtype="seg">Tag</mrk>!</target>
<alt-trans><source>Bad day!</source><target>Schlechter Tag!</target></alt-trans></trans-unit>
<trans-unit id="2"><source>Untranslated</source></trans-unit>
<trans-unit id="3"><source>Empty</source><target/></trans-unit>
<trans-unit id="4"><source>Copied</source><target state="needs-translation">Copied</target></trans-unit></group>
<trans-unit id="5"><source>A &lt;<x id="1"/> B <ph id="2">code</ph>&amp; C</source>
<target>A &lt; B &amp; C, „ja“</target></trans-unit>
<trans-unit id="6"><source>See you<bpt id="1">&lt;b&gt;</bpt>.</source>
<target>Bis bald.<it id="2" pos="open">&lt;i&gt;</it></target></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de-AT" xmlns="urn:oasis:names:tc:xliff:document:2.0"
 xmlns:mtc="urn:oasis:names:tc:xliff:matches:2.0"><file id="f"><unit id="1">
<mtc:matches><mtc:match ref="#m"><source>Bad day!</source><target>Schlechter Tag!</target></mtc:match></mtc:matches>
<segment><source>Good <pc id="1">day</pc>!</source><target><mrk id="m">Guten</mrk> Tag!</target></segment>
<ignorable><source> </source></ignorable>
<segment><source>A &lt; B<sc id="2"/> &amp; C<ec startRef="2"/></source>
<target>A &lt; B &amp; C, „ja“</target></segment>
<segment><source>Untranslated</source></segment></unit>
<unit id="2"><segment><source>See <ph id="3"/>you.</source><target>Bis bald.</target></segment></unit>
</file></xliff>
"""

PO = """msgid ""
msgstr ""
"Language: de_DE\\n"
"Content-Type: text/plain; charset=UTF-8\\n"

msgid "Good day!"
msgstr "Guten "
"Tag!"

#, fuzzy
msgid "Nearly"
msgstr "Fast nicht"

msgid "Untranslated"
msgstr ""

msgctxt "formula"
msgid "A < B & C"
msgstr "A < B & C, „ja“"

#~ msgid "Gone"
#~ msgstr "Weg"

msgid "See you."
msgstr "Bis bald."
"""

UNIT = '<tu><tuv xml:lang="{}"><seg>x</seg></tuv><tuv xml:lang="{}"><seg>y</seg></tuv></tu>'
HEADED = '<tmx><header srclang="{}"/><body>{}</body></tmx>'

FILES = {
    ".tsv": "".join(f"{source}\t{target}\n" for source, target in EXPECTED),
    ".csv": 'Good day!,"Guten Tag!"\nA < B & C,"A < B & C, „ja“"\r\n\n"See you.",Bis bald.',
    ".jsonl": '{"source": "Good day!", "target": "Guten Tag!", "id": 1}\n'
    '{"EN-us": "A < B & C", "de": "A < B & C, \\u201eja\\u201c"}\n\n'
    '{"translation": {"de": "Bis bald.", "en": "See you."}}\n',
    ".tmx": TMX,
    ".xlf": XLIFF_1,
    ".xliff": XLIFF_2,
    ".po": PO,
}


def texts(*paths: Path, source: str | None = "en", target: str | None = "de") -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(paths, source=source, target=target)]


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("suffix", PAIRS)
def test_every_format_gives_the_same_pairs(tmp_path: Path, suffix: str, gz: str) -> None:
    assert texts(write(tmp_path / f"corpus{suffix}{gz}", FILES[suffix])) == EXPECTED


def test_formats_are_chained_in_order(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"corpus{suffix}", FILES[suffix]) for suffix in PAIRS]
    assert texts(*paths) == EXPECTED * len(PAIRS)


@pytest.mark.parametrize(
    ("suffix", "skipped"),
    [
        (".jsonl", {"blank lines": 1}),
        (".csv", {"blank lines": 1}),
        (".tmx", {"translation units without both languages": 1}),
        (".xlf", {"segments without a translation": 3}),
        (".xliff", {"segments without a translation": 1}),
        (".po", {"messages without a finished translation": 3}),
    ],
)
def test_what_is_no_pair_is_counted(tmp_path: Path, suffix: str, skipped: dict[str, int]) -> None:
    path, counts = write(tmp_path / f"corpus{suffix}", FILES[suffix]), Counter[str]()
    list(read_pairs([path], source="en", target="de", skipped=counts))
    assert counts == skipped


def test_places_name_file_and_line(tmp_path: Path) -> None:
    english, german = write(tmp_path / "t.en", "a\nb\n"), write(tmp_path / "t.de", "c\nd\n")
    assert list(read_pairs([english, german], source=None, target=None))[1] == Pair("b", "d", f"{english} line 2")
    table = write(tmp_path / "t.csv", 'en,de\n"two\nlines",zwei\nthree,drei\n')
    assert [p.place for p in read_pairs([table], source="en", target="de")] == [f"{table} line 2", f"{table} line 4"]


# Lines


def test_sentences_of_a_source_are_put_together_and_each_target_makes_a_pair(tmp_path: Path) -> None:
    """As SciTLDR writes its abstracts and summaries."""
    record = '{"source": ["Two dogs.", "They play."], "target": ["Dogs play.", "Play."], "id": [1]}\n'
    path = write(tmp_path / "summaries.jsonl", record + '{"source": "A", "target": ["B"]}\n')
    whole = "Two dogs. They play."
    first, second = f"{path} line 1", f"{path} line 2"
    expected = [Pair(whole, "Dogs play.", first), Pair(whole, "Play.", first), Pair("A", "B", second)]
    assert list(read_pairs([path], source=None, target=None)) == expected


@pytest.mark.parametrize("wrong", ["[]", "[1]", '["a", null]', "{}", "3"])
def test_a_target_that_is_no_text_is_refused(tmp_path: Path, wrong: str) -> None:
    path = write(tmp_path / "summaries.jsonl", f'{{"source": "a", "target": {wrong}}}\n')
    with pytest.raises(InputError, match=r"line 1 has .* as 'target' where a text in quotes was expected"):
        list(read_pairs([path], source=None, target=None))


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    odd = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g"
    path = write(tmp_path / "t.en", f"\ufeff{odd}\r\n\n\ufefflast\rword")
    assert list(read_lines(path)) == [odd, "", "\ufefflast\rword"]


@pytest.mark.parametrize(
    ("content", "lines"), [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\n", ["a", ""])]
)
def test_the_last_line_may_lack_its_end(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "t.en", content))) == lines


def test_lines_longer_than_a_block(tmp_path: Path) -> None:
    lines = ["é" * BLOCK, "x", "ü" * (2 * BLOCK), "", "y" * (BLOCK - 1), "z"]
    for name in ("t.en", "t.en.gz"):
        assert list(read_lines(write(tmp_path / name, "\n".join(lines)))) == lines


@given(st.lists(st.text(st.characters(blacklist_characters="\n\r\0\ufeff", blacklist_categories=["Cs"]))))
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.en"
    assert list(read_lines(write(path, "".join(line + "\n" for line in lines)))) == lines


# Languages and columns


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["train.en", "train.de"], ("en", "de")),
        (["train.en.gz", "train.pt-BR.GZ"], ("en", "pt-BR")),
        (["a.b.zho_Hans", "a.b.deu"], ("zho_Hans", "deu")),
        (["train.src", "train.tgt"], (None, None)),
        (["english.txt", "german"], (None, None)),
        (["train.en", "train.qq"], ("en", None)),
    ],
)
def test_file_names_tell_the_languages(names: list[str], codes: tuple[str | None, str | None]) -> None:
    assert languages([Path(name) for name in names]) == codes


@pytest.mark.parametrize(
    ("header", "source", "target", "expected"),
    [
        ("en\tde", "en", "de", ("one", "two")),
        ("en\tde", "de", "en", ("two", "one")),
        ("EN-US\tDe", "de", "en", ("two", "one")),
        ("en\tde", None, None, ("one", "two")),
        ("de\ten", None, "de", ("two", "one")),
        ("de\ten", "en", None, ("two", "one")),
        ("target\tsource", None, None, ("two", "one")),
        ("eng\tdeu", "deu", "eng", ("two", "one")),
    ],
)
@pytest.mark.parametrize(("suffix", "between"), [(".tsv", "\t"), (".csv", ",")])
def test_a_header_names_the_columns(
    tmp_path: Path, header: str, source: str, target: str, expected: tuple[str, str], suffix: str, between: str
) -> None:
    path = write(tmp_path / f"t{suffix}", f"{header}\none\ttwo\n".replace("\t", between))
    assert texts(path, source=source, target=target) == [expected]


def test_columns_by_name_may_be_many(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "id\tfr\tde\ten\n7\tun\tein\tone\n")
    assert texts(path) == [("one", "ein")]


def test_without_a_header_the_first_column_is_the_source(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'He said "no\tEr sagte „nein\nGo.\tGeh.\n')
    assert texts(path) == [('He said "no', "Er sagte „nein"), ("Go.", "Geh.")]


@pytest.mark.parametrize(
    ("srclang", "source", "target"),
    [("en", None, None), ("en-US", None, None), ("*all*", "en", None), ("*all*", None, "de")],
)
def test_two_languages_of_a_tmx_need_not_be_named(tmp_path: Path, srclang: str, source: str, target: str) -> None:
    path = write(tmp_path / "t.tmx", TMX.replace('srclang="EN-US"', f'srclang="{srclang}"'))
    assert texts(path, source=source, target=target) == EXPECTED
    assert texts(path, source="de", target=None) == [(target, source) for source, target in EXPECTED]


def test_the_header_of_a_tmx_may_add_a_region(tmp_path: Path) -> None:
    units = UNIT.format("de", "en") * 2
    path = write(tmp_path / "t.tmx", f'<tmx><header srclang="en-US"/><body>{units}</body></tmx>')
    assert texts(path, source=None, target=None) == [("y", "x")] * 2


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        (("a.tsv", "en\tde\nx\ty\n"), ("b.tsv", "de\ten\ny\tx\n"), ("en", "de")),
        (("a.csv", "de-AT,en-GB\nx,y\n"), ("b.tmx", HEADED.format("en", UNIT.format("de", "en-US"))), ("de", "en")),
        (("a.tmx", HEADED.format("en", UNIT.format("en", "de"))),
         ("b.tmx", HEADED.format("de", UNIT.format("en", "de"))), ("en", "de")),
        (("a.tmx", HEADED.format("en-US", UNIT.format("en-US", "en-GB"))), ("b.tsv", "en-GB\ten-US\ny\tx\n"),
         ("en-US", "en-GB")),
        (("a.tsv", "source\ttarget\nx\ty\n"), ("b.tsv", "x\ty\n"), (None, None)),
    ],
)  # fmt: skip
def test_the_first_file_that_names_languages_settles_the_direction_of_all(
    tmp_path: Path, first: tuple[str, str], second: tuple[str, str], codes: tuple[str | None, str | None]
) -> None:
    paths = [write(tmp_path / name, content) for name, content in (first, second)]
    assert languages(paths) == codes
    assert texts(*paths, source=None, target=None) == [("x", "y")] * 2


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_a_file_that_begins_with_nothing_names_no_languages(tmp_path: Path, name: str) -> None:
    for content in ("", "\n", "alone\n"):
        assert languages([write(tmp_path / name, content)]) == (None, None)


@pytest.mark.parametrize(
    ("source", "target", "codes"),
    [("de", None, ("de", "en")), (None, "en-US", ("de", "en-US")), ("fr", "it", ("fr", "it"))],
)
def test_the_language_that_is_asked_for_counts(
    tmp_path: Path, source: str | None, target: str | None, codes: tuple[str, str]
) -> None:
    path = write(tmp_path / "t.tmx", HEADED.format("en", UNIT.format("en-US", "de-DE")))
    assert languages([path], source, target) == codes


def test_tmx_in_utf_16(tmp_path: Path) -> None:
    assert texts(write(tmp_path / "t.tmx", TMX.replace("UTF-8", "UTF-16").encode("utf-16"))) == EXPECTED


def test_po_plurals_and_odd_characters(tmp_path: Path) -> None:
    content = (
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] "%d plik"\nmsgstr[1] "%d pliki"\nmsgstr[2] "%d plików"\n'
    )
    path = write(tmp_path / "t.po", content + '\nmsgid "a\u2028b"\nmsgstr "c\x85d"\n')
    assert texts(path) == [("%d file", "%d plik"), ("%d files", "%d plików"), ("a\u2028b", "c\x85d")]


GROWTH = """
import sys, psutil
from pathlib import Path
from qkv.text import read_pairs
for path in sys.argv[1:]:
    most = 0
    for number, pair in enumerate(read_pairs([Path(path)], source="en", target="de")):
        if number % 1000 == 100:
            memory = psutil.Process().memory_info().rss
            first = memory if number == 100 else first
            most = max(most, memory)
    print(number + 1, (most - first) / 2**20)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    unit = "<trans-unit><source>x</source><target>y</target><note/></trans-unit>"
    tmx = write(tmp_path / "t.tmx", f"<tmx><body>{UNIT.format('en', 'de') * 30_000}</body></tmx>")
    xliff = write(tmp_path / "t.xlf", f"<xliff><file><body>{unit * 30_000}</body></file></xliff>")
    command = [sys.executable, "-c", GROWTH, str(tmx), str(xliff)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        pairs, megabytes = line.split()
        assert int(pairs) == 30_000
        assert float(megabytes) < 5  # the whole trees take 36 and 20


def test_a_real_corpus() -> None:
    paths = [real("multi30k", "train.en.gz"), real("multi30k", "train.de.gz")]
    pairs = list(read_pairs(paths, source="en", target="de"))
    assert len(pairs) == 29_000  # SOURCE.md of the corpus
    assert pairs[0][:2] == (
        "Two young, White males are outside near many bushes.",
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    )
    assert languages(paths) == ("en", "de")
