"""Tasks on a backbone: each begins with any of them; settings by its width; what is refused, in a sentence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import qkv
from corpora import CORPORA
from kit import refused, save_untrained
from qkv import folder
from qkv.errors import InputError
from qkv.models import MODELS, Backbone, CausalBackbone
from qkv.opening import score_files
from qkv.tasks import TASKS, Joint
from qkv.tasks.on_backbone import OnBackbone
from qkv.text.tokenizer import Tokenizer

TUNED = [name for name, task in TASKS.items() if issubclass(task, OnBackbone) and task is not Joint]  # made of these
BACKBONES = [name for name, model in MODELS.items() if issubclass(model, Backbone)]
STEP: dict[str, Any] = {"quiet": True, "training": {"steps": 1, "threads": 1, "precision": "float32"}}


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each, untrained; of the encoder, the whole translator."""
    place, named = tmp_path_factory.mktemp("backbones"), ["<mask>", "<sep>", "<cls>"]
    words = Tokenizer.train(["the dog sees a cat"] * 3, vocab_size=300, specials=named)
    for name in BACKBONES:
        held = "transformer" if name == "transformer_encoder" else name
        writes = issubclass(MODELS[name], CausalBackbone)
        task = "translate" if held == "transformer" else "language_model" if writes else "fill"
        save_untrained(place / name, held, words, {"task": task}, max_length=64)
    return place


@pytest.mark.parametrize("backbone", ["gpt", "gpt2", "bert", "roberta", "transformer_encoder"])
@pytest.mark.parametrize("task", TUNED)
def test_every_task_begins_with_any_backbone(task: str, backbone: str, backbones: Path, tmp_path: Path) -> None:
    """Its weights stay where they are frozen, the head is new, and the folder opens and answers."""
    tiny = CORPORA[task]
    how = {**STEP, "training": {**STEP["training"], "freeze": "backbone"}}
    qkv.train(tiny.write(tmp_path, 20), task=task, start=backbones / backbone, out=tmp_path / "model", **how)
    old = folder.weights(folder.load(backbones / backbone).model)
    new = folder.weights(folder.load(tmp_path / "model").model)
    frozen = {name.removeprefix("backbone."): value for name, value in new.items() if name.startswith("backbone.")}
    assert len(frozen) > 5
    assert all(torch.equal(value, old[name]) for name, value in frozen.items())
    assert any(name.startswith("heads.") for name in new)
    assert len(tiny.asks(qkv.load(tmp_path / "model"), tiny.questions)) == len(tiny.questions)


@pytest.mark.parametrize("task", [name for name in TUNED if name != "classify"])
def test_a_score_is_that_of_its_own_validation(task: str, backbones: Path, tmp_path: Path) -> None:
    """`qkv score` on the file that a run validates on gives the figures of that run."""
    tiny = CORPORA[task]
    valid = tiny.write(tmp_path, 12, seed=2)
    trained = qkv.train(
        tiny.write(tmp_path, 20), valid=[valid], task=task, start=backbones / "bert", out=tmp_path / "m", **STEP
    )
    found = score_files(tmp_path / "m", valid)
    assert (found["task"], found["examples"]) == (task, 12)
    assert set(TASKS[task].figures) <= set(found)
    for name in TASKS[task].figures:
        assert found[name] == pytest.approx(trained.best[name], abs=1e-5), name


@pytest.mark.parametrize("task", [name for name in TUNED if name != "classify"])
def test_a_language_model_may_be_asked_beside(task: str, tmp_path: Path) -> None:
    """Radford et al. 2018, Eq. 5: L3 = L2 + 0.5 L1, whatever the task."""
    tiny, sizes = CORPORA[task], {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 32}
    how = {**tiny.settings(steps=1), "model": sizes, "objective": f"{TASKS[task].objective} + 0.5 * causal_lm"}
    found = qkv.train(tiny.write(tmp_path, 20), task=task, architecture="gpt2", out=tmp_path / "m", **how).best
    own, beside = found[f"{TASKS[task].objective}_loss"], found["causal_lm_loss"]
    assert found["loss"] == pytest.approx(own + 0.5 * beside, rel=1e-5)
    assert set(TASKS[task].figures) <= set(found)


