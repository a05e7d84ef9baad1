"""What must hold for every backbone, with every position and with every attention that can stand in it.

A backbone added to MODELS, a position or an attention added to its table, is tested here with no new test.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import properties
from kit import along, close, padded, stand_together, stirred, tiny_model, tokenizer
from qkv import folder
from qkv.attention import ATTENTIONS, SCORES, recording
from qkv.models import MODELS, Backbone, CausalBackbone, ErnieThu, Outputs
from qkv.positions import POSITIONS
from qkv.text.tokenizer import PAD

TOKENIZER = tokenizer("a b c d", size=266, kind="characters")  # each of which is a word
V, B, T = len(TOKENIZER), 4, 9
LENGTHS = [T, 5, 1, 7]
SEQUENTIAL = [name for name, position in POSITIONS.items() if not position.needs_tree]
# Options that let an attention show itself on a short text.
SHORT = {"top_k": "top_k(k=3)", "local_m": "local_m(radius=2)", "local_p": "local_p(radius=3)",
         "window": "window(radius=2)", "local": "local(block=3, before=1)",
         "bigbird": "bigbird(block=2, random=1)", "linformer": "linformer(k=4)"}  # fmt: skip


def parts() -> list[tuple[str, str, str]]:
    """Each backbone with every position, and with every attention, by turns with one position or another."""
    found, turns = [], itertools.cycle(SEQUENTIAL)
    for name, kind in MODELS.items():
        if not issubclass(kind, Backbone) or "encode" not in vars(kind):  # it computes what its parent does,
            continue
        if kind is ErnieThu:  # as this one does where no text has a name: tests/models/test_ernie_thu.py
            continue
        if "attention" not in kind.config_class.__dataclass_fields__:
            found.append((name, "none", "none"))
        else:
            use = "decoder" if issubclass(kind, CausalBackbone) else "encoder"
            fitting = [part for part in (*ATTENTIONS, *SCORES) if part in SCORES or use in ATTENTIONS[part].uses]
            if "sentence_ends" not in kind.config_class.__dataclass_fields__:
                fitting = [part for part in fitting if part != "scope"]
            if name in ("unilm", "xlnet"):  # whose masks hide pairs
                fitting = [part for part in fitting if part in SCORES or ATTENTIONS[part].hides_pairs]
            found += [(name, position, "scaled_dot") for position in SEQUENTIAL]
            for attention in fitting:
                found.append((name, next(one for one in turns if stand_together(one, attention)), attention))
    return found


PARTS = parts()
CAUSAL = [part for part in PARTS if issubclass(MODELS[part[0]], CausalBackbone)]


def build(name: str, position: str, attention: str) -> Any:
    """With every bias that there is, and weights large enough for attention to choose."""
    model = tiny_model(
        name, vocab_size=V, n_heads=4, layers=2, encoder_layers=2, max_length=20, attention_bias=True,
        sentence_ends=[5, 6, 7, 8, 9], position=position, attention=SHORT.get(attention, attention),
    )  # fmt: skip
    model.know(TOKENIZER)
    return stirred(model, 0.2).eval()


@pytest.fixture(params=PARTS, ids="-".join)
def model(request: pytest.FixtureRequest) -> Any:
    return build(*request.param)


@pytest.fixture(params=CAUSAL, ids="-".join)
def writer(request: pytest.FixtureRequest) -> Any:
    return build(*request.param)


@pytest.fixture
def ids() -> Tensor:
    return padded(LENGTHS, V)


# -- every backbone --------------------------------------------------------------------------------------------------


def test_what_it_says_has_its_shape(model: Backbone, ids: Tensor) -> None:
    hidden = model.encode(ids)
    assert hidden.shape == (B, T, model.width)
    assert hidden.isfinite().all()


def test_every_parameter_gets_a_finite_gradient(model: Backbone, ids: Tensor) -> None:
    """In training, several times: what is drawn may leave a part out once."""
    model.train()
    segments = (torch.arange(T) > 3).expand(B, -1).long()
    asked = {"targets": torch.tensor([[1, 4], [0, 3], [0, 0], [2, 6]]), "segments": segments}
    given = asked if "targets" in model.inputs() else {}
    for _ in range(8):
        outputs = model(ids, **given)
        said = outputs.logits if isinstance(outputs, Outputs) else outputs
        (said * along(said)).sum().backward()
    properties.every_parameter_has_a_gradient(model)


def test_a_row_alone_equals_the_row_in_a_batch(model: Backbone, ids: Tensor) -> None:
    """Whatever stands in the padding, and however much of it."""
    together = model.encode(ids)
    longer = model.encode(torch.nn.functional.pad(ids, (0, 4), value=PAD))
    for row, length in enumerate(LENGTHS):
        alone = model.encode(ids[row : row + 1, :length])[0]
        close(together[row, :length], alone)
        close(longer[row, :length], alone)


def test_a_mask_of_real_tokens_is_what_padding_is(model: Backbone, ids: Tensor) -> None:
    real = ids != PAD
    found = model.encode(ids.masked_fill(~real, 5), mask=real)
    close(found[real], model.encode(ids)[real])


def test_rows_in_another_order_give_the_results_in_that_order(model: Backbone, ids: Tensor) -> None:
    order = torch.tensor([2, 0, 3, 1])
    close(model.encode(ids[order]), model.encode(ids)[order])


def test_what_is_saved_is_what_is_loaded(model: Any, ids: Tensor, tmp_path: Path) -> None:
    folder.save(tmp_path, model, TOKENIZER, {"task": "language_model"})
    loaded = folder.load(tmp_path).model
    assert loaded.config == model.config
    assert torch.equal(loaded.encode(ids), model.encode(ids))
    assert len({p.data_ptr() for p in loaded.parameters()}) == len(list(model.parameters()))  # tied is tied again


def test_float64_equals_float32(model: Any, ids: Tensor) -> None:
    narrow = model.encode(ids)
    close(model.double().encode(ids).float(), narrow, atol=1e-4)  # unscaled products are large, their rounding too


def test_the_weights_of_every_attention_can_be_recorded(model: Any, ids: Tensor) -> None:
    clean = model.encode(ids)
    with recording(model) as maps:
        close(model.encode(ids), clean)
    for name, weights in maps.items():
        assert weights.shape[-2:] == (T, T), name
        if not model.config.attention.startswith("linformer"):  # which mixes with any numbers
            assert (weights.sum(dim=-1) <= 1 + 1e-5).all(), name
        if isinstance(model, CausalBackbone):
            assert not weights.triu(diagonal=1).any(), name


# -- those that write ------------------------------------------------------------------------------------------------


def test_the_future_never_leaks_by_value(writer: Any, ids: Tensor) -> None:
    whole = torch.where(ids == PAD, 4, ids)
    assert writer(whole).logits.shape == (B, T, V)
    properties.the_future_never_leaks(lambda read: writer(read).logits, whole, V)


def test_the_future_never_leaks_by_gradient(writer: Any, ids: Tensor) -> None:
    kept: list[Tensor] = []
    handle = writer.tokens.register_forward_hook(lambda _, __, out: kept.append(out))
    logits = writer(torch.where(ids == PAD, 4, ids)).logits
    handle.remove()
    for t in range(T):
        (gradient,) = torch.autograd.grad((logits[:, t] * along(logits[:, t])).sum(), kept[0], retain_graph=True)
        seen = gradient.any(-1)
        assert not seen[:, t + 1 :].any()
        assert seen[:, t].all()


def test_one_token_at_a_time_equals_all_at_once(writer: Any, ids: Tensor) -> None:
    whole = torch.where(ids == PAD, 4, ids)
    tokens, state = writer.start(whole[:, :1])
    assert torch.equal(tokens, whole[:, 0])
    steps = torch.stack([writer.step(whole[:, t], state) for t in range(T)], dim=1)
    close(steps, writer(whole).logits)


def test_prompts_of_any_length_go_on_as_each_does_alone(writer: Any, ids: Tensor) -> None:
    """Padded on the left; and a state whose rows change places goes on with the rows that it has now."""
    real, rows = ids != PAD, torch.tensor([2, 0, 0, 3, 1])
    prompts = torch.stack([row.roll(T - n) for row, n in zip(ids, LENGTHS, strict=True)])
    more = padded([3] * B, V, seed=2)
    tokens, state = writer.start(prompts)
    first = writer.step(tokens, state)
    state.reorder(rows)
    rest = torch.stack([writer.step(more[rows, t], state) for t in range(3)], dim=1)
    for place, row in enumerate(rows.tolist()):
        whole = torch.cat((ids[row][real[row]], more[row]))[None]
        expected = writer(whole).logits[0, -4:]
        close(first[row], expected[0])
        close(rest[place], expected[1:])
