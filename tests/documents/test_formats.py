"""One realistic file of each format, before and after: what is translated is marked in it, all else is compared."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kit import refused
from qkv.documents import FORMATS, FileReport, translate_file
from qkv.documents.format import Languages
from qkv.documents.text import PlainText
from qkv.errors import InputError

Both = Callable[[str], tuple[str, str]]
DOCS = Path(__file__).parents[2] / "docs"

TXT = """\ufeff«Read me first»\r
\r
  «Dear» {name}«,»\r
\t«see» https://a.org/b. «Thanks!»   «Bye.»\r
42 -- 🙂\r
"""
SRT = """1
00:00:01,000 --> 00:00:02,500 X1:10
<i>«Two dogs play»</i>
«in the snow.»

2
00:00:03,000 --> 00:00:04,000
- «Who is there?»
- «It is me!»

3
00:00:05,000 --> 00:00:06,000
{\\an8}♪ 123 ♪
"""
VTT = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE a comment

intro
00:01.000 --> 00:02.000 align:start
<v Ann>«Salt» &amp; «pepper are» <c.loud>«hot»</c><00:01.500> «today.»
"""
HTML = """<!DOCTYPE html>
<html lang="⟦de⟧"><head><title>«My page»</title><meta name="x" content="stay"><meta name="Description" content="«All of it.»">
<script>if (a<b && c>d) { say("stay </p>") }</script><style>p > a { color: red }</style></head>
<body onload="stay()">
  <!-- stay -->
  <h1>«Salt» &amp; «pepper»</h1>
  <p class='k'>«A» <b id="b1">«red car»</b> «is near» <a href="http://a.org/?b=1&amp;c=2" title="«Come in»">«my house»</a>«.»<br>
     «It costs 5»&nbsp;«euros» &copy; «and» <code>x &lt; y</code> «is true.»</p>
  <ul><li>«One» <kbd>Ctrl</kbd>+<kbd>S</kbd></li><li translate="no">stay <b>stay</b></li><li><span class="a notranslate">Stay</span> «here»</li></ul>
  <img src=a.png alt="«A big dog»"><pre>stay
   as it is</pre><input placeholder='«Your name»' value="stay"><textarea>stay</textarea>
  <p>&lt;b&gt; «is a tag»</p><p>42</p><svg><title>stay</title></svg>
</body></html>
"""  # noqa: E501
MD = """---
title: stay
---

# «A heading» #

«A» **«red car»** «is near» [«my house»](http://a.org/a_(b) "stay")«. Use»
`stay` «and» <kbd>stay</kbd> $a_1 = b_2^{stay}$ :stay: --stay -s «at $5 or $6» *«come»* «to the
end.»

> «Quoted text of»
> **«two lines»** «here.»

- [ ] «Do this»
- [x] «See» [ref] «and» [«that»][ref]«.»[^1]
    * «A» ~~«bad»~~ «item» ![«a dog»](dog.png)

| «Name» | «Value» |
|------|:-----:|
| «one» | `stay` «two» |

```python
stay = "stay"
```

    stay indented

<div>stay</div>

«First line»  \n«second line with» {{ x }} «and» <b>«bold»</b> «and» <http://a.org/>«.»

«Setext»
--------

[ref]: http://a.org "stay"
[^1]: «A note.»
"""
PO = r"""# stay
msgid ""
msgstr ""
"Project-Id-Version: stay 1.0\n"
"Language: de\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. stay
#: src/a.c:1
#, c-format
msgid "Open %s with \"%d\" files"
msgstr "⟦«Open» %s «with» \"%d\" «files»⟧"

#, fuzzy
#| msgid "stay"
msgid "A dog"
msgstr "Hund"

#, fuzzy, c-format
msgid "stay %s"
msgstr ""

msgctxt "menu"
msgid "A boy"
msgstr "Ein Junge"

msgid ""
"First line.\n"
"Second <b>line</b>\n"
msgstr ""⟦
"«First line.»\n"
"«Second» <b>«line»</b>\n"⟧

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "⟦%d «file»⟧"
msgstr[1] "⟦%d «files»⟧"

msgid "%s: %d"
msgstr "⟦%s: %d⟧"

#~ msgid "stay"
#~ msgstr ""
"""
XLIFF_1 = """<?xml version='1.0' encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><!-- stay -->
  <file original="x" source-language="en-US" target-language='de' datatype="plaintext">
    <body>
      <trans-unit id="1" >
        <source>A <g id="1">red car</g> is near <x id="2"/>my house.</source>⟦
        <target>«A» <g id="1">«red car»</g> «is near» <x id="2"/>«my house.»</target>⟧
        <note>stay</note>
      </trans-unit>
      <trans-unit id="2"><source>Salt &amp; pepper</source><target state="⟦translated⟧">⟦«Salt» &amp; «pepper»⟧</target></trans-unit>
      <trans-unit id="3"><source>stay</source><target>Bleib</target></trans-unit>
      <trans-unit id="4" translate="no"><source>stay</source></trans-unit>
      <trans-unit id="5"><source>go</source>⟦<target>«go»</target>⟧<alt-trans><source>stay</source><target>alt</target></alt-trans></trans-unit>
      <trans-unit id="7"><source>Open <mrk mtype="protected">stay <mrk mtype="x">stay</mrk></mrk> now</source>⟦<target>«Open» <mrk mtype="protected">stay <mrk mtype="x">stay</mrk></mrk> «now»</target>⟧</trans-unit>
      <group translate="no"><trans-unit id="6"><source>stay</source></trans-unit></group>
    </body>
  </file>
</xliff>
"""  # noqa: E501
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"⟦ trgLang="de"⟧>
 <file id="f1"><unit id="u1">
   <segment id="s1" state="⟦translated⟧"><source>Two <pc id="1">dogs</pc> play<ph id="2"/>.</source>⟦<target>«Two» <pc id="1">«dogs»</pc> «play»<ph id="2"/>.</target>⟧</segment>
   <ignorable><source> stay </source></ignorable>
   <segment><source>Go <mrk id="3" translate="no">stay</mrk> on</source>⟦<target>«Go» <mrk id="3" translate="no">stay</mrk> «on»</target>⟧</segment>
   <segment><source>stay</source><target>Bleib.</target></segment></unit></file>
