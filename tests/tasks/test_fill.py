"""The task fill: windows or passages as the objective asks, baselines at the holes, stages that follow each other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from corpora import CORPORA, MARKED, treebank
from kit import refused
from qkv import folder
from qkv.comparing.plan import Row
from qkv.comparing.shared import Shared
from qkv.data import each_row
from qkv.display import Display
from qkv.errors import InputError
from qkv.folder import RunFolder
from qkv.models import MODELS
from qkv.objectives import objective
from qkv.opening import score_files
from qkv.tasks import TASKS, Corpus
from qkv.training.settings import complete, read_settings

BERT = {**CORPORA["fill"].model, "max_length": 48}
FAST = {**MARKED.settings(steps=4, validate_every=2), "task": "fill", "model": BERT}


def train(place: Path, spec: str, *, name: str = "text.conllu", out: str = "model", **settings: Any) -> RunFolder:
    path = place / name
    if not path.exists():
        path.write_text(treebank(80, 1) if name.endswith("conllu") else CORPORA["fill"].content(60, 1))
    asked = {**FAST, **settings}
    qkv.train(path, out=place / out, objective=spec, **asked)
    return RunFolder(place / out)


def figures(run: RunFolder) -> dict[str, float]:
    events = [json.loads(line) for line in run.log.read_text().splitlines()]
    return [event for event in events if event.get("event") == "valid"][-1]


@pytest.mark.parametrize(
    ("spec", "rows"),
    [("masked_lm", "windows"), ("masked_lm(unit='span') + span_boundary", "windows"),
     ("masked_lm(unit='phrase')", "passages"), ("masked_lm + next_sentence", "passages"),
     ("masked_lm | sentence_order", "passages")],
)  # fmt: skip
def test_rows_are_what_the_objective_asks(spec: str, rows: str, tmp_path: Path) -> None:
    run = train(tmp_path, spec)
    settings = complete(read_settings(run.recipe), "recipe")
    assert settings.data.rows == rows
    corpus = Corpus.open(run.corpus)
    assert corpus.train.columns == (4 if rows == "passages" else 1)
    filler = qkv.load(run.out)
    assert len(filler.fill("The <mask> dog sees Mia .", k=3)) == 3


def test_passages_can_be_asked_for(tmp_path: Path) -> None:
    run = train(tmp_path, "masked_lm", data={**MARKED.data, "rows": "passages"})
    assert Corpus.open(run.corpus).train.columns == 4


def test_documents_have_numbers_of_their_own(tmp_path: Path) -> None:
    run = train(tmp_path, "next_sentence + masked_lm")
    rows = [row for part in ("train", "valid") for row in each_row(getattr(Corpus.open(run.corpus), part))]
    assert len({tuple(row[3]) for row in rows}) >= 20


@refused(
    {
        (
            "next_sentence",
            "text.txt",
            "",
        ): "next_sentence needs sentences of other documents, and all the text is one doc",
        ("sentence_distance", "text.txt", ""): "sentence_distance needs sentences of other documents",
        ("masked_lm(unit='phrase')", "text.txt", ""): "hides whole units of the kind phrase, and the files mark none",
        ("masked_lm | masked_lm(unit='entity')", "text.txt", ""): "the kind entity, and the files mark none",
        ("next_sentence", "text.conllu", "windows"): "and data.rows is windows, in which nothing tells where they end",
        ("span_boundary", "text.conllu", ""): "asks about the spans that masked_lm hides",
    },
    "spec name rows",
)
def test_rows_of_which_it_cannot_be_asked_are_refused(spec: str, name: str, rows: str, tmp_path: Path) -> None:
    train(tmp_path, spec, name=name, data={**MARKED.data, "rows": rows})


def test_sentences_are_for_the_task_fill(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(CORPORA["fill"].content(60, 1))
    tiny = CORPORA["language_model"]
    with pytest.raises(InputError, match="next_sentence asks about the sentences of documents"):
        qkv.train(
            tmp_path / "a.txt", out=tmp_path / "m", task="language_model", objective="next_sentence", **tiny.settings()
        )


# -- figures -----------------------------------------------------------------------------------------------------------


def test_several_objectives_are_measured_on_everything_each_by_its_own_count(tmp_path: Path) -> None:
    """As when each is measured alone."""
    spec = "masked_lm + next_sentence | 2 * capitalisation | 0 * sentence_order"
    run = train(tmp_path, spec)
    found = figures(run)
    loaded = folder.load(run.out)
    corpus, settings = Corpus.open(run.corpus), complete(read_settings(run.recipe), "recipe")
    task = TASKS["fill"](settings.data, MODELS["bert"])
    for name, text in (("capitalisation", "capitalisation"), ("sentence_order", "sentence_order")):
        own = task.measure(loaded.model, objective(text).knowing(corpus.tokenizer), task.validation(corpus.valid))
        assert own["loss"] == pytest.approx(found[f"{name}_loss"], rel=1e-5)
        assert own["accuracy"] == pytest.approx(found[f"{name}_accuracy"], rel=1e-5)
    assert found["loss"] == pytest.approx((found["masked_lm_loss"] + 2 * found["capitalisation_loss"]) / 3, rel=1e-5)
    assert {"perplexity", "masked_lm_next_sentence_accuracy", "sentence_order_loss"} <= found.keys()
    assert loaded.model.head_texts.keys() == {"next_sentence", "capitalisation", "sentence_order"}  # type: ignore[operator, union-attr]


SURE = "masked_lm(rate=1.0, mask=1.0, keep=0.0)"  # where nothing is drawn


def test_files_are_scored_by_all_that_training_asked(tmp_path: Path) -> None:
    """The figures of the run's own validation, on the same files; what parts documents is remembered."""
    (tmp_path / "valid.conllu").write_text(treebank(40, 2))
    for spec in (f"{SURE} | capitalisation", f"{SURE} + next_sentence", SURE):
        run = train(tmp_path, spec, out=spec[-8:], valid=[tmp_path / "valid.conllu"])
        best = [event for event in map(json.loads, run.log.read_text().splitlines()) if event.get("event") == "valid"]
        kept = min(best, key=lambda event: event["loss"])
        found = score_files(run.out, tmp_path / "valid.conllu")
        named = {"masked_lm_loss", "capitalisation_accuracy"} if "|" in spec else {"loss", "perplexity"}
        named |= {"next_sentence_accuracy", "next_sentence_loss"} if "+" in spec else set()
        assert named <= found.keys() <= kept.keys() | {"task", "examples"}
        sure = [] if "+" in spec else [*named]  # pairs are drawn
        assert {name: found[name] for name in sure} == pytest.approx({name: kept[name] for name in sure}, rel=1e-4)


