"""Documents with their summaries, out of records and out of articles."""

import json
from collections import Counter
from pathlib import Path

import pytest

from kit import real, write
from qkv.errors import InputError
from qkv.text import Summarised, read_summaries

ARTICLES = """
 = Cats =

 Cats are small . They sleep .

 = = Food = =

 They eat fish .

 = = = Milk = = =

 Not all like it .

 = Dogs =

 A stub .
"""


def test_records_of_several_names_lists_and_columns(tmp_path: Path) -> None:
    """A list of sentences is one document; each of several summaries makes an example."""
    records = [{"source": ["A b.", "C d."], "target": ["e", "f"]}, {"document": "g", "summary": "h"}]
    objects = write(tmp_path / "a.jsonl", "".join(json.dumps(one) + "\n" for one in records))
    named = write(tmp_path / "b.tsv", "id\tsummary\tdocument\n1\tx\ty z\n")
    bare = write(tmp_path / "c.csv", '"y, z",x\n')
    found = [(one.document, one.summary) for one in read_summaries([objects, named, bare])]
    assert found == [("A b. C d.", "e"), ("A b. C d.", "f"), ("g", "h"), ("y z", "x"), ("y, z", "x")]


def test_an_article_and_its_lead(tmp_path: Path) -> None:
    path, skipped = write(tmp_path / "wiki.txt", ARTICLES), Counter[str]()
    [cats] = read_summaries([path], skipped)
    assert cats == Summarised("Cats.\n\nThey eat fish .\n\nNot all like it .", "Cats are small .", f"{path} line 2")
    assert skipped == {"articles without a lead or without sections": 1}


def test_real_articles() -> None:
    skipped = Counter[str]()
    found = list(read_summaries([real("wikitext-2/valid.txt.gz")], skipped))
    assert len(found) + skipped.total() == 60  # titles of WikiText-2's validation set
    assert all(one.document.split(".\n\n")[0] and len(one.summary) < len(one.document) for one in found)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", '{"document": "a"}\n', "line 1 has no 'summary'"),
        ("a.tsv", "a\t\n", "line 1 has no summary"),
        ("a.tsv", "a\tb\tc\n", "has 3 cells where 2 were expected"),
        ("a.txt", "Once upon a time.\n", "stands before any title"),
    ],
)
def test_what_is_none_is_one_sentence(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        list(read_summaries([write(tmp_path / name, content)]))
