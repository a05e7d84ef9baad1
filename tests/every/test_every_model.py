"""What must hold for every model in MODELS, whatever it is asked: a new model needs one line of inputs here."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import along, close, stirred, tiny_model, tokenizer
from qkv import folder
from qkv.models import (
    MODELS,
    Backbone,
    EncoderDecoder,
    ErnieThu,
    HeadFinder,
    Hierarchical,
    Model,
    Reader,
    TransE,
    XLNet,
)
from qkv.positions import Tree
from qkv.text.tokenizer import PAD

TOKENIZER = tokenizer("a b c d", size=266, kind="characters")  # each of which is a word
V, B, T = len(TOKENIZER), 3, 6
SIZES = {"vocab_size": V, "d_embedding": 16, "n_heads": 4, "layers": 2, "encoder_layers": 2, "decoder_layers": 2,
         "max_length": 20, "entities": ["a", "b", "c"], "relations": ["in", "of"]}  # fmt: skip


def ids(*shape: int, seed: int = 1) -> Tensor:
    """Padded on the right: rows of all tokens, of three, and of one."""
    drawn = torch.randint(4, V, (B, *shape), generator=torch.Generator().manual_seed(seed))
    lengths = torch.tensor([shape[-1], 3, 1]).view(B, *[1] * len(shape))
    return drawn.masked_fill(torch.arange(shape[-1]) >= lengths, PAD)


# By the kind of model, the first that fits: what its objective prepares.
INPUTS: dict[type[Model], dict[str, Any]] = {
    EncoderDecoder: {"src": ids(7), "tgt": ids(T, seed=2)},
    XLNet: {"ids": ids(T), "targets": torch.tensor([[1, 4], [0, 2], [0, 0]])},
    ErnieThu: {"ids": ids(T), "entities": torch.tensor([[1, 0, 2, 0, 3, 2], [2, 1, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]])},
    Backbone: {"ids": ids(T)},
    TransE: {"links": torch.tensor([[1, 0, 2], [2, 1, 3], [3, 0, 1]])},
    Hierarchical: {"words": ids(4, T)},
    Reader: {"document": ids(T), "question": ids(4, seed=2)},
    HeadFinder: {
        "ids": ids(T),
        "first": torch.tensor([[0, 2, 4], [0, 1, -1], [0, -1, -1]]),
        "tree": Tree(torch.arange(T).expand(B, T), torch.arange(T)[:, None].sub(torch.arange(T)).expand(B, T, T)),
    },
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    model = stirred(tiny_model(request.param, **SIZES), 0.1).eval()
    model.know(TOKENIZER)
    return model


def inputs(model: Model) -> dict[str, Any]:
    return next(given for kind, given in INPUTS.items() if isinstance(model, kind))


def answer(model: Model, **given: Any) -> Tensor:
    """The tensor that its objective reads, -inf (what cannot be) as 0."""
    outputs = model(**given)
    for name in ("logits", "weights"):
        outputs = getattr(outputs, name, outputs)
    return outputs.where(outputs != -torch.inf, 0)


def some(given: Any, rows: Tensor) -> Any:
    return Tree(given.depth[rows], given.relation[rows]) if isinstance(given, Tree) else given[rows]


def test_it_computes_what_an_objective_prepares(model: Model) -> None:
    found = answer(model, **inputs(model))
    assert len(found) == B
    assert found.isfinite().all()


def test_every_parameter_gets_a_finite_gradient(model: Model) -> None:
    found = answer(model, **inputs(model))
    (found * along(found)).sum().backward()
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or name.startswith("projection.entity."):  # which is no word
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0 or ".key.bias" in name, name  # softmax does not see a key's bias


def test_rows_in_another_order_give_the_results_in_that_order(model: Model) -> None:
    given, order = inputs(model), torch.tensor([2, 0, 1])
    moved = {name: some(value, order) for name, value in given.items()}
    close(answer(model, **moved), answer(model, **given)[order])


def test_what_is_saved_is_what_is_loaded(model: Model, tmp_path: Path) -> None:
    folder.save(tmp_path, model, TOKENIZER, {})
    loaded = folder.load(tmp_path).model
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert torch.equal(answer(loaded, **inputs(model)), answer(model, **inputs(model)))


def test_float64_equals_float32(model: Model) -> None:
    narrow = answer(model, **inputs(model))
    close(answer(model.double(), **inputs(model)).float(), narrow)


def test_the_same_seed_gives_the_same_model(model: Model) -> None:
    twins = []
    for _ in range(2):
        torch.manual_seed(1)
        twins.append(type(model)(model.config))
    for (name, one), other in zip(twins[0].named_parameters(), twins[1].parameters(), strict=True):
        assert torch.equal(one, other), name


def test_its_sizes_can_be_told(model: Model) -> None:
    assert f"d_model {model.config.d_model}" in model.sizes()


def test_its_presets_can_be_built(model: Model) -> None:
    for name, settings in model.presets.items():
        with torch.device("meta"):
            assert sum(p.numel() for p in type(model)(type(model).config_class(**settings)).parameters()) > 0, name