def test_a_head_that_reads_another_token_is_new(backbones: Path, tmp_path: Path) -> None:
    """The same labels, but the mean of all tokens in place of the first: that is another question."""
    labelled = [(("bad", "good")[n % 2], f"{n} dogs") for n in range(20)]
    still = {**STEP, "training": {**STEP["training"], "freeze": "backbone, heads.classes.output"}}
    for name, start, data in (("first", "bert", {}), ("again", "first", {}), ("mean", "first", {"pool": "mean"})):
        place = backbones / start if start == "bert" else tmp_path / start
        how = STEP if name == "first" else still
        qkv.train(labelled=labelled, start=place, out=tmp_path / name, data={**data, "seed": len(name)}, **how)
    first, again, mean = (
        folder.weights(folder.load(tmp_path / name).model)["heads.classes.output.weight"]
        for name in ("first", "again", "mean")
    )
    assert torch.equal(again, first)
    assert not torch.equal(mean, first)


# -- settings ----------------------------------------------------------------------------------------------------------


def chosen(
    model: str = "bert", task: str = "pair", *, characters: int = 800_000, limits: Any = None, **start: int
) -> dict[str, Any]:
    kind = TASKS[task]
    made = kind(kind.data_class(), MODELS[model])
    made.start = start
    given: Any = SimpleNamespace(**{"steps": 0, "epochs": 0.0, "minutes": 0.0, **(limits or {})})
    survey: Any = SimpleNamespace(characters=characters)
    return made.choose(survey, torch.device("cpu"), given)


def test_what_was_trained_before_is_tuned_gently() -> None:
    """Devlin et al. 2019: 2e-5 to 5e-5 for base; Turc et al. 2019: up to 3e-4 for tiny. A tenth of the run warms up."""
    rates = [chosen(d_model=width)["training"]["learning_rate"] for width in (128, 512, 768, 1024)]
    assert rates == [3e-4, 1e-4, 3e-5, 3e-5]
    tuned, new = chosen(d_model=768), chosen()
    assert chosen(d_model=768, characters=10**9)["training"]["schedule"] == "linear(warmup=400)"
    assert tuned["training"]["schedule"] == f"linear(warmup={4 * (800_000 // 4 // 2048) // 10})"  # of 388 steps
    assert "preset" not in tuned["model"]
    assert new["model"]["preset"] == "tiny"
    assert new["training"]["epochs"] > tuned["training"]["epochs"] <= 4
    assert new["training"]["learning_rate"] > max(rates)


def test_a_limit_that_is_given_is_the_only_one() -> None:
    """Its tenth warms up; of a run by the clock nobody knows that tenth."""
    by_steps, by_clock = chosen(d_model=768, limits={"steps": 50}), chosen(d_model=768, limits={"minutes": 5.0})
    assert (by_steps["training"]["schedule"], by_steps["training"]["epochs"]) == ("linear(warmup=5)", 0)
    assert (by_clock["training"]["schedule"], by_clock["training"]["epochs"]) == ("linear(warmup=38)", 0)
    for epochs in (1.0, 20.0):  # the second is the default of classify, for a model of another kind
        found = chosen("gpt2", "classify", d_model=256, limits={"epochs": epochs})["training"]
        assert found["schedule"] == f"linear(warmup={int(97 * min(epochs, 4) / 10)})"
        assert found["epochs"] == 4


