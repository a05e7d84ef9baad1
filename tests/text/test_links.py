"""Links between entities: tables of them, names that stand near each other, and names whose type is asked for."""

from pathlib import Path

import pytest

from kit import refused, write
from qkv.text import read_labelled, read_links
from qkv.text.examples import Labelled, Text
from qkv.text.links import links_of

TABLES = {
    "links.tsv": "Rome\tin\tItaly\nAnn Lee\tof\tRome\n",
    "named.tsv": "tail\thead\trelation\nItaly\tRome\tin\nRome\tAnn Lee\tof\n",
    "links.csv": '"Rome",in,Italy\n"Ann Lee",of,Rome\n',
    "links.jsonl": '{"h": "Rome", "r": "in", "t": "Italy"}\n{"head": "Ann Lee", "relation": "of", "tail": "Rome"}\n',
}
TREEBANK = {
    "one": ["Ann:PROPN Lee:PROPN saw:VERB Rome:PROPN and:CCONJ Oslo:PROPN", "Bo:PROPN saw:VERB Rome:PROPN"],
    "two": ["Rome:PROPN is:VERB Rome:PROPN"],
}


def treebank(path: Path) -> Path:
    lines = []
    for document, sentences in TREEBANK.items():
        lines.append(f"# newdoc id = {document}")
        for sentence in sentences:
            words = [word.split(":") for word in sentence.split()]
            lines += [f"{i}\t{word}\t_\t{tag}\t_\t_\t0\tdep\t_\t_" for i, (word, tag) in enumerate(words, start=1)]
            lines.append("")
    return write(path, "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_every_kind_have_the_same_links(name: str, tmp_path: Path) -> None:
    found = [*read_links([write(tmp_path / name, TABLES[name])])]
    assert [one[:3] for one in found] == [("Rome", "in", "Italy"), ("Ann Lee", "of", "Rome")]
    assert found[0].place.startswith(str(tmp_path / name))


def test_names_are_linked_with_the_next_ones_of_their_document(tmp_path: Path) -> None:
    """In one sentence or in two; never with themselves, nor with those of another document."""
    found = [*read_links([treebank(tmp_path / "trees.conllu")], near=2)]
    assert [one[:3] for one in found] == [
        ("Ann Lee", "sentence", "Rome"), ("Ann Lee", "sentence", "Oslo"), ("Rome", "sentence", "Oslo"),
        ("Rome", "document", "Bo"), ("Oslo", "document", "Bo"), ("Oslo", "document", "Rome"),
        ("Bo", "sentence", "Rome"),
    ]  # fmt: skip
    assert len({one.place for one in found}) == len(found)
    assert len([*read_links([tmp_path / "trees.conllu"], near=1)]) == 4


def test_a_name_is_spelled_with_single_spaces() -> None:
    text = Text("New\n York likes Rome", "here", True, (), [[0, 9], [16, 20]])
    assert [one[:3] for one in links_of([text], 5)] == [("New York", "sentence", "Rome")]


@refused({"Rome\tin\n": "line 1 has 2 cells where 3 were expected; give each line a head, a relation and a tail with a",
          "Rome\t\tItaly\n": "line 1 has no relation"})  # fmt: skip
def test_lines_that_are_no_links(wrong: str, tmp_path: Path) -> None:
    list(read_links([write(tmp_path / "links.tsv", wrong)]))


def test_each_tagged_name_is_asked_for_its_type_between_marks(tmp_path: Path) -> None:
    """Zhang et al. 2019, section 3.5, entity typing: a sentence of two names gives two examples."""
    path = write(tmp_path / "names.conll", "Ann B-person\nLee I-person\nsaw O\nRome B-place\n\nno O\nname O\n")
    assert [*read_labelled([path])] == [
        Labelled("person", "<ent> Ann Lee <ent> saw Rome", f"{path} line 1, name 1"),
        Labelled("place", "Ann Lee saw <ent> Rome <ent>", f"{path} line 1, name 2"),
    ]
