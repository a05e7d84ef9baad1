"""Several tasks at once: one backbone, a head for each; a part alone is its task alone, and nobody moves another's."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

import qkv
from corpora import CORPORA
from kit import Result, batch, real, refused, same, save_untrained, tiny_model, tokenizer
from qkv import folder
from qkv.data import Batch, Place, generator
from qkv.errors import InputError
from qkv.folder import RunFolder
from qkv.models import MODELS, Headed
from qkv.objectives import Choices, Each, in_full, objective
from qkv.opening import score_files
from qkv.serving.models import Models
from qkv.tasks import Corpus
from qkv.tasks.joint import Joint, JointConfig
from qkv.training import checkpoint
from qkv.training.settings import complete, paths, read_settings

KINDS = {"a": "classify", "b": "pair", "c": "similarity", "d": "choose", "e": "tag", "f": "answer"}
PARTS = ["a=classify(score='mcc')", "b=pair(head='san(turns=2)')", "c=similarity", "d=choose", "e=tag",
         "f=answer(stride=8, max_length=24)"]  # fmt: skip
MODEL = {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 32, "dropout": 0.2}
STEPS: dict[str, Any] = {"steps": 6, "epochs": 0.0, "threads": 1, "precision": "float32", "patience": 0,
                         "schedule": "constant", "learning_rate": 0.01}  # fmt: skip


def files(place: Path, parts: str = "abcdef", count: int = 30, seed: int = 1) -> list[Path]:
    """A file for each part, in their order."""
    for part in parts:
        (place / part).mkdir(exist_ok=True)
    return [CORPORA[KINDS[part]].write(place / part, count, seed) for part in parts]


def settings(parts: str = "abcdef", **training: Any) -> dict[str, Any]:
    names = [text for text in PARTS if text[0] in parts]
    data = {"parts": names, "vocab_size": 340, "batch_tokens": 120}
    return {"task": "joint", "architecture": "bert", "data": data, "model": MODEL, "quiet": True,
            "training": {**STEPS, **training}}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("joint")
    valid = files(place, count=12, seed=2)
    qkv.train(*files(place), valid=valid, out=place / "model", **settings())
    return place / "model"


def state(out: Path) -> dict[str, Tensor]:
    found = checkpoint.newest(RunFolder(out).checkpoints, pytest.fail)
    assert found is not None
    return {**found.weights, **found.tensors}


# -- one part, and several ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", KINDS)
def test_a_mixture_of_one_part_is_its_task_alone(part: str, tmp_path: Path) -> None:
    """To the bit: the same rows, batches, first weights, random numbers and figures; only the head has another name."""
    [train], [valid] = files(tmp_path, part), files(tmp_path, part, count=12, seed=2)
    how = settings(part, validate_every=3)
    joint = qkv.train(train, valid=[valid], out=tmp_path / "joint", **how)
    text = how["data"].pop("parts")[0]
    own = {"stride": 8, "max_length": 24} if part == "f" else {"head": "san(turns=2)"} if part == "b" else {}
    how = {**how, "task": KINDS[part], "data": {**how["data"], **own}}
    score = "mcc" if part == "a" else Joint(JointConfig(parts=[text])).tasks[part].score
    how["training"] = {**how["training"], "best_by": score}
    alone = qkv.train(train, valid=[valid], out=tmp_path / "alone", **how)
    renamed = {
        name.replace(f"heads.{part}.", "heads."): value
        for name, value in load_file(tmp_path / "joint" / "model.safetensors").items()
    }
    assert same(renamed, load_file(tmp_path / "alone" / "model.safetensors"))
    assert joint.best["mean"] == joint.best[f"{part}.{score}"] == pytest.approx(alone.best[score], nan_ok=True)
    assert joint.best["loss"] == pytest.approx(alone.best["loss"])


def test_every_part_answers_with_the_same_weights(model: Path) -> None:
    """What all share is in the folder once, and in memory once; a part opened alone says the same."""
    names = load_file(model / "model.safetensors")
    bert = dict(folder.load(model).model.backbone.named_parameters())  # type: ignore[union-attr,operator]
    assert {name for name in names if not name.startswith("heads.")} == {f"backbone.{name}" for name in bert}
    assert {name.split(".")[1] for name in names if name.startswith("heads.")} == set(KINDS)
    opened = qkv.load(model)
    assert [*opened.parts] == [*KINDS]
    owners = {one.model.backbone for one in opened.parts.values()}
    assert owners == {opened.model.backbone}
    for part, task in KINDS.items():
        questions = CORPORA[task].questions
        answers = opened.parts[part].predict(questions)
        assert answers == qkv.load(model, part=part).predict(questions) != []
        plain = qkv.load(model, part=part, engine="plain").predict(questions)
        assert [[*one] for one in plain] == [[*one] for one in answers]


def test_the_mean_is_that_of_what_each_part_counts_by(model: Path) -> None:
    place = model.parent
    valid = files(place, count=12, seed=2)
    whole = score_files(model, *valid)
    counts = {"a": "mcc", "b": "accuracy", "c": "pearson", "d": "accuracy", "e": "f1", "f": "f1"}
    alone = {part: score_files(model, path, part=part) for part, path in zip(KINDS, valid, strict=True)}
    assert [one["task"] for one in alone.values()] == [*KINDS.values()]
    for part, figure in counts.items():
        assert whole[f"{part}.{figure}"] == pytest.approx(alone[part][figure])
    assert whole["mean"] == pytest.approx(sum(alone[part][figure] for part, figure in counts.items()) / 6)
    assert whole["loss"] == pytest.approx(sum(one["loss"] for one in alone.values()) / 6)
    log = [json.loads(line) for line in RunFolder(model).log.read_text().splitlines()]
    best = [event for event in log if event["event"] == "valid" and event["best"]][-1]
    assert best["mean"] == pytest.approx(whole["mean"], abs=1e-5)
    assert whole["examples"] == 72


def test_a_run_that_was_killed_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Four parts, whose batches come by turns; turns of an answer are dropped by chance."""
    given, how = files(tmp_path, "abcd"), settings("abcd", steps=10_000, checkpoint_steps=1, validate_every=5)
    out, code = tmp_path / "killed", "import json, sys, qkv; qkv.train(out=sys.argv[2], **json.loads(sys.argv[1]))"
    told = json.dumps({**how, "train": [*map(str, given)]})
    with subprocess.Popen([sys.executable, "-c", code, told, str(out)]) as process:
        while process.poll() is None and not checkpoint.existing(RunFolder(out).checkpoints):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    reached = int(checkpoint.existing(RunFolder(out).checkpoints)[-1].name.rpartition("-")[2])
    qkv.train(out=out, quiet=True, training={"steps": reached + 4})
    how["training"]["steps"] = reached + 4
    qkv.train(*given, out=tmp_path / "whole", **how)
    assert same(state(tmp_path / "whole"), state(out))
    with pytest.raises(InputError, match=r"asks the part '[cd]', and data.parts has a, b; name it in both"):
        qkv.train(*given[:2], out=out, **settings("ab"))


