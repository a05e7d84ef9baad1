"""What must hold for every position, attention and model that translates: a part added to a table is tested here.

Every position stands with every attention in a transformer, every attention in every other model. Of the former, half
are left to `make test-slow`: each position still meets every second attention here, and each attention every second
position.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import properties
from kit import along, asked, close, sizes, stand_together, tokenizer
from qkv import folder
from qkv.attention import ATTENTIONS, SCORES
from qkv.look import record_attention
from qkv.models import MODELS, EncoderDecoder, Model
from qkv.objectives import Translation
from qkv.positions import POSITIONS

TOKENIZER = tokenizer("a b c d", size=266)
V, B, T = len(TOKENIZER), 4, 7
CHOSEN = [*ATTENTIONS, *SCORES]
TRANSLATORS = [name for name, model in MODELS.items() if issubclass(model, EncoderDecoder)]
SEQUENTIAL = [name for name, position in POSITIONS.items() if not position.needs_tree]
SHAPES = itertools.cycle(
    itertools.product(["post", "pre"], ["all", "decoder", "none"])
)  # by turns, not every one with all


def parts() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for position, attention in itertools.product(SEQUENTIAL, CHOSEN):
        if not stand_together(position, attention):
            continue
        norm, tied = next(SHAPES)
        found.append(("transformer", {"position": position, "attention": attention, "norm": norm, "tied": tied}))
    others = [name for name in TRANSLATORS if name != "transformer"]
    for model, attention in itertools.product(others, ["none", *CHOSEN]):
        if model == "ssru" and attention == "none":  # its encoder must attend
            continue
        if attention in ("none", *SCORES) or "memory" in ATTENTIONS[attention].uses:
            found.append((model, {"attention": attention, "tied": next(SHAPES)[1]}))
    return found


def named(name: str, settings: dict[str, Any]) -> Any:
    """A parameter of the tests; slow at every second square of the board of positions and attentions."""
    square = name == "transformer" and SEQUENTIAL.index(settings["position"]) + CHOSEN.index(settings["attention"])
    return pytest.param(
        (name, settings), id="-".join([name, *settings.values()]), marks=[pytest.mark.slow] if square % 2 else []
    )


@pytest.fixture(params=[named(*one) for one in parts()])
def model(request: pytest.FixtureRequest) -> Model:
    """With every bias that there is, and weights large enough for attention to choose."""
    name, settings = request.param
    torch.manual_seed(0)
    given = sizes(
        name, vocab_size=V, n_heads=4, encoder_layers=2, decoder_layers=2, max_length=20, attention_bias=True,
        output_bias=True, sentence_ends=[5, 6, 7, 8, 9],
    )  # fmt: skip
    model = MODELS[name](MODELS[name].config_class(**given, **settings)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("query.weight", "key.weight")):
                parameter.mul_(3)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.3)
    return model


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
    properties.every_parameter_has_a_gradient(model)


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
    properties.the_future_never_leaks(lambda read: model(src, read).logits, tgt, V)


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
    properties.steps_equal_the_whole(model, src, tgt)


def test_a_reordered_state_goes_on_with_other_rows(model: Model, src: Tensor, tgt: Tensor) -> None:
    properties.a_reordered_state_goes_on_with_other_rows(model, src, tgt)


def test_a_row_alone_equals_the_row_in_a_batch(model: Model, src: Tensor, tgt: Tensor) -> None:
    properties.a_row_alone_is_the_row_in_a_batch(model, src, tgt)


def test_a_source_of_nothing_but_padding_harms_nobody(model: Model, src: Tensor, tgt: Tensor) -> None:
    properties.a_source_of_nothing_but_padding_harms_nobody(model, src, tgt)


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
        if model.config.attention != "linformer":  # which mixes with any numbers
            assert (weights >= 0).all(), name
            assert (weights.sum(dim=-1) <= 1 + 1e-5).all(), name
        if name.endswith("memory_attention"):
            blocked = (src == 0)[:, None, None, :].expand_as(weights)
            assert (weights[blocked] == 0).all(), name
