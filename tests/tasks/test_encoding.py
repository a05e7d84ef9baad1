"""A corpus encoded by several processes, or by one that goes on for another, is the one that one process encodes."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora import CORPORA
from kit import some_pairs, write_tsv
from qkv.config import from_tree, to_tree
from qkv.errors import InputError
from qkv.files import digest
from qkv.tasks import TASKS, Corpus, Survey, Task
from qkv.tasks import corpus as corpora
from qkv.tasks.corpus import learn_tokenizer
from qkv.tasks.encoding import answer, encoded
from qkv.tasks.spool import Spooled
from qkv.tasks.translation import PairsConfig, Translate
from qkv.text.tokenizer import Tokenizer

PAIRS = some_pairs(900, seed=5)


def surveyed(name: str, place: Path, count: int = 24) -> tuple[Task, Survey, Tokenizer, Any]:
    kind, tiny = TASKS[name], CORPORA[name]
    task = kind(kind.data_class(**tiny.data))
    survey = Survey(task, {"train": [tiny.write(place, count)], "valid": [], "test": []}, place, lambda _: None)
    tokenizer = learn_tokenizer(task.data, survey.sample, None, task.named_tokens())
    config: Any = from_tree(
        task.model.config_class,
        {
            **tiny.model,
            **task.model.fitting(tokenizer),
            **task.fitting(tiny.model, tokenizer, task.facts(survey, tokenizer)),
        },
    )
    return task, survey, tokenizer, task.bounded(task.facts(survey, tokenizer), config)


@pytest.mark.parametrize("name", CORPORA)
def test_the_other_process_makes_the_rows_of_this_one(name: str, tmp_path: Path) -> None:
    """Every task, asked as its process is asked: what it needs is in its settings, the facts and the sub-words."""
    task, survey, tokenizer, facts = surveyed(name, tmp_path)
    chunks = [*survey.train.chunks()]
    spec = {"task": name, "model": task.model.__name__, "data": to_tree(task.data), "facts": facts}
    told = json.dumps({**spec, "tokenizer": tokenizer.to_str()}).encode() + b"\n"
    out = io.BytesIO()
    answer(io.BytesIO(told + b"".join(b"[]\n" + chunk.line for chunk in chunks)), out)
    out.seek(0)
    for tally in task.tallies().values():
        tally.clear()
    counted: dict[str, dict[str, int]] = {}
    for packed in encoded(task, chunks, tokenizer, facts):
        head = json.loads(out.readline())
        parts = [out.read(size) for size in head["sizes"]]
        assert parts == [packed.ids.tobytes(), packed.lengths.tobytes(), packed.marks.tobytes()]
        assert (head["rows"], head["too_long"]) == (len(packed.lengths), packed.too_long)
        for part, counts in head["counts"].items():
            own = counted.setdefault(part, {})
            own |= {key: own.get(key, 0) + value for key, value in counts.items()}
    assert not out.read()
    assert counted == task.tallies()


def test_half_a_line_is_of_one_who_is_gone(tmp_path: Path) -> None:
    task, survey, tokenizer, facts = surveyed("classify", tmp_path)
    spec = {"task": task.name, "model": task.model.__name__, "data": to_tree(task.data), "facts": facts}
    told = json.dumps({**spec, "tokenizer": tokenizer.to_str()}).encode()
    half = Spooled.of(task.example_class, [next(iter(survey.train))]).line[:-1]
    for given in (b"", told[:50], told + b"\n[", told + b"\n[]\n", told + b"\n[]\n" + half):
        answer(io.BytesIO(given), out := io.BytesIO())
        assert not out.getvalue()


def pairs_in(place: Path) -> tuple[Translate, Survey, Tokenizer]:
    place.mkdir()
    task = Translate(PairsConfig(vocab_size=320, source="en", target="de", held_out=20, max_length=12))
    files = {"train": [write_tsv(place / "pairs.tsv", PAIRS)], "valid": [], "test": []}
    survey = Survey(task, files, place, lambda _: None)
    return task, survey, learn_tokenizer(task.data, survey.sample)


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 50 examples, each written at once."""
    monkeypatch.setattr("qkv.tasks.corpus.LARGE", 0)
    monkeypatch.setattr("qkv.tasks.spool.CHUNK", 50)
    monkeypatch.setattr("qkv.data.writing.PENDING", 100)


