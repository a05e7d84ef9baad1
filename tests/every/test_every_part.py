"""What must hold for every position, attention and model that translates: a part added to a table is tested here.

Every position stands with every attention in a transformer, every attention in every other model.
"""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit import asked
from qkv import folder
from qkv.attention import ATTENTIONS, SCORES, Soft
from qkv.look import record_attention
from qkv.models import MODELS, EncoderDecoder, Model
from qkv.objectives import Translation
from qkv.positions import POSITIONS
from qkv.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer.train(["a b c d"], vocab_size=266)
V, B, S, T = len(TOKENIZER), 4, 9, 7
CHOSEN = [*ATTENTIONS, *SCORES]
TRANSLATORS = [name for name, model in MODELS.items() if issubclass(model, EncoderDecoder)]
SEQUENTIAL = [name for name, position in POSITIONS.items() if not position.needs_tree]
SHAPES = itertools.cycle(
    itertools.product(["post", "pre"], ["all", "decoder", "none"])
)  # by turns, not every one with all


def parts() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for position, attention in itertools.product(SEQUENTIAL, CHOSEN):
        norm, tied = next(SHAPES)
        found.append(("transformer", {"position": position, "attention": attention, "norm": norm, "tied": tied}))
    others = [name for name in TRANSLATORS if name != "transformer"]
    for model, attention in itertools.product(others, ["none", *CHOSEN]):
        if attention in ("none", *SCORES) or "memory" in ATTENTIONS[attention].uses:
            found.append((model, {"attention": attention, "tied": next(SHAPES)[1]}))
    return found


PARTS = parts()


