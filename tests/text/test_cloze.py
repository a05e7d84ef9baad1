"""Cloze questions: what is read, what is refused, and how words become ids."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import tokenizer
from qkv.errors import InputError
from qkv.text.cloze import ANONYMOUS, Question, known_words, number_words, parse_question, read_cloze
from qkv.text.tokenizer import UNK

RECORD: dict[str, Any] = {
    "context": ["Alice saw the rabbit .", "The rabbit didn't see Alice ."],
    "question": "But XXXXX laughed .",
    "answer": "Alice",
    "candidates": ["Alice", "rabbit"],
}
QUESTION = parse_question(json.dumps(RECORD), "here")
TOKENIZER = tokenizer(*known_words(QUESTION), "alice", "rabbit", size=400)


def test_a_question_is_read_as_words(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps(RECORD) + "\n\n" + json.dumps({**RECORD, "book": "Alice"}), encoding="utf-8")
    first, second = read_cloze(path)
    assert first.document == [w for sentence in RECORD["context"] for w in sentence.split()]
    assert first.question == ["But", "XXXXX", "laughed", "."]
    assert (first.answer, first.candidates, first.book) == ("Alice", ["Alice", "rabbit"], "")
    assert (second.book, second.place) == ("Alice", f"{path} line 3")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"question": "no hole"}, "has 0 holes"),
        ({"question": "XXXXX XXXXX"}, "has 2 holes"),
        ({"answer": "Bob"}, "'Bob' is not among the candidates"),
        ({"candidates": ["Alice", "Bob"]}, "'Bob' is no word of the context"),
        ({"candidates": ["Alice", 3]}, "no text"),
        ({"candidates": []}, "has no candidate"),
        ({"candidates": [str(n) for n in range(300)], "answer": "1"}, "has 300 candidates; give at most 256"),
        ({"context": [1, 2]}, "not a cloze question"),
        ({"question": None}, "not a cloze question"),
        ({"answer": ""}, "no answer to learn from"),
    ],
)
def test_a_bad_question_is_refused_by_its_line(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + json.dumps(RECORD | change), encoding="utf-8")
    with pytest.raises(InputError, match=f"line 2.*{what}"):
        list(read_cloze(path))


@pytest.mark.parametrize("line", ["not JSON", "[1]", '"text"', "{}", "[" * 100_000])
def test_what_is_no_question_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="not a cloze question"):
        parse_question(line, "here")


def test_candidates_are_anonymous_and_other_words_are_their_first_token() -> None:
    question = replace(QUESTION, document=[*QUESTION.document, "sawing"])
    [ids] = number_words([question], TOKENIZER)
    alice, saw, the, rabbit, stop, the_again, rabbit_again, didnt, see, alice_again, stop_again, sawing = ids.document
    assert (alice, rabbit, stop, the) == (alice_again, rabbit_again, stop_again, the_again)  # capitals do not count
    assert [alice, rabbit] == ids.candidates == list(ANONYMOUS[:2])
    assert ids.answer == alice
    assert TOKENIZER.pieces([saw, the, stop, didnt, see]) == ["▁saw", "▁the", "▁.", "▁didnʼt", "▁see"]
    assert sawing == TOKENIZER.encode("sawing")[0]
    assert ids.question[1] == UNK


def test_what_a_tokenizer_learns_has_no_candidate_and_no_hole() -> None:
    assert list(known_words(QUESTION)) == ["saw", "the", ".", "the", "didnʼt", "see", ".", "but", "laughed", "."]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=9).map(str.strip).filter(bool), min_size=1, unique=True), st.data())
def test_only_candidates_have_anonymous_ids_whatever_the_words(words: list[str], data: st.DataObject) -> None:
    candidates = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=10, unique=True))
    [ids] = number_words([Question(words, ["XXXXX"], candidates, candidates[0], "here")], TOKENIZER)
    for word, number in zip(words, ids.document, strict=True):
        assert (number in ANONYMOUS) == (word in candidates)
    assert [ids.document[words.index(word)] for word in candidates] == ids.candidates
    assert len(set(ids.candidates)) == len(candidates)
    assert ids.answer == ids.candidates[0]


def test_a_tokenizer_without_free_ids_is_refused() -> None:
    for kind in ("byte_bpe", "wordpiece"):
        with pytest.raises(InputError, match="cloze questions need ids that no word has"):
            number_words([QUESTION], tokenizer("some words", kind=kind))
