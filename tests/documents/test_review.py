"""Who translated what: a machine's work is marked for review, and exact matches are reused and marked as such."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kit import write
from qkv.documents import FileReport, translate_file
from qkv.documents.tags import with_attributes

PO = r"""# A licence.

msgid ""
msgstr "Language: de\nContent-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"

#. extracted
#: a.c:1
#, c-format
msgid "Open %s"
msgstr ""

# Said by a person.
#| msgid "Old"
msgctxt "menu"
msgid "New\n"
msgstr ""

msgid "Close"
msgstr "Schließen"

msgctxt "window"
msgid "Close"
msgstr ""

msgid "Print"
msgstr ""

msgid "Print"
msgid_plural "Close"
msgstr[0] ""
msgstr[1] "Alle"

msgid "42"
msgstr ""
"""
MACHINE = "# Machine translation by qkv, which nobody has reviewed yet."
PO_AFTER = rf"""# A licence.

msgid ""
msgstr "Language: de\nContent-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"

{MACHINE}
#. extracted
#: a.c:1
#, fuzzy, c-format
msgid "Open %s"
msgstr "OPEN %s"

{MACHINE}
# Said by a person.
#, fuzzy
#| msgid "Old"
msgctxt "menu"
msgid "New\n"
msgstr "NEW\n"

msgid "Close"
msgstr "Schließen"

# Exact match of another entry of this file.
msgctxt "window"
msgid "Close"
msgstr "Schließen"

# Exact match of memory.tsv.
msgid "Print"
msgstr "Drucken & fertig"

{MACHINE}
#, fuzzy
msgid "Print"
msgid_plural "Close"
msgstr[0] "PRINT"
msgstr[1] "Alle"

msgid "42"
msgstr "42"
"""
UNIT = '<trans-unit id="{}"><source>{}</source>{}</trans-unit>'
XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"><body>{}
</body></file></xliff>"""
UNITS_1 = {  # what is in a unit -> its target afterwards
    ("Open", ""): '<target state="needs-review-translation" state-qualifier="mt-suggestion">OPEN</target>',
    ("Open it", '<target state="new" id="7"/>'):
        '<target state="needs-review-translation" id="7" state-qualifier="mt-suggestion">OPEN IT</target>',
    ("Open me", "<target > </target>"):
        '<target state="needs-review-translation" state-qualifier="mt-suggestion" >OPEN ME</target>',
    ("A <g id='1'>red</g> car", "<target>Ein <g id='1'>rotes</g> Auto</target>"):
        "<target>Ein <g id='1'>rotes</g> Auto</target>",
    ("A <g id='1'>red</g> car", ""):
        "<target state=\"translated\" state-qualifier=\"exact-match\">Ein <g id='1'>rotes</g> Auto</target>",
    ("Print", ""): '<target state="translated" state-qualifier="exact-match">Drucken &amp; fertig</target>',
    ("Stop", '<target state="needs-review-translation">Halt</target>'):
        '<target state="needs-review-translation">Halt</target>',
    ("Stop", ""): '<target state="needs-review-translation" state-qualifier="mt-suggestion">STOP</target>',
}  # fmt: skip
XLIFF_2 = """<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="u"><segment><source>Open</source>{}</segment>
<segment id="2" state="initial"><source>Open it</source>{}</segment>
<segment state="translated"><source>Close</source><target>Zu</target></segment>
<segment><source>Close</source>{}</segment>
<segment state="translated" subState="qkv:machine"><source>Go</source><target>GEH</target></segment>
<segment><source>Go</source>{}</segment></unit></file></xliff>"""
TMX = """<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Open</seg></tuv>{}</tu>
<tu><tuv xml:lang="en"><seg>Close</seg></tuv><tuv xml:lang="de"><seg>Zu</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Close</seg></tuv>{}</tu></body></tmx>"""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.tsv"
    path.write_text("Print\tDruck\n Print \tDrucken & fertig\nMore\tMehr\n", encoding="utf-8")
    return path


def run(translator: Any, folder: Path, suffix: str, text: str, **how: Any) -> tuple[FileReport, str]:
    (folder / f"a{suffix}").write_text(text, encoding="utf-8")
    report = translate_file(translator, folder / f"a{suffix}", folder / f"b{suffix}", **how)
    return report, (folder / f"b{suffix}").read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_po(end: str, upper: Any, memory: Path, tmp_path: Path) -> None:
    """A comment and the flag; entries that share a text but have plurals are no match."""
    (tmp_path / "a.po").write_bytes(PO.replace("\n", end).encode())
    report = translate_file(upper, tmp_path / "a.po", tmp_path / "b.po", memory=[memory])
    assert (tmp_path / "b.po").read_bytes().decode() == PO_AFTER.replace("\n", end)
    assert report == FileReport(3, 3, [], reused=2)
    assert str(report) == "3 segments translated, 2 reused, 3 kept"
    again = translate_file(upper, tmp_path / "b.po", tmp_path / "c.po", memory=[memory])
    assert (again.translated, again.reused) == (0, 0)
    assert (tmp_path / "c.po").read_bytes() == (tmp_path / "b.po").read_bytes()