@pytest.fixture(params=PARTS, ids=["-".join([name, *settings.values()]) for name, settings in PARTS])
def model(request: pytest.FixtureRequest) -> Model:
    """With every bias that there is, and weights large enough for attention to choose."""
    name, settings = request.param
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "d_model": 16, "d_ff": 24, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2,
             "max_length": 20, "dropout": 0.0, "attention_bias": True, "output_bias": True,
             "sentence_ends": [5, 6, 7, 8, 9]}  # fmt: skip
    known = {field.name for field in dataclasses.fields(MODELS[name].config_class)}
    given = {key: value for key, value in sizes.items() if key in known}
    model = MODELS[name](MODELS[name].config_class(**given, **settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("query.weight", "key.weight")):
                parameter.mul_(3)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
    return model


@pytest.fixture
def src() -> Tensor:
    ids = torch.randint(4, V, (B, S), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(torch.arange(S) >= torch.tensor([S, 5, 1, 7])[:, None], 0)


@pytest.fixture
def tgt() -> Tensor:
    ids = torch.randint(4, V, (B, T), generator=torch.Generator().manual_seed(2))
    return ids.masked_fill(torch.arange(T) >= torch.tensor([4, T, 2, 1])[:, None], 0)


def along(x: Tensor) -> Tensor:
    """A direction to project on: the sum of a normalised vector is constant and has no gradient at all."""
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=x.dtype)


def close(found: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


def gradient_of_embedded(embedding: nn.Module, call: int, project: Callable[[], Tensor]) -> Tensor:
    """The gradient of project() by what the embedding gave in its first (0) or last (-1) call, (B, T, D)."""
    kept: list[Tensor] = []

    def keep(_: nn.Module, __: tuple[Tensor], out: Tensor) -> None:
        kept.append(out)

    handle = embedding.register_forward_hook(keep)
    result = project()
    handle.remove()
    (gradient,) = torch.autograd.grad(result, kept[call])
    return gradient


def test_the_output_has_its_shape(model: Model, src: Tensor, tgt: Tensor) -> None:
    outputs = model(src, tgt)
    assert outputs.hidden.shape == (B, T, 16)
    assert outputs.logits.shape == (B, T, V)
    assert outputs.logits.isfinite().all()


def test_every_parameter_gets_a_finite_gradient(model: Model, src: Tensor, tgt: Tensor) -> None:
    """In training, several times: what is drawn by lot may leave a part out once."""
    model.train()
    for _ in range(8):
        Translation().loss(model(src, tgt), asked(tgt.roll(-1, 1))).total.backward()
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    largest = max(p.grad.abs().max().item() for p in learning.values() if p.grad is not None)
    for name, parameter in learning.items():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
        if not is_without_effect(model, name):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 1e-6 * largest, name


def is_without_effect(model: Model, name: str) -> bool:
    """Location does not read keys; and softmax does not see a key's bias, which is the same for all keys of a query."""
    part = getattr(model.get_submodule(name.rsplit(".", 2)[0]), "attend", None)
    ignores_keys = isinstance(part, Soft) and type(part.score) is SCORES["location"]
    return ".key." in name and (ignores_keys or name.endswith("bias"))


def test_source_padding_never_leaks_by_value(model: Model, src: Tensor, tgt: Tensor) -> None:
    """More of it changes nothing, and whatever the table says about padding changes nothing either."""
    model, real = model.double(), tgt != 0
    clean = model(src, tgt).logits[real][:, 1:]
    close(model(nn.functional.pad(src, (0, 5)), tgt).logits[real][:, 1:], clean)
    with torch.no_grad():
        model.source.weight[0] += 100 * along(model.source.weight[0])
    close(model(src, tgt).logits[real][:, 1:], clean)


def test_source_padding_never_leaks_by_gradient(model: Model, src: Tensor, tgt: Tensor) -> None:
    real = (tgt != 0)[:, :, None]

    def project() -> Tensor:
        memory = model.encode(src)[0] * (src != 0)[:, :, None]
        return (memory * along(memory)).sum()

    reached = gradient_of_embedded(model.source, 0, project).any(-1)
    assert not (reached & (src == 0)).any()
    assert reached.any(dim=1).all()

    def project_logits() -> Tensor:
        logits = model(src, tgt).logits
        return (logits * real * along(logits)).sum()

    assert not (gradient_of_embedded(model.source, 0, project_logits).any(-1) & (src == 0)).any()


def test_the_future_never_leaks_by_value(model: Model, src: Tensor, tgt: Tensor) -> None:
    clean = model(src, tgt).logits
    for t in range(1, T):
        changed = tgt.clone()
        changed[:, t:] = 4 + (tgt[:, t:] + 11) % (V - 4)
        found = model(src, changed).logits
        assert torch.equal(found[:, :t], clean[:, :t])
        assert not torch.equal(found[:, t], clean[:, t])


def test_the_future_never_leaks_by_gradient(model: Model, src: Tensor, tgt: Tensor) -> None:
    for t in range(T):

        def project(t: int = t) -> Tensor:
            logits = model(src, tgt).logits[:, t]
            return (logits * along(logits)).sum()

        seen = gradient_of_embedded(model.target, -1, project).any(-1)
        assert not seen[:, t + 1 :].any()
        assert seen[:, t].all()


def test_a_prefix_gives_the_first_logits(model: Model, src: Tensor, tgt: Tensor) -> None:
    whole = model(src, tgt).logits
    for t in range(1, T):
        close(model(src, tgt[:, :t]).logits, whole[:, :t])


def test_one_token_at_a_time_equals_all_at_once(model: Model, src: Tensor, tgt: Tensor) -> None:
    _, state = model.start(src)
    steps = torch.stack([model.step(tgt[:, t], state) for t in range(T)], dim=1)
    close(steps, model(src, tgt).logits)


def test_a_reordered_state_goes_on_with_other_rows(model: Model, src: Tensor, tgt: Tensor) -> None:
    state, rows = model.start(src)[1], torch.tensor([2, 0, 0, 3, 1])
    for t in range(3):
        model.step(tgt[:, t], state)
    state.reorder(rows)
    steps = torch.stack([model.step(tgt[rows, t], state) for t in range(3, T)], dim=1)
    close(steps, model(src[rows], tgt[rows]).logits[:, 3:])


def test_a_row_alone_equals_the_row_in_a_batch(model: Model, src: Tensor, tgt: Tensor) -> None:
    together = model(src, tgt).logits
    for row in range(B):
        own_src, own_tgt = src[row][src[row] != 0][None], tgt[row][tgt[row] != 0][None]
        close(model(own_src, own_tgt).logits[0], together[row, : own_tgt.size(1)])


def test_a_source_of_nothing_but_padding_harms_nobody(model: Model, src: Tensor, tgt: Tensor) -> None:
    """Its attention has nothing to look at: zeros, no nan, and no harm to its neighbours."""
    clean = model(src, tgt).logits
    logits = model(src.index_fill(0, torch.tensor([1]), 0), tgt).logits
    others = torch.tensor([0, 2, 3])
    assert logits.isfinite().all()
    close(logits[others], clean[others])
    (logits * along(logits)).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_rows_in_another_order_give_the_results_in_that_order(model: Model, src: Tensor, tgt: Tensor) -> None:
    order = torch.tensor([2, 0, 3, 1])
    close(model(src[order], tgt[order]).logits, model(src, tgt).logits[order])


def test_what_is_saved_is_what_is_loaded(model: Model, src: Tensor, tgt: Tensor, tmp_path: Path) -> None:
    folder.save(tmp_path, model, TOKENIZER, {"source": "en", "target": "de"})
    loaded = folder.load(tmp_path)
    assert loaded.model.config == model.config
    assert loaded.tokenizer.to_str() == TOKENIZER.to_str()
    assert (loaded.about["source"], loaded.about["target"]) == ("en", "de")
    assert torch.equal(loaded.model(src, tgt).logits, model(src, tgt).logits)
    pointers = {p.data_ptr() for p in loaded.model.parameters()}
    assert len(pointers) == len(list(model.parameters()))  # what was tied is tied again


def test_float64_equals_float32(model: Model, src: Tensor, tgt: Tensor) -> None:
    narrow = model(src, tgt).logits
    close(model.double()(src, tgt).logits.float(), narrow, atol=1e-4)  # unscaled products are large, their rounding too


def test_the_weights_of_every_attention_can_be_recorded(model: Model, src: Tensor, tgt: Tensor) -> None:
    clean = model(src, tgt).logits
    with record_attention(model) as maps:
        close(model(src, tgt).logits, clean)
    assert any(name.endswith("memory_attention") for name in maps) or model.config.attention == "none"
    for name, weights in maps.items():
        assert weights.isfinite().all(), name
        assert (weights >= 0).all(), name
        assert (weights.sum(dim=-1) <= 1 + 1e-5).all(), name
        if name.endswith("memory_attention"):
            blocked = (src == 0)[:, None, None, :].expand_as(weights)
            assert (weights[blocked] == 0).all(), name