</xliff>
"""  # noqa: E501
TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype='plaintext'/>
<body>
  <tu tuid="1">
    <tuv xml:lang="en-US"><seg>Press <bpt i="1">&lt;b&gt;</bpt>the red key<ept i="1">&lt;/b&gt;</ept> now &amp; wait.</seg></tuv>
    <tuv xml:lang="fr"><seg>stay</seg></tuv>⟦
    <tuv xml:lang="de"><seg>«Press» <bpt i="1">&lt;b&gt;</bpt>«the red key»<ept i="1">&lt;/b&gt;</ept> «now» &amp; «wait.»</seg></tuv>⟧
  </tu>
  <tu><tuv xml:lang="en"><seg>stay</seg></tuv><tuv xml:lang="DE-at"><seg>Hund</seg></tuv></tu>
  <tu><tuv xml:lang="es"><seg>stay</seg></tuv></tu>
</body></tmx>
"""  # noqa: E501
JSON = """{
  "stay": "«Two» \\"«dogs»\\"\\n«play» {{stay}}", "n": [ 42, "«One day»", null, "42" ],
  "menu" : {"open":"«Open» %s «now»", "stay": {"deep\\u0041": "«A café»" } }, "url": "https://stay.org"
}
"""
ARB = """{
  "@@locale": "⟦de⟧",
  "hello": "«Hello» {stay}«!»",
  "@hello": {"description": "stay", "placeholders": {"stay": {"type": "stay"}}}
}
"""
PROPERTIES = r"""# stay
! stay
stay.open = «Open» {0}«, don''t» «go»
stay\ key:«Two dogs»\n«play»
  stay2   «words after a space»
stay3=«last words»
empty=
number=42
"""
STRINGS = """/* stay "stay" = "stay"; */
"stay" = "«Open» \\"%@\\" «now»";
// stay
stay_2="«Two dogs»";
"""
YAML = """# stay
en:
  stay: «Two dogs play»   # stay
  quoted: "«Open» \\"%{stay}\\"«:» «now»"
  single: '«It''s» «a dog»'
  list:
    - «One day»
    - 42
    - yes
    - !stay stay
  "key": &stay «Anchored»
  again: *stay
  none: "42"
  lines: |
    «First line»

    «Second» {{stay}}
  folded: >-
    «One sentence that goes on»

    «And another»
  flow: {a: «Run now», b: [«stop»]}
  number: 12:30
"""
# A file, how its name ends, and how many segments are translated and kept. State "new" is in the file before only.
FILES = {
    "txt": (TXT, ".txt", 3, 1), "srt": (SRT, ".srt", 2, 1), "vtt": (VTT, ".vtt", 1, 0), "html": (HTML, ".html", 11, 0),
    "md": (MD, ".md", 13, 0), "po": (PO, ".po", 4, 4), "xliff 1.2": (XLIFF_1, ".xlf", 4, 3),
    "xliff 2.0": (XLIFF_2, ".xliff", 2, 1), "tmx": (TMX, ".tmx", 1, 2), "json": (JSON, ".json", 4, 2),
    "arb": (ARB, ".arb", 1, 2), "properties": (PROPERTIES, ".properties", 4, 1), "strings": (STRINGS, ".strings", 2, 0),
    "yaml": (YAML, ".yaml", 9, 4),
}  # fmt: skip
ANY_VALUE = re.compile(  # may change
    r"""(?<=state|title|older)=("[^"]*"|'[^']*')|(?<=alt)="[^"]*"|(?<=lang)="[^"]*"| content="(?!stay)[^"]*\""""
    r"""| trgLang="de\""""
)
OLD_STATES = {"xliff 1.2": "new", "xliff 2.0": "initial"}