# -- what is asked of a batch ------------------------------------------------------------------------------------------


def mixed_batches(out: Path) -> tuple[Headed, Each, dict[str, Batch]]:
    """A model of six parts, what it is asked, and a batch of each."""
    loaded = folder.load(out)
    assert isinstance(loaded.model, Headed)
    done = complete(read_settings(RunFolder(out).recipe), "recipe")
    task = Joint(done.data, MODELS["bert"])
    asked = objective(done.objective).knowing(loaded.tokenizer, loaded.model.inputs())
    assert isinstance(asked, Each)
    batches = task.stream(Corpus.open(RunFolder(out).corpus).train)
    return loaded.model, asked, {[*KINDS][one.part]: one for one in batches.in_order()}


def test_a_batch_moves_its_own_head_and_what_all_share(model: Path) -> None:
    """The gradients of the heads of others are none at all, so that no optimiser moves them."""
    several, asked, batches = mixed_batches(model)
    assert [*batches] == [*KINDS]
    for part, one in batches.items():
        several.zero_grad(set_to_none=True)
        question = asked.prepare(one, generator(1, Place()))
        loss = asked.loss(several.train()(**question.inputs), question)
        loss.total.backward()
        moved = {name: value.grad for name, value in several.named_parameters() if value.grad is not None}
        assert {name.split(".")[1] for name in moved if name.startswith("heads.")} == {part}
        assert any(name.startswith("backbone.encoder") and bool(grad.any()) for name, grad in moved.items())


