"""Stacks whose layers have attentions by turns, and tokens of their own in front of a text."""

from typing import Any

import pytest
import torch

from kit import close, draw, padded, stirred, tiny_model
from qkv.attention import Soft
from qkv.attention.bigbird import BigBird
from qkv.attention.shortened import MemoryCompressed
from qkv.attention.sparse import Local, Window
from qkv.config import split_calls
from qkv.errors import InputError
from qkv.layers import Stack
from qkv.models import Transformer, TransformerConfig, count_parameters, parameter_count
from qkv.positions import Places
from qkv.text.tokenizer import PAD

CPU = torch.device("cpu")


def test_several_parts_in_one_text() -> None:
    assert split_calls("local(block=2), soft(score='additive(width=3)') ,window") == [
        "local(block=2)", "soft(score='additive(width=3)')", "window",
    ]  # fmt: skip
    assert split_calls("soft") == ["soft"]
    assert split_calls("soft,") == ["soft"]
    assert split_calls("soft, (") == ["soft, ("]


def test_layers_take_turns() -> None:
    """Liu et al. 2018: L-M-L-M-L, by two names for five layers."""
    model = tiny_model("gpt2", layers=5, attention="local(4), memory_compressed(3)")
    parts: list[Any] = [block.attention.attend for block in model.decoder.blocks]
    assert [type(part) for part in parts] == [Local, MemoryCompressed, Local, MemoryCompressed, Local]
    assert [part.block for part in parts[::2]] == [4, 4, 4]
    assert [part.factor for part in parts[1::2]] == [3, 3]


def test_one_token_at_a_time_equals_all_at_once_in_layers_by_turns() -> None:
    """L-M-L-M-L, whose local layers forget what the compressed ones keep: across several blocks, with a prompt padded
    on the left in one row, and after rows have changed places."""
    attention = "local(4), memory_compressed(3)"
    model: Any = stirred(tiny_model("gpt2", layers=5, vocab_size=20, attention=attention), 0.3).eval()
    ids = padded([14, 14], 20)
    prompts = torch.stack((ids[0, :6], torch.cat((torch.full((2,), PAD), ids[1, :4]))))
    with torch.no_grad():
        whole = [model(ids[:1]).logits[0, 5:], model(ids[1:]).logits[0, 3:]]
        tokens, state = model.start(prompts)
        steps = [model.step(tokens, state)]
        steps += [model.step(torch.stack((ids[0, 6 + t], ids[1, 4 + t])), state) for t in range(4)]
        state.reorder(torch.tensor([1, 0]))
        steps += [model.step(torch.stack((ids[1, 8 + t], ids[0, 10 + t])), state).flip(0) for t in range(4)]
    for row, expected in enumerate(whole):
        close(torch.stack(steps)[:, row], expected[:9])
    held = [one.own.k.size(2) for one in state.seen]
    assert max(held[::2]) < 14 == min(held[1::2])


def test_in_a_transformer_each_stands_where_it_can() -> None:
    sizes = {"d_model": 8, "n_heads": 2, "encoder_layers": 3, "decoder_layers": 2, "vocab_size": 11}
    config = TransformerConfig(**sizes, attention="window, additive", memory_attention="dot, general")
    model = Transformer(config)
    assert [type(block.attention.attend) for block in model.encoder.blocks] == [Window, Soft, Window]
    assert [type(block.memory_attention.attend.score).__name__ for block in model.decoder.blocks] == ["Dot", "General"]
    assert count_parameters(model) == parameter_count(config)


@pytest.mark.parametrize(("model", "attention", "said"), [
    ("gpt2", "scaled_dot, bigbird", "'bigbird' attention cannot stand in the decoder of a model, only in: encoder"),
    ("gpt2", "scope", "'scope' attention cannot stand in the decoder"),
    ("gpt2", "window, windov", "unknown attention 'windov'"),
    ("bert", "bigbird(kind='etc', global_blocks=1), bigbird(kind='etc', global_blocks=2)", "same global_blocks"),
])  # fmt: skip
def test_what_cannot_stand_there_is_refused(model: str, attention: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny_model(model, layers=2, attention=attention)


def test_every_layer_of_bigbird_draws_its_own_blocks() -> None:
    model = tiny_model("bert", layers=3, attention="bigbird(block=2, random=2)")
    parts = [block.attention.attend for block in model.encoder.blocks]
    assert all(isinstance(part, BigBird) for part in parts)
    tables = {str(part.table(30).tolist()) for part in parts}
    assert len(tables) == 3


def stack(attention: str, **more: object) -> Stack:
    torch.manual_seed(0)
    c = TransformerConfig(
        d_model=8, d_ff=8, n_heads=2, dropout=0.0, position="none", encoder_attention=attention, **more
    )
    return Stack(c, layers=2).eval()


def test_extra_tokens_carry_what_a_window_cannot_reach() -> None:
    """Without them two layers with a window of one block reach two blocks; with them, the whole text. Padding is never
    read."""
    x = draw(2, 40, 8).requires_grad_()
    real = torch.arange(40) < torch.tensor([[40], [31]])
    heard = {}
    for kind in ("itc", "etc"):
        part = stack(f"bigbird(block=4, random=0, window=1, global_blocks=1, kind={kind!r})")
        hidden = part(x, Places.span(0, 40, CPU), real[:, None, None])
        assert hidden.shape == x.shape
        (gradient,) = torch.autograd.grad((hidden[:, 20] * draw(8, seed=2)).sum(), x)
        heard[kind] = gradient.any(-1)
        alone = part(x[1:, :31], Places.span(0, 31, CPU), None)
        close(hidden[1:, :31], alone)
    assert heard["etc"].equal(real)
    assert part.extra is not None
    assert part.extra.shape == (4, 8)


def test_extra_tokens_under_a_mask_of_pairs_and_places_by_row() -> None:
    part, x = stack("bigbird(block=4, random=0, kind='etc', global_blocks=1)"), draw(2, 40, 8)
    real = torch.arange(40) >= torch.tensor([[0], [9]])
    hidden = part(x, Places.counted(real, 40), real[:, None, None])
    close(hidden[1:, 9:], part(x[1:, 9:], Places.span(0, 31, CPU), None))
    pairs = torch.ones(2, 1, 40, 40, dtype=torch.bool)
    close(part(x, Places.span(0, 40, CPU), pairs), part(x, Places.span(0, 40, CPU), None))