def files(both: Both, name: str) -> tuple[bytes, bytes]:
    annotated = FILES[name][0]
    before, after = both(annotated)
    before = before.replace('state=""', f'state="{OLD_STATES.get(name)}"').replace('lang=""', 'lang="en"')
    before = before.replace('"@@locale": ""', '"@@locale": "en"')
    return before.encode(), after.encode()


def run(translator: Any, folder: Path, suffix: str, data: bytes) -> tuple[FileReport, bytes]:
    """With no mark of a machine's translation: see test_review.py."""
    (folder / f"a{suffix}").write_bytes(data)
    report = translate_file(translator, folder / f"a{suffix}", folder / f"b{suffix}", final=True)
    return report, (folder / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_only_the_words_change(name: str, both: Both, upper: Any, tmp_path: Path) -> None:
    before, after = files(both, name)
    assert before != after
    report, written = run(upper, tmp_path, FILES[name][1], before)
    assert written.decode() == after.decode()
    assert (report.translated, report.kept) == FILES[name][2:]
    assert len(upper.calls) == 1, "one batch"
    assert {path.name for path in tmp_path.iterdir()} == {f"a{FILES[name][1]}", f"b{FILES[name][1]}"}


@pytest.mark.parametrize("name", FILES)
def test_any_translator_leaves_the_marks(name: str, both: Both, any_rule: Any, tmp_path: Path) -> None:
    """Tags, times, placeholders and what is to stay are there as often as before, whatever the translator says."""
    before, _ = files(both, name)
    _, written = run(any_rule, tmp_path, FILES[name][1], before)
    marks = r"<[^<>]*>|[{]+ ?\w+ ?[}]+|%\w|[\d:.,]+ --> [\d:.,]+|`[^`\n]*`|&copy;|&nbsp;|\]\([^()]*\)|\bstay\b"
    old, new = (Counter(re.findall(marks, ANY_VALUE.sub("", file.decode()))) for file in (before, written))
    assert old <= new
    assert b"\x1f" not in written


@pytest.mark.parametrize("name", ["po", "xliff 1.2", "xliff 2.0", "tmx"])
def test_a_second_time_there_is_nothing_to_do(name: str, both: Both, upper: Any, tmp_path: Path) -> None:
    _, after = files(both, name)
    report, written = run(upper, tmp_path, FILES[name][1], after)
    assert (report.translated, written, upper.calls) == (0, after, [])


def test_every_format_has_a_file() -> None:
    assert set(FORMATS) == {suffix for _, suffix, *_ in FILES.values()} | {".htm", ".docx", ".yml"}


# -- other programs read what is written -----------------------------------------------------------------------------


def test_polib_finds_the_translations(both: Both, upper: Any, tmp_path: Path) -> None:
    polib = pytest.importorskip("polib")
    before, _ = files(both, "po")
    run(upper, tmp_path, ".po", before)
    old, new = (polib.pofile(str(tmp_path / name)) for name in ("a.po", "b.po"))
    assert [(e.msgid, e.msgctxt, e.comment, e.flags, e.obsolete) for e in old] == [
        (e.msgid, e.msgctxt, e.comment, e.flags, e.obsolete) for e in new
    ]
    assert new.find("%d file").msgstr_plural == {0: "%d FILE", 1: "%d FILES"}
    assert new.metadata == old.metadata
    assert not new.untranslated_entries()


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_pysubs2_finds_the_same_times(suffix: str, both: Both, upper: Any, tmp_path: Path) -> None:
    pysubs2 = pytest.importorskip("pysubs2")
    before, _ = files(both, suffix)
    run(upper, tmp_path, f".{suffix}", before)
    old, new = (pysubs2.load(str(tmp_path / f"{name}.{suffix}")) for name in "ab")
    assert [(e.start, e.end, e.plaintext.upper()) for e in old] == [(e.start, e.end, e.plaintext.upper()) for e in new]
    assert [e.plaintext for e in old] != [e.plaintext for e in new]


def test_a_browser_sees_the_same_page(both: Both, any_rule: Any, tmp_path: Path) -> None:
    parser = pytest.importorskip("selectolax.lexbor")
    before, _ = files(both, "html")
    _, written = run(any_rule, tmp_path, ".html", before)

    def shape(page: bytes) -> list[str]:
        tree = parser.LexborHTMLParser(page.decode())
        return sorted(
            f"{node.tag} {node.attributes.get('id')} {node.parent and node.parent.tag}" for node in tree.root.traverse()
        )

    assert shape(written) == shape(before)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_our_own_pages(page: Path, upper: Any, tmp_path: Path) -> None:
    """But for capital letters nothing is changed, and in code not even those."""
    report, written = run(upper, tmp_path, ".md", page.read_bytes())
    text, new = page.read_text(encoding="utf-8"), written.decode()
    assert new.upper() == text.upper()
    assert report.translated > 3

    def code(page: str) -> list[str]:
        tokens = [inner for token in MarkdownIt().parse(page) for inner in [token, *(token.children or [])]]
        return [token.content for token in tokens if token.type in ("fence", "code_block", "code_inline")]

    assert code(new) == code(text)


# -- spellings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "iso-8859-1"])
def test_an_encoding_stays(encoding: str, upper: Any, tmp_path: Path) -> None:
    name = encoding.removesuffix("-sig")
    unit = '<tu><tuv lang="en"><seg>caf\u00e9</seg></tuv></tu>'
    file = f'<?xml version="1.0" encoding="{name}"?><tmx><body>{unit}</body></tmx>'
    _, written = run(upper, tmp_path, ".tmx", file.encode(encoding))
    assert written.decode(encoding).count('<tuv xml:lang="de"><seg>CAF\u00c9</seg></tuv>') == 1
    assert written[:2] == file.encode(encoding)[:2]


@pytest.mark.parametrize("declared", ["ascii", "US-ASCII", "CHARSET", "utf-8"])
@pytest.mark.parametrize("before", ["", "X: y\\n"], ids=["alone", "with another field"])
def test_a_catalogue_of_ascii_becomes_utf_8(declared: str, before: str, made_up: Any, tmp_path: Path) -> None:
    file = f'msgid ""\nmsgstr "{before}Content-Type: text/plain; charset={declared}\\n"\n\nmsgid "two"\nmsgstr "%"\n'
    _, written = run(made_up(lambda text: "z\u00f6"), tmp_path, ".po", file.replace("%", "").encode())
    charset = declared if declared == "utf-8" else "UTF-8"
    assert written.decode() == file.replace("%", "z\u00f6").replace(declared, charset)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('<meta charset="iso-8859-1">', b"&#8222;&#246;"),
        ("<META http-equiv=Content-Type content='text/html; charset=windows-1252'>", b"&#8222;&#246;"),
        ('<?xml version="1.0" encoding="iso-8859-1"?>', b"&#8222;\xf6"),
        ('<meta charset="utf-8">', "\u201e\u00f6".encode()),
        ("", "\u201e\u00f6".encode()),
    ],
)
def test_letters_that_a_page_cannot_hold_are_entities(head: str, expected: bytes, made_up: Any, tmp_path: Path) -> None:
    page = head.encode() + b'<p title="two">two</p>'
    _, written = run(made_up(lambda text: "\u201e\u00f6"), tmp_path, ".html", page)
    assert written == page.replace(b"two", expected)


