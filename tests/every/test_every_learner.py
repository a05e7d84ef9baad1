"""What must hold for every task with every model that learns it: what is added to the tables is tested here.

A learner is a task, a model and the objective that asks for it, put together as a run does it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from corpora import COMPOUND, LEARNERS, PRETRAINERS, RECIPES, Learner, alone, learner
from kit import same, weights
from qkv import folder
from qkv.config import from_tree, to_tree
from qkv.data import Batch, Place, generator
from qkv.models import MODELS
from qkv.objectives import OBJECTIVES, Asked, BidirectionalLM, CausalLM, Loss, MaskedLM, PermutationLM, objective, plain
from qkv.opening import task_in
from qkv.tasks import TASKS

Make = Callable[..., Learner]


def named(learners: list[tuple[str, str, str]]) -> Any:
    return {"params": learners, "ids": ["-".join(filter(None, names)) for names in learners]}


@pytest.fixture(**named(LEARNERS + PRETRAINERS + COMPOUND))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return lambda **how: learner(*request.param, tmp_path, **how)


@pytest.fixture(**named(LEARNERS + PRETRAINERS))
def single(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Of a sum, or of several by turns, a row alone has other shares: these are left to their parts."""
    return lambda **how: learner(*request.param, tmp_path, **how)


def some(one: Learner, count: int = 3) -> list[Batch]:
    return list(islice(one.batches.in_order(), count))


def ask(one: Learner, batch: Batch, number: int = 3) -> Asked:
    return one.objective.prepare(batch, generator(1, Place(0, number)))


def is_drawn(one: Learner) -> bool:
    """Whether what is asked of a row is drawn by chance, or made of other rows of its batch."""
    return one.objective.turn == 2 or one.objective.passages


def loss(one: Learner, batch: Batch) -> Loss:
    return cost(one, ask(one, batch))


def parted(one: Learner, batch: Batch) -> list[Loss]:
    """What each row costs by itself: asked alone, or where chance decides what is asked, by the same question."""
    if not is_drawn(one):
        return [loss(one, row) for row in alone(batch)]
    asked = ask(one, batch)
    return [cost(one, picked(asked, slice(row, row + 1))) for row in range(len(batch))]


def cost(one: Learner, asked: Asked) -> Loss:
    return one.objective.loss(one.model(**asked.inputs), asked)


def picked(asked: Asked, rows: Any) -> Asked:
    """The question of some rows."""
    return Asked({name: value[rows] for name, value in asked.inputs.items()}, asked.labels[rows], asked.count)


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in what a model gives, or in what it is asked, however deep."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors([getattr(value, name) for name in value.__dataclass_fields__ if name != "vocabulary"])


def test_a_row_alone_costs_what_it_costs_in_a_batch(single: Make) -> None:
    """So that no row sees another, nor its padding; and gradients may be gathered over several small batches."""
    one = single()
    one.model.eval()
    for batch in some(one):
        together, rows = loss(one, batch), parted(one, batch)
        assert together.total.item() == pytest.approx(sum(row.total.item() for row in rows), rel=1e-5)
        for name, part in together.parts.items():
            assert part.item() == pytest.approx(sum(row.parts[name].item() for row in rows), rel=1e-5)
        if not is_drawn(one):
            assert ask(one, batch).count == sum(ask(one, row).count for row in alone(batch))
    assert max(map(len, some(one))) > 1


def test_the_order_of_rows_does_not_matter(single: Make) -> None:
    one = single()
    one.model.eval()
    batch = max(some(one), key=len)
    order = torch.arange(len(batch)).flip(0)
    if is_drawn(one):
        turned_question = picked(ask(one, batch), order)
        assert cost(one, turned_question).total.item() == pytest.approx(loss(one, batch).total.item(), rel=1e-5)
        return
    columns = tuple(ids[order] for ids in batch.columns)
    turned = Batch(columns, batch.lengths[order], batch.rows[order.numpy()])
    assert loss(one, turned).total.item() == pytest.approx(loss(one, batch).total.item(), rel=1e-5)


