"""What a program gives to `qkv.train`: tables, limits, someone who listens; and what is no such thing."""

from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import Pairs
from qkv.config import merge
from qkv.folder import RunFolder
from qkv.tasks import TASKS, Corpus
from qkv.tasks.classify import Classify
from qkv.text.tables import examples_in
from qkv.training.given import AlsoGiven

PAIR = {"source": ["source", "en"], "target": ["target", "ne"]}


def tables(pairs: Pairs) -> dict[str, Any]:
    """The same pairs as real tables of pandas and of datasets, with columns that nobody asked for."""
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    sides = {"id": [*range(len(pairs))], "en": [en for en, _ in pairs], "ne": [ne for _, ne in pairs]}
    nested = {"translation": [{"en": en, "ne": ne} for en, ne in pairs]}
    return {
        "pandas": pandas.DataFrame(sides),
        "datasets": datasets.Dataset.from_dict(sides),
        "streamed": datasets.Dataset.from_dict(sides).to_iterable_dataset(),
        "opus": datasets.Dataset.from_dict(nested),
    }


def test_a_table_gives_the_examples_of_a_list(pairs: Pairs) -> None:
    expected = [{"source": source, "target": target} for source, target in pairs[:9]]
    for name, table in tables(pairs[:9]).items():
        assert [*examples_in(table, PAIR, "pairs")] == expected, name
    assert examples_in(pairs, PAIR, "pairs") is pairs, "what is no table"


class Polars:
    """A stand-in for a DataFrame of polars, which is not installed here: the two of its names that are used."""

    columns = ("text",)

    def iter_rows(self, *, named: bool) -> Any:
        assert named
        return iter([{"text": "one"}, {"text": "two"}])


def test_one_column_is_the_text_itself() -> None:
    assert [*examples_in(Polars(), {"text": ["text"]}, "texts")] == ["one", "two"]


def test_labels_are_named_as_the_dataset_names_them() -> None:
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
    wanted = {name: [name] for name in Classify(Classify.data_class()).fields}
    assert [row["label"] for row in examples_in(data, wanted, "labelled")] == ["good", "bad", "-1"]
    frame = pandas.DataFrame({"text": ["a", "b"], "label": [1, 0]})
    assert [*examples_in(frame, wanted, "labelled")] == [{"label": "1", "text": "a"}, {"label": "0", "text": "b"}]
    with pytest.raises(qkv.InputError, match=r"columns text, stars; name the one of each label label$"):
        [*examples_in(frame.rename(columns={"label": "stars"}), wanted, "labelled")]
    with pytest.raises(qkv.InputError, match=r"in several parts \(train\); give one of them, labelled=data\['train'\]"):
        examples_in(datasets.DatasetDict({"train": data}), wanted, "labelled")


@pytest.fixture
def brief(small: dict[str, Any]) -> dict[str, Any]:
    """Settings without limits, which the tests give by name."""
    without = {name: value for name, value in small["training"].items() if name != "steps"}
    return {**small, "training": without, "quiet": True}


def test_a_run_on_a_table_is_that_on_its_pairs(tmp_path: Path, pairs: Pairs, brief: dict[str, Any]) -> None:
    table = tables(pairs)["pandas"]
    digests = []
    for name, given in (("list", pairs), ("table", table), ("generator", (pair for pair in pairs))):
        assert qkv.train(pairs=given, out=tmp_path / name, steps=1, **brief).stopped == "1 step is done"
        digests.append(Corpus.open(RunFolder(tmp_path / name).corpus).digests)
    assert digests[0] == digests[1] == digests[2]
    with pytest.raises(qkv.InputError, match=r"train example 3 is .*nan"):
        qkv.train(pairs=table.assign(ne=["a", "b"] + [float("nan")] * (len(pairs) - 2)), out=tmp_path / "nan", **brief)


def test_limits_by_name_win(tmp_path: Path, pairs: Pairs, brief: dict[str, Any]) -> None:
    asked = merge(brief, {"training": {"epochs": 9.0}})
    trained = qkv.train(pairs=pairs, out=tmp_path / "model", epochs=0.5, **asked)
    assert (trained.stopped, trained.epochs) == ("0.5 epochs are done", 0.5)


def test_who_listens_sees_each_record_and_ends_the_run(tmp_path: Path, pairs: Pairs, brief: dict[str, Any]) -> None:
    seen: list[dict[str, Any]] = []

    def listen(record: dict[str, Any]) -> bool:
        seen.append(record)
        return record["event"] == "train" and record["step"] == 3

    out = tmp_path / "model"
    trained = qkv.train(pairs=pairs, out=out, on_event=listen, steps=50, **brief)
    assert (trained.steps, trained.stopped) == (3, "on_event asked for the end")
    assert [(record["event"], record["step"]) for record in seen] == [
        ("train", 1), ("train", 2), ("train", 3), ("valid", 3),
    ]  # fmt: skip
    assert qkv.load(out).translate("red cat").text is not None, "a model is there"
    again = qkv.train(pairs=pairs, out=out, on_event=seen.append, steps=5, **brief)
    assert (again.steps, seen[-2]["step"]) == (5, 5), "the same call goes on; None goes on too"


def test_what_a_listener_raises_comes_out_and_the_run_goes_on_later(
    tmp_path: Path, pairs: Pairs, brief: dict[str, Any]
) -> None:
    def fail(record: dict[str, Any]) -> None:
        if record["step"] == 9:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        qkv.train(pairs=pairs, out=tmp_path / "model", on_event=fail, steps=12, **brief)
    steps: list[int] = []
    qkv.train(
        pairs=pairs, out=tmp_path / "model", on_event=lambda record: steps.append(record["step"]), steps=10, **brief
    )
    assert steps[0] == 8, "after the checkpoint of step 7"


@pytest.mark.parametrize(
    ("files", "given", "sentence"),
    [
        ((5,), {}, "a int stands where the name of a file was expected"),
        (([("a", "b")],), {}, "examples in memory are given by their shape: pairs="),
        ((), {"pairs": "pairs.tsv"}, "pairs is 'pairs.tsv', which is one text and no list; give a file without pairs="),
        ((), {"pairs": 7}, "pairs is 7; give a list of examples, a generator or a table"),
        (("a.tsv",), {"valid": {"a": "b"}}, "valid is a value of dict; give names of files"),
        (("a.tsv",), {"test": [3]}, r"a int stands where the name of a file was expected \(test\)"),
        (("a.tsv",), {"training": 3}, "training is 3; give a dict of settings"),
        (("a.tsv",), {"model": 3}, "model is 3; it must be a table of settings"),
        (("a.tsv",), {"steps": "3"}, r"settings: training.steps: .* \(given: '3'\)"),
        (("a.tsv",), {"out": 3}, "out is 3; give the name of a folder"),
        (("a.tsv",), {"on_event": 3}, "on_event is 3; give a function"),
    ],
)
def test_wrong_types_are_one_sentence(files: Any, given: Any, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    with pytest.raises(qkv.InputError, match=sentence) as said:
        qkv.train(*(tmp_path / name if name == "a.tsv" else name for name in files), **{"out": tmp_path / "m", **given})
    assert "\n" not in str(said.value)


def test_every_shape_has_its_name_in_the_signature() -> None:
    assert {task.shape for task in TASKS.values()} <= AlsoGiven.__annotations__.keys()