def test_windows_line_ends_in_po(upper: Any, tmp_path: Path) -> None:
    _, written = run(upper, tmp_path, ".po", b'msgid ""\r\n"one\\n"\r\n"two"\r\nmsgstr ""\r\n')
    assert written == b'msgid ""\r\n"one\\n"\r\n"two"\r\nmsgstr ""\r\n"ONE\\n"\r\n"TWO"\r\n'


def test_each_speaker_is_a_sentence_of_their_own(upper: Any, tmp_path: Path) -> None:
    run(upper, tmp_path, ".srt", b"1\n00:01 --> 00:02\n<i>- well</i>\n<i>- me</i>\n\n2\n00:03 --> 00:04\none\ntwo\n")
    assert upper.calls == [["- well", "- me", "one two"]]


def test_cues_without_blank_lines_between_them(upper: Any, tmp_path: Path) -> None:
    both = "1\n00:01 --> 00:02\n{}\n2\n00:03 --> 00:04\n{}\n{}\n\n3\n00:05 --> 00:06\n{}\n"
    words = ["two dogs", "start --> end", "now", "42"]
    _, written = run(upper, tmp_path, ".srt", both.format(*words).encode())
    assert written.decode() == both.format(*words).upper()
    assert upper.calls == [["two dogs", "start --> end now"]]


