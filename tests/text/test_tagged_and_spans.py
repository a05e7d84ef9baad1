"""Tagged words and questions with their spans: by hand, real sets whole, and what is refused."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import real, write
from qkv.errors import InputError
from qkv.text import read_spans, read_tagged
from qkv.text.conllu import read_conll


@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz", "a.bio"])
@pytest.mark.parametrize("between", ["\t", " ", " NN "])
def test_words_and_tags(tmp_path: Path, name: str, between: str) -> None:
    rows = ["-DOCSTART- -X- O", "", "#Ann B-person", "Lee I-person", "sings O", "", "", "Rome B-place"]
    path = write(tmp_path / name, "\n".join(row.replace(" ", between) for row in rows))
    assert list(read_tagged([path])) == [
        (["#Ann", "Lee", "sings"], ["B-person", "I-person", "O"], f"{path} line 3"),
        (["Rome"], ["B-place"], f"{path} line 8"),
    ]


def test_the_tags_of_conll_2003_become_bio(tmp_path: Path) -> None:
    """There, B- stands only between two phrases of one type that touch (Ramshaw & Marcus 1995)."""
    given = "I-PER I-PER O I-PER B-PER I-LOC B-ORG I-LOC O"
    path = write(tmp_path / "a.conll", "".join(f"w {tag}\n" for tag in given.split()))
    [one] = read_tagged([path])
    assert one.tags == ["B-PER", "I-PER", "O", "B-PER", "B-PER", "B-LOC", "B-ORG", "B-LOC", "O"]


@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), min_size=1))
def test_every_i_goes_on_with_its_own_type(tmp_path_factory: pytest.TempPathFactory, tags: list[str]) -> None:
    path = write(tmp_path_factory.mktemp("tags") / "a", "".join(f"w\t{tag}\n" for tag in tags))
    [one] = read_conll(path)
    assert [tag[-1] for tag in one.tags] == [tag[-1] for tag in tags]
    for before, tag in zip(["O", *one.tags], one.tags, strict=False):
        assert tag[0] != "I" or before[1:] == tag[1:]


@pytest.mark.parametrize("line", ["word", "word\t", "\tO", "word B-", "word\tI-"])
def test_lines_without_a_word_or_a_tag_are_refused(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.conll", f"x\tO\n\n{line}\n")
    with pytest.raises(InputError, match=re.escape(f"{path} line 3 is {line!r} where a word and its tag were")):
        list(read_tagged([path]))


@pytest.mark.parametrize(("name", "count"), [("train.conll.gz", 3394), ("dev.conll", 1009)])
def test_wnut_17_is_read_whole(name: str, count: int) -> None:
    """Derczynski et al. 2017, table 1: 3,394 and 1,009 sentences, six types."""
    path = real("wnut17-ner", name)
    found = list(read_tagged([path]))
    assert len(found) == count
    assert len({tag[2:] for one in found for tag in one.tags if tag != "O"}) == 6


def test_parts_of_speech_of_a_treebank() -> None:
    path = real("ud-english-ewt", "en_ewt-ud-dev.conllu.gz")
    found = Counter(tag for one in read_tagged([path]) for tag in one.tags)
    raw = gzip.decompress(path.read_bytes()).decode()
    assert found == Counter(re.findall(r"^\d+\t[^\t]*\t[^\t]*\t([^\t]*)", raw, re.MULTILINE))
    assert len(found) == 17  # of Universal Dependencies v2


def squad(context: Any, question: Any, *answers: tuple[Any, Any]) -> dict[str, Any]:
    qa = {"id": "q1", "question": question, "answers": [{"answer_start": at, "text": text} for at, text in answers]}
    return {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": [qa]}]}], "version": "1.1"}


def test_questions_and_their_answers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json.gz", json.dumps(squad("Élan  vital.", "What?", (6, "vital"), (0, "Élan"))))
    assert list(read_spans([path])) == [
        ("Élan  vital.", "What?", [(6, "vital"), (0, "Élan")], "q1", f"{path} question q1")
    ]
    no_answer = write(tmp_path / "b.json", json.dumps(squad("x", "y")))
    assert next(read_spans([no_answer])).answers == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            squad("a dog", "x", (3, "dog")),
            "question q1 has the answer 'dog' at character 3, where its context has 'o",
        ),
        (squad("a dog", "x", (-3, "do")), "question q1 has the answer 'do' at character -3"),
        (squad("a dog", "x", (0, "")), "question q1 has the answer ''"),
        (squad("a dog", "x", ("2", "dog")), ": its question 1 is not of SQuAD's form; give a file of the form"),
        (squad("a dog", 3), ": its question 1 is not of SQuAD's form"),
        (squad(["a dog"], "x"), ": its question 1 is not of SQuAD's form"),
        ({"data": [{"paragraphs": [{"context": "x", "qas": [{"id": 1}]}]}]}, ": its question 1 is not of SQuAD's form"),
        ({"data": [{}]}, " is not SQuAD's JSON"),
        ([], " is not SQuAD's JSON"),
        ("{", " is not valid JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    path = write(tmp_path / "a.json", content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=re.escape(str(path)) + ".*" + re.escape(sentence)) as refused:
        list(read_spans([path]))
    assert "\n" not in str(refused.value)


def test_squad_is_read_whole() -> None:
    path = real("squad-v1.1-dev", "dev-v1.1.json.gz")
    found = list(read_spans([path]))
    assert len(found) == 10_570  # Rajpurkar et al. 2016, table 1
    assert all(one.answers and one.context[at : at + len(text)] == text for one in found for at, text in one.answers)
    assert len({one.identity for one in found}) == len(found)