def test_a_batch_costs_what_its_own_objective_says(model: Path) -> None:
    several, asked, batches = mixed_batches(model)
    for part, one in batches.items():
        question, own = asked.prepare(one, generator(1, Place())), asked.objectives[part]
        alone = own.prepare(one, generator(1, Place()))
        found, expected = (
            asked.loss(several(**question.inputs), question),
            own.loss(several.of(part)(**alone.inputs), alone),
        )
        assert torch.equal(found.total, expected.total)
        assert found.parts.keys() == expected.parts.keys()


def test_ranking_is_cross_entropy_over_the_candidates() -> None:
    """Liu et al. 2019, Eq. 5: - log of exp(Rel(Q, A+)) over the sum for all candidates, each read by itself."""
    model = Headed(tiny_model("bert"), {"rank.choices": "choices(pool='first')"}).eval()  # type: ignore[arg-type]
    question, right, candidates = [5, 6], 2, [[7], [8, 9, 10], [11, 12]]
    framed = [[1, *question, 2, *candidate, 2] for candidate in candidates]
    row = batch([[token for one in framed for token in one], [len(one) for one in framed], [right]])
    asked = Each(parts=["rank=choices"])
    given = asked.prepare(row, generator(1, Place()))
    said = []
    for one in framed:  # w . h + b of the first token, one text at a time
        segments = torch.tensor([[0] * 4 + [1] * (len(one) - 4)])
        hidden = model.backbone.encode(torch.tensor([one]), segments=segments)  # type: ignore[operator]
        output = model.heads.get_submodule("rank.choices.output")
        said.append(output.weight[0] @ hidden[0, 0] + output.bias[0])
    scores = torch.stack(said)
    expected = -(scores[right].exp() / scores.exp().sum()).log()
    found = asked.loss(model(**given.inputs), given).total
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found, F.cross_entropy(scores[None], torch.tensor([right])))
    assert isinstance(asked.objectives["rank"], Choices)


def test_the_objective_of_each_part_may_be_another() -> None:
    """What is not said is what its task asks; the text is whole, and reads back as it is."""
    tree = {"task": "joint", "architecture": "bert", "data": {"parts": ["a=classify", "c=similarity"]}}
    asked = complete({**tree, "objective": "each(parts=['a=classes(label_smoothing=0.1)'])"}, "x").objective
    assert asked == "each(parts=['a=classes(label_smoothing=0.1)', 'c=number'])"
    assert in_full(asked) == asked
    assert complete({**tree, "objective": asked}, "x").objective == asked
    assert complete(tree, "x").objective == "each(parts=['a=classes(label_smoothing=0.0)', 'c=number'])"


# -- to begin with, and on ---------------------------------------------------------------------------------------------


def test_berts_pooler_begins_every_head_that_has_one(tmp_path: Path) -> None:
    words = tokenizer("the dog sees a cat")
    torch.manual_seed(0)
    bert = Headed(tiny_model("bert", vocab_size=len(words), max_length=64), {"pooled": "pooled"})  # type: ignore[arg-type]
    folder.save(tmp_path / "bert", bert, words, {"task": "fill"})
    how = {**settings("abc", steps=1, freeze="backbone, heads.a.classes.dense, heads.c.number.dense"), "model": {}}
    how["data"] = {"parts": how["data"]["parts"], "batch_tokens": 200}
    qkv.train(*files(tmp_path, "abc"), start=tmp_path / "bert", out=tmp_path / "model", **how)
    found = load_file(tmp_path / "model" / "model.safetensors")
    for name in ("a.classes", "c.number"):
        assert torch.equal(found[f"heads.{name}.dense.0.weight"], bert.heads["pooled"].dense[0].weight)