OLD_LINES = re.compile(r"[^\r\n]*\S[^\r\n]*")  # right, and slow where there are only spaces


@given(st.text(alphabet="a \t\r\n\x0b\x1f\x85\xa0\u2028\u3000"))
def test_the_lines_of_plain_text(text: str) -> None:
    spans = PlainText(text.encode(), "a.txt", Languages()).spans
    assert spans == [match.span() for match in OLD_LINES.finditer(text)]


def test_space_is_read_once(upper: Any, tmp_path: Path) -> None:
    """Of what each of these took a second look at each time, so much would take hours."""
    space = b" " * 2**21
    assert run(upper, tmp_path, ".txt", space)[1] == space
    header = b'msgid ""\nmsgstr "X: y' + space + b'z"\n'
    assert run(upper, tmp_path, ".po", header)[1] == header
    assert upper.calls == []


def test_a_markdown_cell_that_is_not_found_is_kept_and_told(upper: Any, tmp_path: Path) -> None:
    table = b"| a \\| b | c |\n|---|---|\n| d | e |\n"
    report, written = run(upper, tmp_path, ".md", table)
    assert written == b"| a \\| b | C |\n|---|---|\n| D | E |\n"
    assert report.remarks == ["blocks kept because of an escaped | or a tab in them: 1"]


@pytest.mark.parametrize("number", ["{a}", "7"])
def test_the_end_of_a_line_between_placeholders(number: str, made_up: Any, tmp_path: Path) -> None:
    translator = made_up(lambda text: "X" if "12" in text else text.upper())
    given, expected = (f"> {word}\n> {{b}}, {number}\n> {word} {{c}}\n" for word in ("go", "GO"))
    assert run(translator, tmp_path, ".md", given.encode())[1].decode() == expected


