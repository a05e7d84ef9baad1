"""qkv fill: the words of qkv.load(..).fill, whichever way the texts are given, for programs and for people."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qkv as package
from kit import save_untrained
from qkv.text.tokenizer import Tokenizer

Run = Callable[..., Any]
ONE, TWO = "a red <mask>.", "two <mask> play in the <mask>"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = Tokenizer.train(
        ["two red dogs play in the snow."] * 3, kind="wordpiece", vocab_size=60, specials=["<mask>"]
    )
    return save_untrained(tmp_path_factory.mktemp("fill") / "bert", "bert", words, {"task": "fill"}, max_length=32)


def rows(text: str, number: int, bert: Path, **how: Any) -> list[str]:
    """What stands in a file: text, hole, word, probability, whole text."""
    answer = package.load(bert).fill(text, **how)
    holes = answer if isinstance(answer[0], list) else [answer]
    return [
        f"{number}\t{'all' if 'tokens' in word else i}\t{' '.join(word.get('tokens') or [word['token']])}\t"
        f"{word['probability']:.6f}\t{word['text']}"
        for i, words in enumerate(holes, start=1)
        for word in words
    ]


def test_rows_of_every_hole_for_programs(qkv: Run, bert: Path, tmp_path: Path) -> None:
    expected = rows(ONE, 1, bert, k=3) + rows(TWO, 2, bert, k=3)
    assert len(expected) == 9
    assert qkv("fill", ONE, TWO, "--k", 3, "--model", bert).lines == expected
    after_nothing = [*rows(ONE, 1, bert), *rows(TWO, 3, bert)]
    (tmp_path / "texts.txt").write_text(f"{ONE}\n\n{TWO}\n")
    assert qkv("fill", "texts.txt", "--model", bert).lines == after_nothing, "an empty line is counted and left out"
    assert qkv("fill", "--model", bert, stdin=f"{ONE}\n\n{TWO}\n").lines == after_nothing


def test_all_holes_together(qkv: Run, bert: Path) -> None:
    assert qkv("fill", TWO, "--jointly", "--k", 4, "--model", bert).lines == rows(TWO, 1, bert, k=4, jointly=True)


def test_json_has_it_all(qkv: Run, bert: Path) -> None:
    filler = package.load(bert)
    found = [json.loads(line) for line in qkv("fill", ONE, TWO, "--json", "--model", bert).lines]
    assert found == [{"text": ONE, "holes": [filler.fill(ONE)]}, {"text": TWO, "holes": filler.fill(TWO)}]
    (found,) = [json.loads(line) for line in qkv("fill", TWO, "--json", "--jointly", "--model", bert).lines]
    assert found == {"text": TWO, "ways": filler.fill(TWO, jointly=True)}


def test_a_person_sees_which_hole_and_how_likely(qkv: Run, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    shown = qkv("fill", TWO, "--k", 2, "--model", bert).out
    assert "two [<mask>] play in the <mask>" in shown
    assert "two <mask> play in the [<mask>]" in shown
    for words in package.load(bert).fill(TWO, k=2):
        for word in words:
            assert f"{100 * word['probability']:.1f}%" in shown
            assert word["text"] in shown
    assert "two [<mask>] play in the [<mask>]" in qkv("fill", TWO, "--jointly", "--model", bert).out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["a red dog."], "'a red dog.' has no <mask>; write it where a word is to be filled in"),
        ([ONE, "--k", "0"], "0 words were asked for; ask for at least 1"),
        (["a " * 40 + "<mask>"], "has 41 tokens, but the model reads 32 at once; give a shorter text"),
    ],
)
def test_mistakes_are_said_in_one_sentence(given: list[str], sentence: str, qkv: Run, bert: Path) -> None:
    done = qkv("fill", *given, "--model", bert)
    assert (done.code, done.out) == (1, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
