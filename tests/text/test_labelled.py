"""Labelled texts and pairs are the same from every format; real sets are read whole; bad lines are named."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kit import real, write
from qkv.errors import InputError
from qkv.text import LABELLED, LABELLED_PAIRS, read_labelled, read_labelled_pairs

TEXTS = [("pos", 'A "fine" film, really.'), ("neg", "No, not | this one."), ("1", "Für alle 世界")]
PAIRS = [("It rains, again.", 'He said "rain".', "1"), ("A dog.", "A cat.", "0.25"), ("Ja.", "Nein.", "contradiction")]
TABLES = [suffix for suffix in LABELLED_PAIRS if suffix in LABELLED]


def table(suffix: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as a file of a format, with the names of their columns."""
    if suffix == ".jsonl":
        return "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    if suffix == ".tsv":
        return "".join("\t".join(row) + "\n" for row in [names, *rows])
    file = io.StringIO()
    csv.writer(file).writerows([names, *rows])
    return file.getvalue()


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize("names", [("label", "text"), ("Label", "Sentence")])
def test_texts_are_the_same_from_every_format(tmp_path: Path, suffix: str, gz: str, names: Sequence[str]) -> None:
    names = names if suffix != ".jsonl" else [name.lower() for name in names]
    path = write(tmp_path / f"a{suffix}{gz}", table(suffix, names, TEXTS))
    turned = write(
        tmp_path / f"b{suffix}{gz}", table(suffix, [*names[::-1], "id"], [(*row[::-1], "7") for row in TEXTS])
    )
    found = list(read_labelled([path, turned]))
    assert [(one.label, one.text) for one in found] == TEXTS * 2
    assert [one.place.rsplit(" line ")[0] for one in found] == [str(path)] * 3 + [str(turned)] * 3


@pytest.mark.parametrize("suffix", TABLES)
@pytest.mark.parametrize(
    "names",
    [
        ("sentence1", "sentence2", "label"),
        ("sentence1", "sentence2", "score"),
        ("premise", "hypothesis", "label"),
        ("question", "sentence", "label"),
        ("question1", "question2", "is_duplicate"),
    ],
)
def test_pairs_are_the_same_from_every_format(tmp_path: Path, suffix: str, names: Sequence[str]) -> None:
    path = write(tmp_path / f"a{suffix}", table(suffix, names, PAIRS))
    turned = table(suffix, ["index", *names[::-1]], [("0", *row[::-1]) for row in PAIRS])
    found = list(read_labelled_pairs([path, write(tmp_path / f"b{suffix}.gz", turned)]))
    assert [(one.first, one.second, one.label) for one in found] == PAIRS * 2
    assert found[0].place == f"{path} line {1 if suffix == '.jsonl' else 2}"


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".txt"])
def test_columns_without_names(tmp_path: Path, suffix: str) -> None:
    kind = ".tsv" if suffix == ".txt" else suffix
    texts = write(tmp_path / f"a{suffix}", table(kind, *[TEXTS[0], TEXTS[1:]]))
    pairs = write(tmp_path / f"b{suffix}", table(kind, *[PAIRS[0], PAIRS[1:]]))
    assert [(one.label, one.text) for one in read_labelled([texts])] == TEXTS
    assert [(one.first, one.second, one.label) for one in read_labelled_pairs([pairs])] == PAIRS


def test_colas_four_cells_are_known(tmp_path: Path) -> None:
    path = write(tmp_path / "cola.tsv", "gj04\t1\t\tThe rope stretched.\nbc01\t0\t*\tRope the stretched.\n")
    found = [(one.label, one.text, one.place) for one in read_labelled([path])]
    assert found == [("1", "The rope stretched.", f"{path} line 1"), ("0", "Rope the stretched.", f"{path} line 2")]
    with pytest.raises(InputError, match="has 4 cells where 2 were expected"):
        list(read_labelled([write(tmp_path / "a.tsv", "a\tb\tc\td\n")]))


def test_numbers_in_json_are_labels(tmp_path: Path) -> None:
    lines = '{"label": 1, "text": "a"}\n{"label": 0.5, "text": "b"}\n{"label": true, "text": "c"}'
    assert [one.label for one in read_labelled([write(tmp_path / "a.jsonl", lines)])] == ["1", "0.5", "true"]


@pytest.mark.parametrize(
    ("read", "name", "content", "sentence"),
    [
        (read_labelled, "a.tsv", "x\ty\tz\n",
         "line 1 has 3 cells where 2 were expected; give each line a label, a tab and a"),
        (read_labelled, "a.csv", "label,text,id\nx,y\n",
         "line 2 has 2 cells where 3 were expected; give each line a label, a comma"),
        (read_labelled, "a.tsv", "x\t \n", "line 1 has no text; give each line a label, a tab and a text"),
        (read_labelled, "a.jsonl", '{"label": "x"}',
         'line 1 has no \'text\', only the keys \'label\'; write {"label": "...", "text"'),
        (read_labelled, "a.jsonl", '{"label": ["x"], "text": "y"}',
         "line 1 has [\"x\"] as 'label' where a text in quotes was"),
        (read_labelled, "a.jsonl", '{"label": "", "text": "y"}', "line 1 has no label; write"),
        (read_labelled, "a.jsonl", "{", "line 1 is not valid JSON"),
        (read_labelled_pairs, "a.tsv", "x\ty\n",
         "line 1 has 2 cells where 3 were expected; give each line two texts and a label with"),
        (read_labelled_pairs, "a.csv", "sentence1,sentence2,label\nx,,z\n", "line 2 has no second text"),
        (read_labelled_pairs, "a.jsonl", '{"sentence1": "x", "label": 1}',
         "line 1 has no 'sentence2', only the keys 'sentence1', 'label'"),
    ],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path: Path, read: Any, name: str, content: str, sentence: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=re.escape(f"{path} {sentence}")):
        list(read([path]))


def test_paths_are_checked_first(tmp_path: Path) -> None:
    for read in (read_labelled, read_labelled_pairs):
        with pytest.raises(InputError, match="is a folder"):
            read([tmp_path])
        with pytest.raises(InputError, match="no file was given"):
            read([])


@pytest.mark.parametrize(
    ("name", "count", "labels"),
    [
        ("MRPC/train.tsv.gz", 3668, {"0", "1"}),
        ("RTE/train.tsv.gz", 2490, {"entailment", "not_entailment"}),
        ("WNLI/train.tsv", 635, {"0", "1"}),
        ("STS-B/train.tsv.gz", 5749, None),
        ("STS-B/dev.tsv", 1500, None),
    ],
)
def test_glues_pairs_are_read_whole(name: str, count: int, labels: set[str] | None) -> None:
    """The counts are those of GLUE (Wang et al. 2018, table 1)."""
    path = real("glue", name)
    found = list(read_labelled_pairs([path]))
    assert len(found) == count
    if labels:
        assert {one.label for one in found} == labels
    else:
        assert all(0 <= float(one.label) <= 5 for one in found)


@pytest.mark.parametrize(
    ("name", "count", "classes"),
    [
        ("glue/SST-2/train.tsv.gz", 67_349, 2),
        ("glue/CoLA/train.tsv.gz", 8551, 2),
        ("ag-news-subset/valid.tsv", 1000, 4),
    ],
)
def test_real_labelled_texts_are_read_whole(name: str, count: int, classes: int) -> None:
    found = list(read_labelled([real(name)]))
    assert len(found) == count
    assert len({one.label for one in found}) == classes