# -- mistakes --------------------------------------------------------------------------------------------------------

BOMB = '<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><tmx><body>&b;</body></tmx>'
OUTSIDE = '<!DOCTYPE xliff [<!ENTITY a SYSTEM "file:///etc/hostname">]><xliff version="1.2"><file>&a;</file></xliff>'
MISTAKES = {
    ".pdf": (b"x", "a.pdf: there is no format '.pdf'; give a file whose name ends in .txt, .srt"),
    ".txt": (b"ok\n\xff", "a.txt line 2 is not UTF-8 (byte 0xff); save the file as UTF-8"),
    ".html": (b"a\0b", "a.html holds a NUL character, which no text does; check that its name has the right ending"),
    ".srt": (b"hello\n", "a.srt has no line with a time (00:01 --> 00:02); check that it holds subtitles"),
    ".po": (b"hello\n", "a.po line 1 is not sound PO ('hello'); check it with: msgfmt --check"),
    ".xlf": (b"<tmx/>", "a.xlf begins with <tmx> where <xliff> was expected; export it as XLIFF 1.2 or 2.0"),
    ".tmx": (b"<tmx><body></tmx>", "a.tmx line 1 is not sound XML"),
    ".xliff": (OUTSIDE.encode(), "a.xliff uses XML entities (its DOCTYPE declares 'a'), which are refused"),
    ".docx": (b"hello", "a.docx is not a sound Word file (File is not a zip file); save it again as .docx"),
}


@pytest.mark.parametrize("suffix", MISTAKES)
def test_a_mistake_is_one_sentence(suffix: str, upper: Any, tmp_path: Path) -> None:
    data, sentence = MISTAKES[suffix]
    with pytest.raises(InputError, match=re.escape(sentence)):
        run(upper, tmp_path, suffix, data)
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]


@refused(
    {
        (".po", ""): "a.po has no message (msgid and msgstr); check that it is a PO file",
        (".po", 'msgid ""\nmsgstr "Language: fr\\n"\n'): "a.po has the header Language: fr, but the model's target",
        (".po", 'msgid ""\nmsgstr "Content-Type: x; charset=KOI8-R\\n"\n'): "a.po is in KOI8-R; convert it with",
        (".tmx", BOMB): "a.tmx uses XML entities",
        (".tmx", "<xliff/>"): "a.tmx begins with <xliff> where <tmx> was expected; export it as TMX 1.4",
        (".tmx", '<?xml version="1.0" encoding="klingon"?><tmx/>'): "a.tmx",
        (".txt", '<?xml version="1.0" encoding="utf_7"?>+2AA-'): "a.txt declares the encoding utf_7, which is unknown",
        (".txt", '<?xml version="1.0" encoding="undefined"?>'): "a.txt declares the encoding undefined, which",
        (".xlf", '<xliff srcLang="fr"/>'): "a.xlf has srcLang fr, but the model's source language is en;",
    },
    "suffix text",
    plain=True,
)
def test_more_mistakes(suffix: str, text: str, upper: Any, tmp_path: Path) -> None:
    run(upper, tmp_path, suffix, text.encode())


def test_a_memory_needs_a_target_language(upper: Any, tmp_path: Path) -> None:
    upper.about = {}
    with pytest.raises(InputError, match=r"a\.tmx: a new variant needs its language"):
        run(upper, tmp_path, ".tmx", b"<tmx/>")


def test_places(upper: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        translate_file(upper, tmp_path / "a.txt", tmp_path / "b.txt")
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "b.txt").mkdir()
    with pytest.raises(InputError, match="since it is a folder"):
        translate_file(upper, tmp_path / "a.txt", tmp_path / "b.txt")
    report = translate_file(upper, tmp_path / "a.txt", tmp_path / "c.bin", name="a.md")
    assert (tmp_path / "c.bin").read_text() == "HELLO"
    assert report == FileReport(1, 0, [])
