"""`qkv translate` with documents: a file of the same format out, with the same text as from Python."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv import cli, folder
from qkv.decoding import Translator
from qkv.documents import compiled, translate_file, translate_html, translate_text

PO = 'msgid "A B {x}"\nmsgstr ""\n\n#, fuzzy\nmsgid "C"\nmsgstr "eins"\n'
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(backwards: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("a.po")` is `qkv translate a.po` in a folder with a model: its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    folder.save(tmp_path / "model", backwards.model, backwards.tokenizer, backwards.about)
    (tmp_path / "a.po").write_text(PO, encoding="utf-8")

    def command(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["qkv", "translate", *arguments, "--beam", "1"])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8", newline=""))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as stopped:
                cli.main()
        return int(stopped.value.code or 0), out.getvalue(), err.getvalue()

    return command


def test_a_file_of_a_format(run: Run, backwards: Translator, tmp_path: Path) -> None:
    code, out, err = run("a.po", "-o", "new/b.po")
    assert (code, out) == (0, "")
    assert err == "messages that are marked as fuzzy, and were kept: 1\nnew/b.po: 1 segment translated, 1 kept\n"
    translate_file(backwards, tmp_path / "a.po", tmp_path / "c.po", beam=1)
    assert (tmp_path / "new" / "b.po").read_bytes() == (tmp_path / "c.po").read_bytes() != PO.encode()


def test_a_name_with_the_language_in_it(run: Run, tmp_path: Path) -> None:
    assert run("a.po")[2].endswith("a.de.po: 1 segment translated, 1 kept\n")
    assert (tmp_path / "a.de.po").exists()
    assert run("a.po")[0::2] == (1, "qkv: a.de.po is there already; name the file to write with -o\n")
    (tmp_path / "a.en.md").write_text("A")
    assert run("a.en.md")[2] == "a.de.md: 1 segment translated, 0 kept\n"


def test_a_memory_and_no_marks(run: Run, tmp_path: Path) -> None:
    (tmp_path / "memory.tsv").write_text("A B {x}\tzwei {x}\n", encoding="utf-8")
    assert run("a.po", "--memory", "memory.tsv", "-o", "b.po")[2].endswith("0 segments translated, 1 reused, 1 kept\n")
    assert (tmp_path / "b.po").read_text().startswith("# Exact match of memory.tsv.\n")
    assert run("a.po", "--memory", "memory.tsv", "--final", "-o", "c.po")[0] == 0
    assert (tmp_path / "c.po").read_text() == PO.replace('msgstr ""', 'msgstr "zwei {x}"', 1)


def test_a_file_into_itself(run: Run, tmp_path: Path) -> None:
    assert run("a.po", "-o", "a.po")[0] == 0
    assert (tmp_path / "a.po").read_text() != PO


def test_json_is_the_report(run: Run) -> None:
    _, out, _ = run("a.po", "--json")
    report = json.loads(out)
    assert (report["translated"], report["kept"], len(report["remarks"])) == (1, 1, 1)


def test_plain_text_is_still_line_by_line(run: Run, backwards: Translator, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("  A B\n\nC\n")
    expected = [line.text for line in backwards.translate(["  A B", "", "C"], beam=1)]
    assert run("a.txt") == (0, "".join(f"{line}\n" for line in expected), "")


@pytest.mark.parametrize("name", ["a.ts", "a.odt", "a.pptx", "a.epub", "a.csv", "a.toml", "a.unknown"])
def test_other_formats_are_refused(name: str, run: Run, tmp_path: Path) -> None:
    """Line by line, their keys and tags would be lost; who wants that says so."""
    (tmp_path / name).write_text("A\n")
    code, out, err = run(name)
    assert (code, out) == (1, "")
    assert err.startswith(f"qkv: {name}: there is no format '.{name[2:]}'; give a file whose name ends in .txt, .srt, ")
    assert err.endswith(f".yml, or its lines on standard input: qkv translate < {name}\n")
    assert run(stdin="A\n")[0] == run(name, "--format", "text")[0] == 0


@pytest.mark.parametrize("name", ["a", "a.en", "a.tok", "a.deu"])
def test_a_file_that_is_named_after_its_language_has_lines(name: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / name).write_text("A\nB\n")
    assert run(name) == run(stdin="A\nB\n")


@pytest.mark.parametrize("where", ["an argument", "a file", "standard input"])
def test_whole_texts(where: str, run: Run, backwards: Translator, tmp_path: Path) -> None:
    text, page = "  A B {x}\r\n\r\n\tC ", "<p>A <b>B</b></p>\n"
    for kind, given in (("text", text), ("html", page)):
        expected = (
            translate_text(backwards, [given], beam=1)[0].text
            if kind == "text"
            else translate_html(backwards, [given], beam=1)[0]
        )
        (tmp_path / "given").write_bytes(given.encode())
        if where == "an argument":
            assert run(given, "--format", kind) == (0, f"{expected}\n", "")
        elif where == "a file":
            assert run("given", "--format", kind, "-o", "out")[0] == 0
            assert (tmp_path / "out").read_bytes() == expected.encode()
        else:
            assert run("--format", kind, stdin=given) == (0, expected, "")


@pytest.mark.parametrize("kind", ["text", "html"])
def test_remarks_about_whole_texts(kind: str, run: Run) -> None:
    code, _, err = run("A B C D " * 30, "--format", kind)
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("a sentence was longer than the model's training sentences")


def test_what_a_user_protects(run: Run, backwards: Translator, tmp_path: Path) -> None:
    """In arguments, in standard input and in a file of a format; none takes the text for its own."""
    plain, kept = (translate_text(backwards, ["A B C D"], protect=own, beam=1)[0].text
                   for own in ((), compiled(["B", "[C]"])))  # fmt: skip
    assert "B" in kept
    assert "C" in kept
    assert plain != kept
    assert run("--protect", "B", "--protect", "[C]", "A B C D") == (0, f"{kept}\n", "")
    assert run("--protect", "B", "--protect=[C]", stdin="A B C D\n\n") == (0, f"{kept}\n\n", "")
    assert run("a.po", "--protect", "B", "-o", "b.po")[0] == 0
    assert "B" in (tmp_path / "b.po").read_text().split("msgstr")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a.po", "--n-best", "2"], "--n-best and --scores are for lines, and a document has one translation"),
        (["A B", "--protect", "B", "--scores"], "--n-best and --scores are for lines"),
        (["A B", "--protect", "B", "--json"], "--json is for lines and for files of a format, not for a text with"),
        (["A B", "--format", "text", "--json"], "--json is for lines and for files of a format"),
        (["a.po", "--protect", "x", "--protect", "("], "--protect '(' is not a regular expression (missing )"),
        (["A B", "--final"], "--memory and --final are for files of a format, such as .po and .html; leave them out"),
        (["a.po", "--format", "text", "--memory", "a.po"], "--memory and --final are for files of a format"),
        (["a.po", "--memory", "b.tmx"], "there is no file 'b.tmx'; check the path"),
        (["a", "--format", "htm"], "--format htm: there is no such format; did you mean 'html'?"),
        (["a.po", "-o", "model"], "cannot write model, since it is a folder; give the name of a new file"),
        (["a.po", "-o", "a.po/b.po"], "cannot write a.po/b.po: "),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], sentence: str, run: Run, tmp_path: Path) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"qkv: {sentence}")
    assert err.count("\n") == 1
    assert (tmp_path / "a.po").read_text() == PO