def test_a_model_that_reads_one_way_reads_both_orders() -> None:
    for name in BACKBONES:
        symmetric = chosen(name, "similarity")["data"]["symmetric"]
        assert symmetric == issubclass(MODELS[name], CausalBackbone)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": {"d_model": "wide"}}, "model.d_model: Input should be a valid integer"),
        ({"model": {"dropout": [0.1]}}, "model.dropout: Input should be a valid number"),
        ({"training": {"epochs": "many"}}, "training.epochs: Input should be a valid number"),
        ({"data": {"limit": 0.5}}, "data.limit: Input should be a valid integer"),
        ({"data": {"max_length": 9999}}, "data.max_length is 9999, but the model's context is"),
    ],
)
def test_a_setting_of_a_wrong_type_is_refused(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    """Before any file is read; but for what must fit the model."""
    file = tmp_path / "train.tsv"
    if "max_length" in given.get("data", {}):
        CORPORA["pair"].write(tmp_path).rename(file)
    with pytest.raises(InputError, match=told):
        qkv.train(file, task="pair", out=tmp_path / "m", quiet=True, **given)


# -- examples and questions --------------------------------------------------------------------------------------------


@refused(
    [
        (("labelled_pairs", ("a", "b", 1)), r"example 1 is \('a', 'b', 1\); pair learns from labelled_pairs: first"),
        (("rated_pairs", ("a", "b", "much")), "example 1 has 'much' where a number was expected; give one, such as"),
        (("rated_pairs", ("a", "b", "nan")), "example 1 has 'nan' where a number was expected"),
        (("tagged", (("a", "b"), ("O",))), "example 1 is .*; tag learns from tagged: words, tags"),
        (("spans", ("a cat", "who", [(3, "cat")], "1")), "has the answer 'cat' at character 3, where its context has"),
        (("spans", ("a cat", "who", [("cat", 2)], "1")), "has the answer .*; give where it begins, and its text"),
        (("spans", (" ", "who", [], "1")), "example 1 has no word in its context; give a question and a text"),
        (("choices", ("a", ["b"], 0)), "example 1 has 1 choices where 2 or more were expected"),
        (("choices", ("a", ["b", "c"], 2)), "example 1 has the answer 2, but its choices are 0 to 1; count from 0"),
        (("choices", ("a", ["b", "c"], -1)), "example 1 does not say which choice is right"),
    ],
    "given",
)
def test_what_is_no_example_is_refused(given: tuple[str, Any], tmp_path: Path) -> None:
    shape, example = given
    qkv.train(**{shape: [example] * 20}, out=tmp_path / "m", quiet=True)


def test_tags_are_as_many_as_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="train example 2 has 2 words and 1 tags; give one tag for each word"):
        qkv.train(tagged=[(["a", "b"], ["O", "X"]), (["a", "b"], ["O"])], out=tmp_path / "m", quiet=True)
    with pytest.raises(InputError, match="the tags 'B-x' and 'x' are of no one scheme"):
        qkv.train(tagged=[([f"a{n}", "b"], ["B-x", "x"]) for n in range(9)], out=tmp_path / "m", quiet=True)


@refused(
    [
        (("pair", "one text"), "text 1 has 1 text where 2 were expected; give first text and second text with a tab"),
        (("pair", ("a", "b", "c")), "text 1 has 3 texts where 2 were expected"),
        (("pair", ("a", 3)), r"text 1 is \('a', 3\); give first text"),
        (("pair", ("a", " ")), "text 1 has a text without a word"),
        (("similarity", "{"), "text 1 has 1 text where 2 were expected"),
        (("tag", "  "), "text 1 has no word, or an empty one"),
        (("tag", '{"words": 3}'), "give a text, or"),
        (("answer", ("who", "")), "text 1 has no word in its text"),
        (("answer", '{"question": "who"}'), "text 1 has no 'context', only the keys 'question'"),
        (("choose", ("a", "b")), 'give {"context"'),
        (("classify", 3), 'text 1 is 3; give text, or {"text": "..."}'),
        (("heads", {"words": "a"}), "text 1 has no 'text', only the keys 'words'"),
        (("cloze", {"words": "a"}), "question 1 is not a cloze question"),
        (("choose", '{"context": "a"}'), "text 1 has no list of texts under 'choices'"),
    ],
    "given",
)
def test_what_is_no_question_is_refused(given: tuple[str, Any]) -> None:
    task, asked = given
    kind = TASKS[task]
    kind(kind.data_class()).question(asked, "text 1")