def test_every_parameter_gets_a_finite_gradient(make: Make) -> None:
    """In training, over several batches: what is dropped by chance may leave a part out once. And after a first step:
    weights that begin as zeros keep gradients from what stands below them."""
    one = make(dropout=0.1)
    one.model.train()
    optimizer = torch.optim.Adam(one.model.parameters(), lr=0.01)
    loss(one, some(one)[0]).total.backward()
    optimizer.step()
    optimizer.zero_grad()
    words = MaskedLM | CausalLM | BidirectionalLM | PermutationLM
    asks_words = any(isinstance(part, words) for part in plain(one.objective))
    asked = {
        name: parameter
        for name, parameter in one.model.named_parameters()
        if parameter.requires_grad  # not a mean that is counted,
        and (asks_words or not (".projection." in name or name == "backbone.query"))  # nor what no head asks
    }
    # The bias of keys is the same for all keys of a query: softmax does not see it.
    seen = {name: parameter for name, parameter in asked.items() if not name.endswith("key.bias")}
    batches = some(one, 4)
    for number in range(40):
        cost(one, ask(one, batches[number % len(batches)], number)).total.backward()
        if all(parameter.grad is not None and parameter.grad.any() for parameter in seen.values()):
            break
    for name, parameter in asked.items():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name not in seen, name


def test_a_loss_is_a_sum_that_can_be_lowered(make: Make) -> None:
    one = make()
    one.model.train()
    batch = some(one)[0]
    optimizer = torch.optim.Adam(one.model.parameters(), lr=0.01)
    found = [loss(one, batch)]
    assert found[0].total.shape == ()
    assert all(part.shape == () and not part.requires_grad for part in found[0].parts.values())
    assert ask(one, batch).count >= (1 if is_drawn(one) else len(batch))
    for _ in range(30):
        found[-1].total.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss(one, batch))
        if found[-1].total.item() < 0.9 * found[0].total.item():
            return
    raise AssertionError(f"after 30 steps the loss is {found[-1].total.item()}, and it was {found[0].total.item()}")


def test_a_question_depends_on_batch_and_place_alone(make: Make) -> None:
    """Asked twice it is the same; the batch stays as it was, and nobody else's random numbers are touched."""
    one = make()
    batch = some(one)[0]
    before = [ids.clone() for ids in batch.columns]
    state = torch.get_rng_state()
    first, second = ask(one, batch), ask(one, batch)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(before, batch.columns, strict=True))
    for name in ("inputs", "labels"):
        pairs = zip(tensors(getattr(first, name)), tensors(getattr(second, name)), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    assert {tensor.device.type for tensor in tensors([first.to("meta").inputs, first.to("meta").labels])} == {"meta"}


def test_in_evaluation_an_answer_is_always_the_same(make: Make) -> None:
    one = make(dropout=0.3)
    one.model.eval()
    asked = ask(one, some(one)[0])
    state = torch.get_rng_state()
    first, second = (list(tensors(one.model(**asked.inputs))) for _ in range(2))
    assert first
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_float64_equals_float32(make: Make) -> None:
    one = make()
    one.model.eval()
    batch = some(one)[0]
    narrow = loss(one, batch).total
    one.model.double()
    assert loss(one, batch).total.item() == pytest.approx(narrow.item(), rel=1e-5)


def test_what_is_saved_is_what_is_loaded(make: Make, tmp_path: Path) -> None:
    """The same weights and outputs to the bit, the same tokenizer and settings, and a task that encodes alike."""
    one = make()
    one.model.eval()
    folder.save(tmp_path / "model", one.model, one.tokenizer, {"task": one.task.name, **one.facts})
    loaded = folder.load(tmp_path / "model")
    assert type(loaded.model) is type(one.model)
    assert loaded.model.config == one.model.config
    assert loaded.model.sizes() == one.model.sizes()
    assert loaded.tokenizer.fingerprint == one.tokenizer.fingerprint
    assert same(weights(loaded.model), weights(one.model))
    for batch in some(one):
        inputs = ask(one, batch).inputs
        pairs = zip(tensors(loaded.model(**inputs)), tensors(one.model(**inputs)), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    again = task_in(loaded)
    assert type(again) is type(one.task)
    assert again.model is one.task.model
    assert {name: loaded.about[name] for name in one.facts} == one.facts


def test_settings_read_back_as_they_are(make: Make) -> None:
    config = make().model.config
    assert from_tree(type(config), to_tree(config)) == config


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_learned_by_some_task(name: str) -> None:
    assert name in {model for _, model, _ in LEARNERS}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_is_asked_by_some_task_or_recipe(name: str) -> None:
    texts = {task.objective for task in TASKS.values()} | {tree.get("objective") for tree in RECIPES}
    parts = [part for text in texts if isinstance(text, str) for part in plain(objective(text))]
    assert OBJECTIVES[name] in {type(part) for part in parts}


@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name, model in MODELS.items() for preset in model.presets]
)
def test_every_preset_can_be_built(name: str, preset: str) -> None:
    with torch.device("meta"):
        model = MODELS[name](MODELS[name].config_class(**MODELS[name].presets[preset]))
    assert sum(parameter.numel() for parameter in model.parameters()) > 10_000
    assert model.sizes()