def test_a_folder_without_the_heads_is_scored_by_hidden_words(tmp_path: Path) -> None:
    run = train(tmp_path, "masked_lm + next_sentence")
    loaded = folder.load(run.out)
    bare = tmp_path / "bare"
    folder.save(bare, loaded.model.backbone, loaded.tokenizer, loaded.about)
    assert "next_sentence_loss" not in score_files(bare, tmp_path / "text.conllu")
    with pytest.raises(InputError, match="the model has no head for next_sentence; train it with that, or measure by"):
        score_files(bare, tmp_path / "text.conllu", by="next_sentence")
    (tmp_path / "one.txt").write_text(CORPORA["fill"].content(6, 3))
    with pytest.raises(InputError, match="next_sentence needs sentences of other documents, and all the text is one"):
        score_files(run.out, tmp_path / "one.txt")


def test_a_stage_begins_with_all_that_the_one_before_has_learned(tmp_path: Path) -> None:
    """Continual learning: heads of the stage before are taken under their own names, and one alone is new."""
    first = train(tmp_path, "masked_lm + next_sentence | sentence_distance", out="one")
    second = {**FAST, "training": {**FAST["training"], "learning_rate": 1e-12, "steps": 1, "average": "none"}}
    data = {key: value for key, value in MARKED.data.items() if key != "vocab_size"}
    run = train(tmp_path, "masked_lm + next_sentence | sentence_distance | capitalisation", out="two", start=first.out,
                **{**second, "data": data, "model": {}})  # fmt: skip
    before, after = (dict(folder.load(place).model.named_parameters()) for place in (first.out, run.out))
    new = after.keys() - before.keys()
    assert {name.split(".")[1] for name in new} == {"capitalisation"}
    for name, weight in before.items():
        np.testing.assert_allclose(after[name].detach().numpy(), weight.detach().numpy(), atol=1e-9)


# -- baselines ---------------------------------------------------------------------------------------------------------


def test_baselines_stand_beside_a_run(tmp_path: Path) -> None:
    for spec in ("masked_lm", "masked_lm + next_sentence"):
        run = train(tmp_path, spec, out=spec[:12].strip() + "x" * ("+" in spec))
        found = json.loads(run.baselines.read_text())
        assert 0 < found["the word before"] < found["frequency"] < np.log(100)
    for spec in ("next_sentence + masked_lm", "masked_lm | capitalisation"):  # whose loss is of something else
        assert not train(tmp_path, spec, out=spec[-8:]).baselines.exists()


def test_a_comparison_encodes_what_each_row_asks_for(tmp_path: Path) -> None:
    """Rows that differ in their objective alone may need rows of another kind."""
    path = tmp_path / "text.conllu"
    path.write_text(treebank(80, 1))
    base = {key: value for key, value in FAST.items() if key != "quiet"} | {"train": [str(path)]}
    shared = Shared(base, tmp_path / "out", Display(quiet=True))
    texts = ("masked_lm", "masked_lm + next_sentence", "masked_lm(unit='word')")
    specs = [shared.spec(Row(text, {"objective": text}), 0, {}) for text in texts]
    columns = [Corpus.open(Path(spec.settings["corpus"])).train.columns for spec in specs]
    assert columns == [1, 4, 1]
    assert specs[0].settings["corpus"] == specs[2].settings["corpus"]
