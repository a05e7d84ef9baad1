"""Phrases and names out of treebanks and tagged files: worked by hand on small sentences; every span is its words."""

from pathlib import Path

import pytest

from kit import real
from qkv.text import read_texts
from qkv.text.conllu import Sentence
from qkv.text.examples import Text
from qkv.text.units import noun_phrases, runs, tagged


def tree(*rows: tuple[str, int, str, str]) -> Sentence:
    words, heads, relations, tags = (list(column) for column in zip(*rows, strict=True))
    return Sentence(words, heads, "here", {}, tags, relations)  # type: ignore[arg-type]


DOG = tree(
    ("The", 4, "det", "DET"), ("very", 3, "advmod", "ADV"), ("old", 4, "amod", "ADJ"), ("dog", 5, "nsubj", "NOUN"),
    ("ran", 0, "root", "VERB"), ("into", 10, "case", "ADP"), ("my", 8, "nmod:poss", "PRON"),
    ("brother", 10, "nmod:poss", "NOUN"), ("'s", 8, "case", "PART"), ("house", 5, "obl", "NOUN"),
)  # fmt: skip


def of(sentence: Sentence) -> list[str]:
    return [" ".join(sentence.words[start:end]) for start, end in noun_phrases(sentence)]


def test_a_phrase_is_a_noun_with_its_modifiers() -> None:
    """Without the preposition before it; a phrase inside another is not counted."""
    assert of(DOG) == ["The very old dog", "my brother 's house"]
    obama = tree(("Barack", 3, "nsubj", "PROPN"), ("Obama", 1, "flat", "PROPN"), ("spoke", 0, "root", "VERB"))
    assert of(obama) == ["Barack Obama"]
    gap = tree(
        ("big", 3, "amod", "ADJ"), ("I", 4, "nsubj", "PRON"), ("dog", 4, "obj", "NOUN"), ("see", 0, "root", "VERB")
    )
    assert of(gap) == ["dog"]


def test_a_tree_in_a_circle_has_an_end() -> None:
    assert of(tree(("a", 2, "det", "DET"), ("b", 1, "amod", "ADJ"), ("c", 9, "x", "NOUN"))) == ["c"]


def test_runs_and_tags() -> None:
    assert runs([True, False, True, True]) == [(0, 1), (2, 4)]
    assert runs([]) == runs([False]) == []
    assert tagged(["B-per", "I-per", "O", "B-loc", "B-loc", "I-loc"]) == [(0, 2), (3, 4), (4, 6)]


def conllu(*sentences: tuple[str, Sentence]) -> str:
    lines = []
    for comments, one in sentences:
        lines += [f"# {comment}" for comment in comments.split("|") if comment]
        cells = zip(one.words, one.tags, one.heads, one.relations, strict=True)
        lines += [f"{i}\t{w}\t_\t{t}\t_\t_\t{h}\t{r}\t_\t_" for i, (w, t, h, r) in enumerate(cells, start=1)]
        lines.append("")
    return "\n".join(lines)


def test_documents_of_a_treebank_are_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "some.conllu"
    written = "text = The very old dog ran into my brother's house"
    path.write_text(conllu((f"newdoc id = a|{written}", DOG), ("", DOG), (f"newdoc|{written}", DOG)))
    first, second = read_texts([path])
    one, two = first.text.split("\n\n")
    assert one == "The very old dog ran into my brother's house"
    assert two == "The very old dog ran into my brother 's house"
    assert [first.text[start:end] for start, end in first.phrases] == [
        "The very old dog", "my brother's house", "The very old dog", "my brother 's house",
    ]  # fmt: skip
    assert (second.text, second.begins, list(second.names)) == (one, True, [])


def test_a_text_that_is_not_that_of_its_words_is_joined_from_them(tmp_path: Path) -> None:
    path = tmp_path / "some.conllu"
    path.write_text(conllu(("text = something else", DOG)))
    (text,) = read_texts([path])
    assert text.text == " ".join(DOG.words)


def test_tagged_names(tmp_path: Path) -> None:
    path = tmp_path / "some.conll"
    path.write_text("Anna\tB-per\nLee\tI-per\nsaw\tO\nRome\tB-loc\n\nShe\tO\nslept\tO\n")
    (text,) = read_texts([path])
    assert text.text == "Anna Lee saw Rome\n\nShe slept"
    assert [text.text[start:end] for start, end in text.names] == ["Anna Lee", "Rome"]
    assert list(text.phrases) == list(text.names)


@pytest.mark.parametrize("at", [-3, 0, 9, 12, 17, 99])
def test_a_text_is_cut_with_its_spans(at: int) -> None:
    text = Text("Anna Lee saw Rome", "here", True, [[0, 8], [13, 17]], [[13, 17]])
    before, after = text.cut(at)
    assert before.text + after.text == text.text
    for part in (before, after):
        assert {part.text[start:end] for start, end in part.phrases} <= {"Anna Lee", "Rome"}
    assert len(before.names) + len(after.names) == 1


def test_real_trees() -> None:
    """The English Web Treebank: every phrase holds a noun, every name is made of its words."""
    texts = list(read_texts([real("ud-english-ewt", "en_ewt-ud-dev.conllu.gz")]))
    assert len(texts) > 100
    phrases = [text.text[start:end] for text in texts for start, end in text.phrases]
    names = [text.text[start:end] for text in texts for start, end in text.names]
    assert len(phrases) > 3000
    assert len(names) > 500
    assert all(one == one.strip() and one for one in (*phrases, *names))
    assert "\n\n" not in "".join(phrases)
