"""`qkv translate`: one line out for each line in, whatever the lines are and wherever they come from."""

import json
import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from qkv import cli

Run = Callable[..., Any]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def translator(model: Path) -> package.Translator:
    return package.load(model)


def test_it_has_learned_its_language(qkv: Run, model: Path) -> None:
    result = qkv("translate", *map(str, range(10)), "--model", model)
    right = [given == expected for given, expected in zip(result.lines, DIGITS, strict=True)]
    assert sum(right) >= 8, result.lines


def test_arguments_a_file_and_standard_input_are_the_same(
    qkv: Run, shell: Run, model: Path, tmp_path: Path, translator: package.Translator
) -> None:
    lines = ["3 1 4", "2 7", "8"]
    expected = [line.text for line in translator.translate(lines)]
    (tmp_path / "lines.num").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for result in (
        qkv("translate", *lines, "--model", model),
        qkv("translate", "lines.num", "--model", model),
        qkv("translate", "--model", model, stdin="\n".join(lines)),
        shell("translate", "--model", model, stdin="\n".join(lines) + "\n"),
    ):
        assert (result.code, result.lines, result.err) == (0, expected, "")


@pytest.mark.parametrize("source", ["a file", "standard input"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_and_line_ends(source: str, end: str, qkv: Run, model: Path, tmp_path: Path) -> None:
    """With a byte order mark in front, as some editors write it."""
    alone = qkv("translate", "7", "4 2", "--model", model).lines
    content = ("\ufeff" + end.join(["", "7", "", "  ", "4 2", "", ""])).encode()
    (tmp_path / "lines.txt").write_bytes(content)
    if source == "a file":
        result = qkv("translate", "lines.txt", "--model", model)
    else:
        result = qkv("translate", "--model", model, stdin=content)
    assert result.out == "\n".join(["", alone[0], "", "", alone[1], ""]) + "\n"
    assert result.err == ""


def test_nothing_in_nothing_out(qkv: Run, model: Path) -> None:
    result = qkv("translate", "--model", model, stdin="")
    assert (result.code, result.out, result.err) == (0, "", "")


def test_six_hundred_lines_keep_their_places(qkv: Run, model: Path, tmp_path: Path) -> None:
    """More than two chunks of lines, with empty ones and a very long one in between."""
    sentences = ["1 2", "9 9 9", "", "5", "0 4 2 8"]
    lines = [sentences[i % len(sentences)] for i in range(600)]
    lines[299] = "6 " * 60
    (tmp_path / "many.num").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = qkv("translate", "many.num", "--model", model, "--beam", "1", "-o", "many.en")
    assert (result.code, result.out) == (0, "")
    written = (tmp_path / "many.en").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    alone = dict(zip(sentences, qkv("translate", *sentences, "--model", model, "--beam", "1").lines, strict=True))
    assert len(written) == 600
    assert [text for i, text in enumerate(written) if i != 299] == [
        alone[line] for i, line in enumerate(lines) if i != 299
    ]
    assert written[299]
    remark = "line 300 was longer than the model's training sentences and was translated in "
    told = (tmp_path / "many.en.remarks.txt").read_text() if "more remark" in result.err else result.err
    assert [line for line in told.splitlines() if line.startswith(remark)]
    assert told.count("longer than") == 1


@pytest.mark.parametrize("flags", [[], ["--format", "text"], ["--format", "html"]])
def test_a_sentence_longer_than_any_name_of_a_file(flags: list[str], qkv: Run, model: Path) -> None:
    result = qkv("translate", "7 " * 200, "--model", model, "--beam", "1", *flags)
    assert (result.code, len(result.lines)) == (0, 1)
    assert "qkv: " not in result.err


def test_a_pipe_is_read_as_a_file(qkv: Run, model: Path) -> None:
    """As a shell's <(..) gives it."""
    for flags in ([], ["--format", "text"]):
        end, start = os.pipe()
        os.write(start, b"7\n4 2\n")
        os.close(start)
        given = qkv("translate", f"/dev/fd/{end}", "--model", model, *flags)
        os.close(end)
        assert given.out == qkv("translate", "--model", model, *flags, stdin=b"7\n4 2\n").out
        assert given.err == ""


@pytest.mark.parametrize(("given", "sizes"), [(["lines.num"], [3]), ([], [1, 1, 1])], ids=["a file", "typed lines"])
def test_at_a_terminal_only_typed_lines_are_translated_one_by_one(
    given: list[str], sizes: list[int], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.num").write_text("7\n4 2\n1\n")
    seen: list[int] = []
    real = package.Translator.translate
    monkeypatch.setattr(package.Translator, "translate", lambda self, texts, **how: (
        seen.append(len(texts)) or real(self, texts, **how)))  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["qkv", "translate", *given, "--model", str(model), "-o", "out"])
    person, terminal = pty.openpty()
    with os.fdopen(person, "wb"), os.fdopen(terminal) as stdin:
        os.write(person, b"7\n4 2\n1\n\x04")
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit):
            cli.main()
    assert seen == sizes
    assert len(Path("out").read_text().splitlines()) == 3


def test_n_best_with_scores(qkv: Run, model: Path, translator: package.Translator) -> None:
    result = qkv("translate", "7", "4 2", "--model", model, "--n-best", "3", "--scores", "--beam", "4")
    expected = translator.translate(["7", "4 2"], beam=4, n_best=3)
    for line, one in zip(result.lines, expected, strict=True):
        cells = line.split("\t")
        assert cells[1::2] == [alternative.text for alternative in one.alternatives]
        assert cells[0::2] == [f"{alternative.score:.4f}" for alternative in one.alternatives]
        assert len(one.alternatives) == 3
    plain = qkv("translate", "7", "--model", model, "--n-best", "3", "--beam", "4")
    assert plain.lines[0].split("\t") == [alternative.text for alternative in expected[0].alternatives]


def test_json_lines(qkv: Run, model: Path, translator: package.Translator) -> None:
    result = qkv("translate", "7", "", "6 " * 60, "--model", model, "--json", "--n-best", "2")
    seven, empty, long = map(json.loads, result.lines)
    expected = translator.translate("7", n_best=2)
    assert seven["text"] == expected.text
    assert seven["score"] == pytest.approx(expected.score, abs=1e-5)
    assert [one["text"] for one in seven["alternatives"]] == [one.text for one in expected.alternatives]
    assert (empty["text"], empty["remarks"]) == ("", [])
    assert "parts" in long["remarks"][0]


def test_one_beam_is_greedy(qkv: Run, model: Path, translator: package.Translator) -> None:
    result = qkv("translate", "3 1 4", "--model", model, "--beam", "1")
    assert result.lines == [translator.translate("3 1 4", beam=1).text]


def test_a_seed_decides_what_is_drawn(qkv: Run, model: Path) -> None:
    def drawn(*flags: str) -> str:
        result = qkv("translate", *(["3 1 4 1"] * 8), "--model", model, "--sample", *flags)
        assert result.code == 0
        return str(result.out)

    hot = ["--temperature", "3"]
    assert drawn(*hot) == drawn(*hot)
    assert drawn(*hot) != drawn(*hot, "--seed", "1")
    greedy = qkv("translate", "3 1 4 1", "--model", model, "--beam", "1").lines
    assert drawn("--top-k", "1").splitlines() == greedy * 8
    assert drawn("--top-p", "0.000001").splitlines() == greedy * 8


def test_a_missing_file_is_remarked(qkv: Run, model: Path) -> None:
    """It may be a sentence, so that it is translated; but a person who mistyped a name should know."""
    result = qkv("translate", "news.num", "--model", model)
    assert result.code == 0
    assert result.err == "'news.num' was not read as a file, it is translated as text\n"
    assert qkv("translate", "7.", "3 .5", "--model", model).err == ""


def test_an_output_that_fails_leaves_the_old_file(qkv: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("old\n")
    result = qkv("translate", "--model", model, "-o", "out.txt", stdin=b"7\n" * 300 + b"\xff\n")
    assert result.code == 1
    assert (tmp_path / "out.txt").read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_many_remarks_are_a_number_and_a_file(qkv: Run, model: Path, tmp_path: Path) -> None:
    """A long line was cut; whether it ran in a loop, too, is up to the model."""
    long = "1 2 3 4 5 6 7 8 9 " * 6
    few = qkv("translate", "--model", model, "--beam", "1", stdin=f"7\n{long}\n").err.splitlines()
    assert 1 <= len(few) <= 2
    assert all(line.startswith("line 2 ") for line in few)
    written = qkv("translate", "--model", model, "--beam", "1", "-o", "out.en", stdin=f"{long}\n" * 4)
    told = (tmp_path / "out.en.remarks.txt").read_text().splitlines()
    cut = [line for line in told if " ran in a loop " not in line]
    assert [line.split(" was ")[0] for line in cut] == [f"line {number}" for number in range(1, 5)]
    more = "1 more remark" if len(told) == 4 else f"{len(told) - 3} more remarks"
    assert written.err.splitlines() == [*told[:3], f"{more}; all are in out.en.remarks.txt"]
    many = qkv("translate", "--model", model, "--beam", "1", stdin=f"{long}\n" * 4)
    assert many.err.splitlines() == [*told[:3], f"{more}; name a file with -o to have them all beside it"]
