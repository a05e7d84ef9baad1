"""ULMFiT and SiATL as runs: what is taken from a language model, what sleeps, how fast layers learn, what is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from corpora import CORPORA
from kit import refused, weights, write
from qkv import folder
from qkv.config import merge
from qkv.errors import InputError
from qkv.models import MODELS
from qkv.opening import score_files
from qkv.tasks import TASKS
from qkv.text import read_texts
from qkv.training.optimizers import layers, parameter_groups
from qkv.training.schedules import SCHEDULES
from qkv.training.settings import TrainingConfig, read_settings

REVIEWS = CORPORA["classify"]
STEP: dict[str, Any] = {"steps": 0, "epochs": 1.0, "patience": 0, "threads": 1, "precision": "float32",
                        "average": "none", "validate_every": 0}  # fmt: skip
SMALL = {"d_model": 8, "d_hidden": 12, "layers": 3}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reviews")
    REVIEWS.write(place, 30, seed=2)
    return REVIEWS.write(place, 60)


def learn(reviews: Path, out: Path, **changed: Any) -> Any:
    """A language model of the texts of reviews, for a moment."""
    usual = {
        "architecture": "awd_lstm", "data": {"vocab_size": 300, "documents": "labelled", "batch_tokens": 140},
        "model": SMALL, "training": {**STEP, "epochs": 0.0, "steps": 3, "learning_rate": 0.01},
    }  # fmt: skip
    return qkv.train(reviews, task="language_model", out=out, quiet=True, **merge(usual, changed))


@pytest.fixture(scope="module")
def models(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    learn(reviews, place / "forward")
    learn(reviews, place / "backward", data={"backward": True})
    return place


def tune(reviews: Path, start: Path | None, out: Path, **changed: Any) -> Any:
    usual: dict[str, Any] = {"data": {"batch_tokens": 300}, "training": {**STEP, "learning_rate": 0.01}}
    given = {"start": start} if start else {"architecture": "awd_lstm", "model": SMALL}
    valid = reviews.with_name(f"2-{REVIEWS.file}") if reviews.name.startswith("1-") else ()
    return qkv.train(reviews, valid=valid, task="classify", out=out, quiet=True, **given, **merge(usual, changed))


def moved(out: Path, start: Path) -> set[str]:
    """The first parts of the names of backbone parameters that a run has changed at its end."""
    last = max((out / "training/checkpoints").glob("step-*"))
    old = weights(folder.load(start).model)
    new = {name.removeprefix("backbone."): value for name, value in weights(folder.load(last).model).items()}
    return {".".join(name.split(".")[:2]) for name in old if not torch.equal(old[name], new[name])}


# -- Howard & Ruder 2018 ---------------------------------------------------------------------------------------------


def test_the_slanted_triangle_has_the_numbers_of_the_paper() -> None:
    """Eq. 3 with T = 1,000, cut_frac 0.1, ratio 32 and a highest rate of 0.01."""
    triangle = SCHEDULES["slanted_triangle"]()
    found = [0.01 * triangle(step + 1, step / 1000) for step in (0, 50, 100, 500, 1000)]
    assert found == pytest.approx([3.125e-4, 5.15625e-3, 1e-2, 5.694444e-3, 3.125e-4], rel=1e-6)


def test_the_rate_of_a_layer_is_that_of_the_one_above_it_by_2_6() -> None:
    """As the recipe has it: the head, three LSTMs and the words, each group apart."""
    row = next(row for row in read_settings("ulmfit-movie-reviews")["vary"] if row["name"].startswith("ULMFiT, 100"))
    decay = row["training"]["layer_decay"]
    task = TASKS["classify"](TASKS["classify"].data_class(), MODELS["awd_lstm"])
    config = MODELS["awd_lstm"].config_class(**SMALL, vocab_size=40)
    model = task.build(config, task.heads({"labels": ["neg", "pos"]}))
    assert [len(some) for some in layers(model)] == [2, 4, 4, 4, 12]  # of words: the table and its bias
    groups = parameter_groups(model, TrainingConfig(layer_decay=decay))
    rates = sorted({group["factor"] for group in groups}, reverse=True)
    assert rates == pytest.approx([2.6**-depth for depth in range(5)], rel=1e-15)


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_layer_learns_when_its_epoch_has_come(reviews: Path, models: Path, tmp_path: Path, epochs: int) -> None:
    """After one epoch only the head is another, and the model below it is the same to the bit; after two, one LSTM."""
    tune(reviews, models / "forward", tmp_path / "out", training={"epochs": float(epochs), "unfreeze": 1.0})
    assert moved(tmp_path / "out", models / "forward") == {1: set(), 2: {"layers.2"}}[epochs]


def test_all_layers_learn_without_it(reviews: Path, models: Path, tmp_path: Path) -> None:
    tune(reviews, models / "forward", tmp_path / "out")
    assert moved(tmp_path / "out", models / "forward") == {"layers.0", "layers.1", "layers.2", "tokens.weight"}


def test_new_words_begin_as_the_mean_of_the_old_ones(reviews: Path, models: Path, tmp_path: Path) -> None:
    text = write(tmp_path / "new.txt", "a quite unheard-of quokka quarrels quietly\n" * 40)
    start, new = models / "forward", tmp_path / "grown"
    given = {"data": {"grow": 5, "batch_tokens": 140}, "training": {**STEP, "epochs": 0.0, "steps": 1,
             "learning_rate": 1e-12}}  # fmt: skip
    qkv.train(text, task="language_model", start=start, out=new, quiet=True, **given)
    old, grown = (weights(folder.load(place).model) for place in (start, new))
    assert len(grown["tokens.weight"]) == len(old["tokens.weight"]) + 5
    for name in ("tokens.weight", "projection.bias"):
        known = len(old[name])
        torch.testing.assert_close(grown[name][:known], old[name], atol=1e-9, rtol=0)
        mean = old[name].mean(dim=0).expand_as(grown[name][known:])
        torch.testing.assert_close(grown[name][known:], mean, atol=1e-9, rtol=0)


def test_labelled_files_are_read_as_texts_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "some.tsv", "label\ttext\npos\tA fine film. ||| Go!\nneg\tNo.\n")
    assert [(one.text, one.begins) for one in read_texts([path], documents="labelled")] == [
        ("A fine film. ||| Go!", True), ("No.", True),
    ]  # fmt: skip


# -- the model that reads from the end --------------------------------------------------------------------------------


def test_a_backward_model_foretells_the_words_before(models: Path) -> None:
    """log p of a text is that of its tokens turned round, each foretold from those after it; it cannot write on."""
    generator = qkv.load(models / "backward")
    loaded = folder.load(models / "backward")
    ids = [2, *loaded.tokenizer.encode("It was good.")[::-1]]
    log_p = loaded.model(torch.tensor([ids[:-1]])).logits.log_softmax(dim=2)
    expected = -sum(log_p[0, i, token].item() for i, token in enumerate(ids[1:]))
    assert generator.score("It was good.").nats == pytest.approx(expected, rel=1e-5)
    with pytest.raises(InputError, match="reads texts from their end to their beginning, so that it cannot go on"):
        generator.generate("It was")


def test_two_directions_are_averaged(reviews: Path, models: Path, tmp_path: Path) -> None:
    for way in ("forward", "backward"):
        tune(reviews, models / way, tmp_path / way)
    texts = ["It was good.", "this is film 7 of 1. It was bad."]
    alone = [qkv.load(tmp_path / way).predict(texts) for way in ("forward", "backward")]
    both = qkv.load(tmp_path / "forward", beside=tmp_path / "backward").predict(texts)
    for first, second, found in zip(*alone, both, strict=True):
        for label in ("neg", "pos"):
            mean = (first["probabilities"][label] + second["probabilities"][label]) / 2
            assert found["probabilities"][label] == pytest.approx(mean)
        assert found["label"] == max(found["probabilities"], key=found["probabilities"].get)
    figures = score_files(tmp_path / "forward", reviews, beside=tmp_path / "backward")
    assert figures["examples"] == 60
    assert {"accuracy", "macro_f1", "mcc"} <= figures.keys()
    assert json.loads((tmp_path / "backward" / "config.json").read_text())["backward"] is True


def test_a_backward_classifier_reads_what_a_forward_one_reads_of_turned_texts(models: Path) -> None:
    words, kind = folder.load(models / "backward").tokenizer, TASKS["classify"]
    ahead, back = (kind(kind.data_class(backward=way), MODELS["awd_lstm"]) for way in (False, True))
    asked, facts = [ahead.question("It was good.", "")], {"labels": ["neg", "pos"], "max_length": 30}
    [[ids, _]], [[turned, _]] = (task.encode(asked, words, facts) for task in (ahead, back))
    assert turned == ids[::-1]
    assert len(ids) > 4


@refused(
    {
        "forward": "reads texts from their beginning, and data.backward asks for the other way; leave it out",
        "backward": "reads texts from their end, and data.backward asks for the other way; leave it out",
    }
)
def test_a_model_keeps_its_direction(wrong: str, reviews: Path, models: Path, tmp_path: Path) -> None:
    tune(reviews, models / wrong, tmp_path / "out", data={"backward": wrong == "forward"})


def test_what_has_no_direction_or_no_average_is_refused(reviews: Path, models: Path, tmp_path: Path) -> None:
    pairs = CORPORA["pair"].write(tmp_path)
    with pytest.raises(InputError, match="reads texts from their end, which the task 'pair' cannot"):
        qkv.train(pairs, task="pair", start=models / "backward", out=tmp_path / "pair", quiet=True)
    with pytest.raises(InputError, match=r"data.backward and data.head are for backbones"):
        qkv.train(reviews, task="classify", out=tmp_path / "han", quiet=True, data={"backward": True})
    with pytest.raises(InputError, match="only classifiers are averaged, leave beside out"):
        qkv.load(models / "forward", beside=models / "backward")
    tune(reviews, models / "forward", tmp_path / "one")
    lines = (f"{label}\tIt was {label}, film {number}.\n" for number in range(30) for label in ("good", "bad"))
    other = write(tmp_path / "other.tsv", "".join(lines))
    tune(other, models / "forward", tmp_path / "other")
    with pytest.raises(
        InputError, match=r"does not answer with the labels of .*one \(neg, pos\), so that they cannot be"
    ):
        qkv.load(tmp_path / "one", beside=tmp_path / "other")


# -- Chronopoulou et al. 2019 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "awake"), [(1.0, set()), (4.0, {"layers.0", "layers.1", "layers.2", "projection.bias"})]
)
def test_embeddings_of_siatl_sleep_before_the_fifth_epoch(
    reviews: Path, models: Path, tmp_path: Path, epochs: float, awake: set[str]
) -> None:
    """By the groups of its recipe: after one epoch the head alone is new, after four the words are still the same."""
    recipe = read_settings("siatl-movie-reviews")
    keys = ("groups", "schedule", "learning_rate")
    training = {"epochs": epochs, "best_by": "loss", **{key: recipe["training"][key] for key in keys}}
    data = {"head": recipe["data"]["head"]}
    how = {"objective": recipe["objective"], "training": training, "data": data}
    tune(reviews, models / "forward", tmp_path / "out", **how)
    assert moved(tmp_path / "out", models / "forward") == awake


def test_forgetting_is_measured_and_less_with_the_auxiliary_loss(reviews: Path, models: Path, tmp_path: Path) -> None:
    """The perplexity of the texts, of which the language model has learned for longer: with gamma it rises less."""
    whole = {f"{name}_dropout": 0.0 for name in ("input", "hidden", "output", "weight", "embedding")}
    learn(reviews, tmp_path / "lm", training={"steps": 150, "learning_rate": 0.02}, model=whole)
    found = {}
    for name, text in (("gamma", "classes + fading * causal_lm"), ("none", "classes + 0 * causal_lm")):
        training = {"epochs": 5.0, "learning_rate": 0.02, "schedule": "constant", "best_by": "loss"}
        how = {"objective": text, "training": training, "data": {"head": "attention_classes"}}
        tune(reviews, tmp_path / "lm", tmp_path / name, **how)
        lines = (tmp_path / name / "training/log.jsonl").read_text().splitlines()
        found[name] = [one["causal_lm_perplexity"] for one in map(json.loads, lines) if one["event"] == "valid"]
    assert found["gamma"][-1] < 0.95 * found["none"][-1]
    assert found["none"][-1] > found["none"][0]


# -- which head --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "head"),
    [
        ({}, "concat_classes(n=2)"),
        ({"head": "attention_classes(d_hidden=6)"}, "attention_classes(d_hidden=6, n=2)"),
        ({"pool": "mean"}, "classes(n=2, pool='mean')"),
        ({"head": "classes"}, "classes(n=2, pool='concat')"),
        ({"head": "classes(pool='first', n=9)"}, "classes(n=2, pool='first')"),
    ],
)
def test_a_head_is_the_backbones_own_unless_another_is_asked_for(data: dict[str, str], head: str) -> None:
    kind = TASKS["classify"]
    assert kind(kind.data_class(**data), MODELS["awd_lstm"]).heads({"labels": ["a", "b"]}) == {"classes": head}


@refused(
    [
        ({"head": "tags"}, "data.head is 'tags', which names no class of a text; known"),
        ({"head": "concat_clases"}, "did you mean 'concat_classes'"),
        ({"head": "concat_classes", "pool": "mean"}, "data.pool is 'mean', and a head concat_classes has its own way"),
    ]
)
def test_a_head_that_names_no_class_is_refused(wrong: dict[str, str]) -> None:
    kind = TASKS["classify"]
    kind(kind.data_class(**wrong), MODELS["awd_lstm"]).heads({"labels": ["a", "b"]})
