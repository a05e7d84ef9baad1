"""Recording attention changes nothing, leaves nothing behind, and shows rows that sum to one."""

import pytest
import torch
from torch import Tensor

from kit import padded, tiny_model, tokenizer
from qkv.attention import MultiHead
from qkv.decoding import Translator
from qkv.look import look_at, record_attention
from qkv.models import Transformer

TOKENIZER = tokenizer("the cat sat on the mat", "a dog ran in the park")
V, B, S, T, H = len(TOKENIZER), 2, 6, 5, 2
NAMES = [f"encoder.blocks.{i}.attention" for i in range(2)]
NAMES += [f"decoder.blocks.{i}.{kind}" for i in range(2) for kind in ("attention", "memory_attention")]


@pytest.fixture
def model() -> Transformer:
    return tiny_model("transformer", vocab_size=V, n_heads=H, encoder_layers=2, decoder_layers=2).eval()


@pytest.fixture
def pair() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src, tgt = torch.randint(4, V, (B, S), generator=generator), torch.randint(4, V, (B, T), generator=generator)
    src[1, 4:] = 0
    return src, tgt


def hooks(model: Transformer) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_the_outputs_are_the_same(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    before = model(*pair).logits
    with record_attention(model):
        during = model(*pair).logits
    torch.testing.assert_close(during, before, atol=1e-6, rtol=0)
    assert torch.equal(model(*pair).logits, before)


def test_the_outputs_are_the_same_where_the_fused_kernel_works(model: Transformer) -> None:
    src = padded([90], V)
    before = model(src, src).logits
    with record_attention(model) as maps:
        torch.testing.assert_close(model(src, src).logits, before, atol=1e-5, rtol=0)
    assert maps["encoder.blocks.0.attention"].shape == (1, H, 90, 90)


def test_every_attention_is_there_with_its_shape(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    with record_attention(model) as maps:
        model(*pair)
    assert set(maps) == set(NAMES)
    for name, weights in maps.items():
        queries = S if name.startswith("encoder") else T
        keys = T if name.startswith("decoder") and not name.endswith("memory_attention") else S
        assert weights.shape == (B, H, queries, keys)
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, queries))
        assert not weights.requires_grad


def test_what_may_not_be_seen_has_no_weight(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    with record_attention(model) as maps:
        model(*pair)
    for name, weights in maps.items():
        if name.endswith("memory_attention") or name.startswith("encoder"):
            assert not weights[1, :, :, 4:].any()
        else:
            assert not weights.triu(1).any()
            assert (weights[:, :, 0, 0] == 1).all()


def test_the_weights_are_those_that_made_the_output(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    attention = model.encoder.blocks[0].attention
    assert isinstance(attention, MultiHead)
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    attention.value.register_forward_hook(lambda _, __, out: inputs.append(out))
    attention.output.register_forward_hook(lambda _, args, __: outputs.append(args[0]))
    with record_attention(model) as maps:
        model(*pair)
    mixed = maps["encoder.blocks.0.attention"] @ attention.heads(inputs[0])
    torch.testing.assert_close(mixed.transpose(1, 2).flatten(2), outputs[0], atol=1e-6, rtol=0)


def test_every_call_is_kept_in_order(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    """While it decodes, each step has one row; together they are the map of the whole sentence."""
    src, tgt = pair
    with record_attention(model) as whole:
        model(src, tgt)
    with record_attention(model) as maps:
        _, state = model.start(src)
        for t in range(T):
            model.step(tgt[:, t], state)
    name = "decoder.blocks.1.memory_attention"
    assert [tuple(call.shape) for call in maps.calls[name]] == [(B, H, 1, S)] * T
    assert maps[name] is maps.calls[name][-1]
    torch.testing.assert_close(torch.cat(maps.calls[name], dim=2), whole[name], atol=1e-5, rtol=0)
    own = maps.calls["decoder.blocks.0.attention"]
    assert [call.size(-1) for call in own] == [1, 2, 3, 4, 5]


def test_nothing_is_left_behind(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    with record_attention(model) as maps:
        assert hooks(model) == len(NAMES)
        model(*pair)
    assert hooks(model) == 0
    kept = maps[NAMES[0]]
    model(*pair)
    assert maps[NAMES[0]] is kept


def test_nothing_is_left_behind_after_a_mistake(model: Transformer) -> None:
    with pytest.raises(IndexError), record_attention(model):
        model(torch.tensor([[V + 5]]), torch.tensor([[1]]))
    assert hooks(model) == 0


def test_one_within_another(model: Transformer, pair: tuple[Tensor, Tensor]) -> None:
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(*pair)
        model(*pair)
    assert hooks(model) == 0
    assert set(outer) == set(inner) == set(NAMES)
    assert len(inner.calls[NAMES[0]]) == 1
    assert len(outer.calls[NAMES[0]]) == 2
    assert torch.equal(inner[NAMES[0]], outer.calls[NAMES[0]][0])


class TestLookAt:
    @pytest.fixture
    def translator(self, model: Transformer) -> Translator:
        with torch.no_grad():
            model.source.weight[2] *= 3  # </s> is likely, so that translations are short
        return Translator(model, TOKENIZER, {})

    def test_a_given_pair(self, translator: Translator) -> None:
        look = look_at(translator, "the cat", "a dog ran")
        assert "".join(look.source) == "▁the▁cat</s>"
        assert "".join(look.target) == "▁a▁dog▁ran</s>"
        assert set(look.maps) == set(NAMES)
        for name, weights in look.maps.items():
            rows, columns = len(look.target), len(look.source)
            rows = columns if name.startswith("encoder") else rows
            columns = rows if not name.endswith("memory_attention") else columns
            assert weights.shape == (H, rows, columns)
        assert look.cross().shape == (2, len(look.target), len(look.source))
        torch.testing.assert_close(look.cross().sum(-1), torch.ones(2, len(look.target)))

    def test_its_own_translation(self, translator: Translator) -> None:
        own = translator.translate("the cat").text
        look, given = look_at(translator, "the cat"), look_at(translator, "the cat", own)
        assert look.target == given.target
        assert torch.equal(look.cross(), given.cross())

    def test_it_reads_what_the_translator_reads(self, translator: Translator) -> None:
        tidy, untidy = look_at(translator, "the cat", "a dog"), look_at(translator, " the \t cat\n", "a  dog")
        assert untidy.source == tidy.source
        assert untidy.target == tidy.target

    def test_no_text_has_its_ends(self, translator: Translator) -> None:
        look = look_at(translator, "", "")
        assert look.source == look.target == ["</s>"]
        assert look.cross().shape == (2, 1, 1)