def test_a_second_stage_goes_on_with_the_head_of_its_part(model: Path, tmp_path: Path) -> None:
    """Liu et al. 2019, section 3.1: fine-tuned on one task after all; where its labels are others, its head is new."""
    how = {**settings("b", steps=1, freeze="backbone, heads"), "model": {}}
    how["data"] = {"parts": how["data"]["parts"], "batch_tokens": 200}
    [train] = files(tmp_path, "b")
    with pytest.raises(InputError, match="freeze"):  # nothing would learn
        qkv.train(train, start=model, out=tmp_path / "none", **how)
    how["training"]["freeze"] = "backbone, heads.b.classes.output"
    qkv.train(train, start=model, out=tmp_path / "same", **how)
    train.write_text(train.read_text().replace("\tsame", "\tequal"))
    qkv.train(train, start=model, out=tmp_path / "other", **how)
    before, same_labels, others = (
        load_file(one / "model.safetensors")["heads.b.classes.output.weight"]
        for one in (model, tmp_path / "same", tmp_path / "other")
    )
    assert torch.equal(before, same_labels)
    assert not torch.equal(before, others)


# -- the commands ------------------------------------------------------------------------------------------------------


def test_a_part_is_asked_and_scored_by_its_name(model: Path, command: Callable[..., Result]) -> None:
    valid = files(model.parent, count=12, seed=2)
    said = command("predict", "the dog sees 7", "a dog runs", "--part", "b", "--model", model)
    assert said.code == 0, said.err
    assert said.out.split("\t")[0] in ("same", "other")
    scored = command("score", *valid, "--model", model)
    assert "mean of the parts" in scored.out
    assert "b accuracy" in scored.out
    assert json.loads(command("score", valid[1], "--model", model, "--part", "b", "--json").out)["task"] == "pair"
    for wrong, why in (
        (["predict", "a"], "has several parts; say which is asked, by --part: a, b, c, d, e, f"),
        (["predict", "a", "--part", "g"], "the mixture has no part 'g'; known: a, b, c, d, e, f"),
        (["score", valid[0]], "1 file was given for the parts a, b, c, d, e, f; give one for each, in this order"),
        (["score", valid[0], "--part", "g"], "the mixture has no part 'g'"),
    ):
        found = command(*wrong, "--model", model)
        assert found.code == 1
        assert why in found.err


def test_another_model_has_no_parts(tmp_path: Path, command: Callable[..., Result]) -> None:
    words = tokenizer("a b")
    save_untrained(tmp_path / "m", "transformer", words, {"source": "en", "target": "de"})
    found = command("score", tmp_path / "x", "--part", "a", "--model", tmp_path / "m")
    assert "translates, which has no parts; leave --part out" in found.err


def test_each_part_is_served_by_a_name_of_its_own(model: Path) -> None:
    served = Models.load([model])
    assert [one.name for one in served.served] == ["model", *(f"model.{part}" for part in KINDS)]
    assert served.able("predict", "model.c").task == "similarity"
    assert "score" in served.able("predict", "model.c").does("predict").predict(("a", "b"))
    assert served.able("embed").name == "model"


# -- what is refused ---------------------------------------------------------------------------------------------------


