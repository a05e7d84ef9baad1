"""Questions with choices: every shape of file gives the same, and what is wrong is named."""

import json
from pathlib import Path

import pytest

from kit import refused, write
from qkv.text import CHOICES, read_choices

QUESTION = ("A man sings.", ["He stops.", "It, too, rains."], 1)
SHAPES = {
    "a.jsonl": json.dumps({"context": QUESTION[0], "choices": QUESTION[1], "answer": 1}),
    "b.jsonl.gz": json.dumps({"ctx": QUESTION[0], "endings": QUESTION[1], "label": "1"}),  # HellaSwag
    "c.jsonl": json.dumps({"article": "A man", "question": "sings.", "options": QUESTION[1], "answer": "B"}),  # RACE
    "d.jsonl": json.dumps({"context": QUESTION[0], "choices": QUESTION[1], "answer": "It, too, rains."}),
    "e.tsv": "A man sings.\t1\tHe stops.\tIt, too, rains.\n",
    "f.csv": 'A man sings.,1,He stops.,"It, too, rains."\n',
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_gives_the_same(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, SHAPES[name] + "\n\n")
    [question] = read_choices([path])
    assert question[:3] == QUESTION
    assert question.place == f"{path} line 1"
    assert any(name.removesuffix(".gz").endswith(end) for end in CHOICES)


@refused(
    {
        ("a.tsv", "A\t0\tB\n"): "line 1 has 3 cells where 4 or more were expected; give each line a context",
        ("a.tsv", "A\tx\tB\tC\n"): "line 1 has 'x' where the number of the right choice was expected",
        ("a.tsv", "A\t2\tB\tC\n"): "line 1 has the answer 2, but its choices are 0 to 1; count from 0",
        ("a.tsv", "A\t1\tB\t \n"): "line 1 has a context or a choice without a word",
        ("a.jsonl", '{"context": "A", "choices": ["B", "C"]}'): "line 1 does not say which choice is right",
        ("a.jsonl", '{"context": "A", "choices": ["B"], "answer": 0}'): "has 1 choices where 2 or more were expected",
        ("a.jsonl", '{"context": "A", "choices": "BC", "answer": 0}'): "has no list of texts under 'choices'",
        ("a.jsonl", '{"context": "A", "choices": ["B", "C"], "answer": "D"}'): "the answer 'D', which is none of its",
        ("a.jsonl", '{"context": "A", "choices": ["B", "C"], "answer": 0.5}'): "has 0.5 as its answer where a number",
        ("a.jsonl", '{"choices": ["B", "C"], "answer": 0}'): "has no 'context', only the keys 'choices', 'answer'",
        ("a.jsonl", "[]"): "holds a JSON list where an object was expected",
    },
    "name content",
)
def test_a_bad_line_is_named(name: str, content: str, tmp_path: Path) -> None:
    list(read_choices([write(tmp_path / name, content)]))