def test_gettext_reads_it(upper: Any, memory: Path, tmp_path: Path) -> None:
    program = shutil.which("msgfmt")
    if program is None:
        pytest.skip("there is no msgfmt here; gettext has it")
    whole = PO.replace('msgid "Print"\nmsgstr ""\n\n', "")  # which gettext does not take twice
    run(upper, tmp_path, ".po", whole, memory=[memory])
    command = [
        program,
        "-c",
        "--check-accelerators",
        "--statistics",
        "-o",
        str(tmp_path / "b.mo"),
        str(tmp_path / "b.po"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C"})
    errors = [line for line in done.stderr.splitlines() if "header field" not in line and "warning" not in line]
    assert errors[-1] == "3 translated messages, 3 fuzzy translations."


@pytest.mark.parametrize("rule", ["upper", "reverse"])
@pytest.mark.parametrize(("name", "sign"), [("gtk30", "_"), ("glib20", "_"), ("bash", "&"), ("dpkg", "&")])
def test_catalogues_of_debian(name: str, sign: str, rule: str, made_up: Any, tmp_path: Path) -> None:
    """Real ones, without their translations: gettext's own checks of formats, line ends and accelerators find nothing,
    even if a translator turns every sentence round."""
    compiled, undo = Path(f"/usr/share/locale/de/LC_MESSAGES/{name}.mo"), shutil.which("msgunfmt")
    if undo is None or not compiled.exists():
        pytest.skip(f"{compiled} or msgunfmt is not here; Debian's gettext and {name} have them")
    text = subprocess.run([undo, compiled], capture_output=True, text=True, check=True, encoding="utf-8").stdout
    header, *entries = text.split("\n\n")[:400]
    flagged = [f"#, c-format\n{entry}" if "%" in entry else entry for entry in entries]
    empty = [re.sub(r'^(msgstr(?:\[\d\])?) (?:".*"\n?)+', r'\1 ""\n', entry, flags=re.M) for entry in flagged]
    source = write(tmp_path / "a.po", "\n\n".join([header, *empty]) + "\n")
    translator = made_up({"upper": str.upper, "reverse": lambda text: " ".join(text.split()[::-1])}[rule])
    report = translate_file(translator, source, tmp_path / "b.po", final=True)
    assert report.translated > 300
    command = ["msgfmt", "-c", f"--check-accelerators={sign}", "-o", "/dev/null", str(tmp_path / "b.po")]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (0, "")


def test_xliff_1(upper: Any, memory: Path, tmp_path: Path) -> None:
    before = "".join(UNIT.format(i, *both) for i, both in enumerate(UNITS_1))
    after = "".join(UNIT.format(i, source, new) for i, ((source, _), new) in enumerate(UNITS_1.items()))
    report, written = run(upper, tmp_path, ".xlf", XLIFF_1.format(before), memory=[memory])
    assert written == XLIFF_1.format(after)
    assert (report.translated, report.reused, report.kept) == (4, 2, 2)
    ElementTree.fromstring(written)
    assert run(upper, tmp_path, ".xlf", written, memory=[memory])[1] == written


def test_xliff_2(upper: Any, tmp_path: Path) -> None:
    """What a machine wrote in an earlier run is no match."""
    report, written = run(upper, tmp_path, ".xliff", XLIFF_2.format("", "", "", ""))
    targets = [f"<target>{text}</target>" for text in ("OPEN", "OPEN IT", "Zu", "GO")]
    expected, machine = XLIFF_2.format(*targets), 'state="translated" subState="qkv:machine"'
    expected = expected.replace(
        "<segment><source>Close", '<segment state="translated" subState="qkv:exact-match"><source>Close'
    )
    expected = expected.replace("<segment>", f"<segment {machine}>").replace('state="initial"', machine)
    assert written == expected
    assert (report.translated, report.reused, report.kept) == (3, 1, 2)


def test_tmx(upper: Any, tmp_path: Path) -> None:
    report, written = run(upper, tmp_path, ".tmx", TMX.format("", ""))
    variants = [f'<tuv xml:lang="de" creationid="qkv-{origin}"><seg>{text}</seg></tuv>'
                for origin, text in (("machine", "OPEN"), ("exact-match", "Zu"))]  # fmt: skip
    assert written == TMX.format(*variants)
    assert (report.translated, report.reused) == (1, 1)


@pytest.mark.parametrize("suffix", [".po", ".xlf", ".xliff", ".tmx"])
def test_final(suffix: str, upper: Any, memory: Path, tmp_path: Path) -> None:
    """No mark is added; what was reused is the same."""
    units = "".join(UNIT.format(i, *both) for i, both in enumerate(UNITS_1))
    text = {".po": PO, ".xlf": XLIFF_1.format(units), ".xliff": XLIFF_2.format(*[""] * 4), ".tmx": TMX.format("", "")}
    marked, written = (
        run(upper, tmp_path, suffix, text[suffix], memory=[memory], final=final) for final in (False, True)
    )
    assert marked[0] == written[0]
    marks = r"fuzzy|# (Machine|Exact)|exact-match|mt-suggestion|creationid"
    assert re.search(marks, marked[1])
    assert not re.search(marks, written[1])
    assert written[1].count("qkv") == text[suffix].count("qkv")
    assert 'state="new"' not in written[1]


@pytest.mark.parametrize("suffix", [".html", ".md", ".txt", ".srt"])
def test_a_memory_is_for_any_format(suffix: str, upper: Any, memory: Path, tmp_path: Path) -> None:
    text = {".html": "<p>{}</p><p> {} </p>", ".srt": "1\n00:01 --> 00:02\n{}\n\n2\n00:03 --> 00:04\n{}\n"}
    given = text.get(suffix, "{}\n\n{}\n")
    report, written = run(upper, tmp_path, suffix, given.format("Print", "More or less"), memory=[memory])
    assert written == given.format("Drucken &amp; fertig" if suffix == ".html" else "Drucken & fertig", "MORE OR LESS")
    assert (report.translated, report.reused) == (1, 1)


def test_attributes() -> None:
    assert with_attributes("<a b=\"1\" c='2' />", {"c": "3", "d": "4"}) == '<a b="1" c=\'3\' d="4" />'
    assert with_attributes("<a>", {"x": "1", "y": "2"}) == '<a x="1" y="2">'