@refused(
    {
        "rte": "data.parts has 'rte'; write a name of letters, =, and what it is, for example rte=pair",
        "a b=pair": "data.parts has 'a b=pair'",
        "a=": "data.parts has 'a='",
        "a=translate": "a has the task 'translate', which shares no backbone",
        "a=pear": "did you mean 'pair'",
        "type=pair": "a part cannot be called 'type'",
        "a=pair(score='f1')": "a is to count by 'f1'",
        "a=pair(heads='san')": "data.parts: a: unknown key 'heads'; did you mean 'head'",
        "a=pair(head='tags')": "head must be san, or empty for a linear layer, not 'tags'",
        "a=pair(max_length=-1)": "max_length must be a number of tokens",
        "a=pair(": "does not name a part",
    },
    "text",
)
def test_a_part_that_cannot_be_is_refused(text: str) -> None:
    Joint(JointConfig(parts=[text]))


def test_two_parts_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"data.parts names 'a' twice; give each a name of its own"):
        Joint(JointConfig(parts=["a=pair", "a=classify"]))


@refused(
    {
        "classes": "the objective of a mixture is each, not classes",
        "each(parts=['z=classes'])": "the objective each asks the part 'z', and data.parts has a; name it",
        "each(parts=['a=clases'])": "did you mean 'classes'",
        "each(parts=['a'])": "each has 'a'; write a name",
    },
    "text",
)
def test_an_objective_of_no_mixture_is_refused(text: str) -> None:
    complete({"task": "joint", "objective": text, "data": {"parts": ["a=pair"]}}, "x")


def test_what_does_not_fit_the_parts_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    given, out = files(tmp_path, "ab"), tmp_path / "model"
    for train, how, why in (
        (given[:1], settings("ab"), "1 file was given for the parts a, b; give one for each, in this order"),
        (given, {**settings("ab"), "data": {}}, "a mixture of no parts was asked for; name them"),
        (given, {**settings("ab"), "architecture": "gpt", "model": {}}, "with no </s> between; leave it out, or start"),
    ):
        with pytest.raises(InputError, match=why) as caught:
            qkv.train(*train, out=out, **how)
        assert "\n" not in str(caught.value)
        assert not (out / "config.json").exists()
    mixture = [("a", ("pos", "good film")), ("a", ("neg", "bad film")), ("z", ("pos", "x"))]
    with pytest.raises(
        InputError, match=r"train example 3 is \('z', .*; give a part \(a, b\) and an example of its task"
    ):
        qkv.train(mixture=mixture, out=out, **settings("ab"))
    with pytest.raises(InputError, match="the part b has no example to train on; give it some, or leave it out"):
        qkv.train(mixture=mixture[:2], out=out, **settings("ab"))


def test_a_folder_whose_parts_are_gone_is_refused(model: Path, tmp_path: Path) -> None:
    """Nothing but one sentence, whatever was done to config.json by hand."""
    loaded = folder.load(model)
    for key, value in (("mixture", {}), ("parts", ["z=pair"]), ("parts", ["a=pear"])):
        folder.save(tmp_path / "m", loaded.model, loaded.tokenizer, {**loaded.about, key: value})  # type: ignore[misc]
        with pytest.raises(InputError):
            qkv.load(tmp_path / "m")


# -- the recipe --------------------------------------------------------------------------------------------------------


def test_the_recipe_reads_six_tasks_of_glue() -> None:
    """The files of each part are of its task, in the order of the parts; the counts are those of GLUE's dev sets."""
    real("glue")
    tree = read_settings("mtdnn-glue")
    rows = tree.pop("vary")
    done = complete(tree, "recipe")
    task = Joint(done.data, MODELS["bert"])
    counts: dict[str, int] = {}
    for example in task.read(paths(done.valid)):
        counts[example.part] = counts.get(example.part, 0) + 1
    assert counts == {"sst2": 872, "cola": 1043, "mrpc": 408, "rte": 277, "stsb": 1500, "wnli": 71}
    assert len(done.train) == len(rows) - 1 == 6
    for row in rows[1:]:  # each task alone has the part and the files that it has in the mixture
        [part] = row["data"]["parts"]
        number = done.data.parts.index(part)
        assert (row["train"], row["valid"]) == ([done.train[number]], [done.valid[number]])