@pytest.mark.usefixtures("as_if_large")
def test_two_processes_write_what_one_writes(tmp_path: Path) -> None:
    task, survey, tokenizer = pairs_in(tmp_path / "in")
    seen: list[int] = []
    for workers in (1, 2):
        out = tmp_path / str(workers) / "corpus"
        Corpus.write(out, task, survey, tokenizer, task.facts(survey), seen.append, workers)
        assert [path.name for path in out.parent.iterdir()] == ["corpus"]  # no draft is left
    one, two = (contents(tmp_path / str(workers) / "corpus") for workers in (1, 2))
    assert one == two
    assert seen[-1] == seen[len(seen) // 2 - 1] >= 850  # told of as many, both times


@pytest.mark.usefixtures("as_if_large")
def test_what_was_encoded_before_an_end_is_not_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, survey, tokenizer = pairs_in(tmp_path / "in")
    facts = task.facts(survey)
    whole = Corpus.write(tmp_path / "whole/corpus", task, survey, tokenizer, facts, lambda _: None)
    place, asked = tmp_path / "parts/corpus", list[int]()
    plain, ends = Translate.encode, iter([4, 3, 99])

    def encode(self: Translate, examples: Any, *rest: Any) -> Any:
        asked.append(len(examples))
        if len(asked) > left:
            raise KeyboardInterrupt
        return plain(self, examples, *rest)

    monkeypatch.setattr(Translate, "encode", encode)
    made = 0
    for left in ends:  # the function above reads it
        asked.clear()
        try:
            Corpus.write(place, task, survey, tokenizer, facts, lambda _: None)
        except KeyboardInterrupt:
            draft = place.parent / corpora.DRAFTS
            with (draft / "00000.ids").open("ab") as file:
                file.write(b"half a row")  # written after the last note
            (draft / "00007.ids").write_bytes(b"a file that no note knows")
            made += left
    assert contents(place) == contents(whole.folder)
    assert len(asked) == len([*survey.train.chunks()]) - made + 1  # and the rows to validate on


@pytest.mark.usefixtures("as_if_large")
def test_drafts_of_another_corpus_are_not_taken_up(tmp_path: Path) -> None:
    task, survey, tokenizer = pairs_in(tmp_path / "in")
    facts, place = task.facts(survey), tmp_path / "out/corpus"
    whole = contents(Corpus.write(tmp_path / "whole/corpus", task, survey, tokenizer, facts, lambda _: None).folder)

    told = list[int]()

    def stop(read: int) -> None:
        told.append(read)
        if read >= 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Corpus.write(place, task, survey, tokenizer, facts, stop)
    note = place.parent / corpora.DRAFTS / "written.json"
    assert json.loads(note.read_text())["chunks"] == len(told) > 5
    other = Tokenizer.train((source for source, _ in PAIRS), vocab_size=300)
    seen: list[int] = []
    Corpus.write(tmp_path / "out/other", task, survey, other, facts, seen.append)
    assert seen[0] == told[0] <= 50  # from the beginning
    for damage in ("{", json.dumps({"key": 1})):
        with pytest.raises(KeyboardInterrupt):
            Corpus.write(place, task, survey, tokenizer, facts, stop)
        note.write_text(damage)
        assert contents(Corpus.write(place, task, survey, tokenizer, facts, lambda _: None).folder) == whole


KILLED = """
import sys, time
from pathlib import Path
from qkv.tasks import corpus, spool
from qkv.data import writing
corpus.LARGE, spool.CHUNK, writing.PENDING = 0, 50, 100
sys.path.insert(0, sys.argv[1])
from tasks import test_encoding
task, survey, tokenizer = test_encoding.pairs_in(Path(sys.argv[2]) / "in")
slow = lambda read: time.sleep(0.02)
corpus.Corpus.write(Path(sys.argv[2]) / "corpus", task, survey, tokenizer, task.facts(survey), slow, 2)
"""


@pytest.mark.usefixtures("as_if_large")
def test_a_process_that_is_killed_is_gone_on_for_and_leaves_no_other(tmp_path: Path) -> None:
    note = tmp_path / corpora.DRAFTS / "written.json"
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        while process.poll() is None and not (note.exists() and json.loads(note.read_text())["chunks"] > 2):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.communicate(timeout=60)[1] == b""  # all that hold this pipe have ended, and said nothing
    done = json.loads(note.read_text())["chunks"]
    assert 2 < done < 18
    task, survey, tokenizer = pairs_in(tmp_path / "again")
    seen, told = list[int](), list[int]()
    survey.digests = {str(tmp_path / "in/pairs.tsv"): value for value in survey.digests.values()}
    Corpus.write(tmp_path / "corpus", task, survey, tokenizer, task.facts(survey), seen.append)
    whole = Corpus.write(tmp_path / "whole/corpus", task, survey, tokenizer, task.facts(survey), told.append)
    assert seen == told[done:]
    assert contents(tmp_path / "corpus") == contents(whole.folder)


@pytest.mark.usefixtures("as_if_large")
def test_what_a_process_cannot_encode_is_one_sentence(tmp_path: Path) -> None:
    task, survey, tokenizer, facts = surveyed("classify", tmp_path)
    chunks = [*survey.train.chunks()]
    facts["labels"] = ["neither"]
    with pytest.raises(InputError, match="label"):
        next(encoded(task, chunks, tokenizer, facts, workers=2))


def test_rows_that_are_too_long_are_told_apart_by_the_other_process_too(tmp_path: Path) -> None:
    task, survey, tokenizer = pairs_in(tmp_path / "in")
    by_hand = [[*row] for row in task.rows(survey.train, tokenizer, {})]
    too_long = sum(len(source) > 13 or len(target) > 14 for source, target in by_hand)
    packed: Iterator[Any] = encoded(task, survey.train.chunks(), tokenizer, {})
    parts = [*packed]
    assert sum(one.too_long for one in parts) == too_long > 0
    assert np.concatenate([one.ids for one in parts]).tolist() == [
        number for source, target in by_hand if len(source) <= 13 and len(target) <= 14 for number in [*source, *target]
    ]
