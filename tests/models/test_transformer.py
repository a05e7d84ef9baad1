"""The Transformer as the paper counts it and as it starts; shared tables; settings that cannot be."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import asked, padded, refused
from qkv.config import from_tree
from qkv.models import PRESETS, Transformer, TransformerConfig, count_parameters, parameter_count
from qkv.objectives import Translation
from qkv.objectives.smoothing import smoothed_cross_entropy

V = 23


def tiny(**others: object) -> TransformerConfig:
    sizes = {"vocab_size": V, "d_model": 16, "d_ff": 24, "n_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    return TransformerConfig(**(sizes | {"dropout": 0.0} | others))


def ids(rows: int, columns: int, seed: int = 0, vocab_size: int = V) -> torch.Tensor:
    return padded([columns] * rows, vocab_size, seed)


@pytest.mark.parametrize(("preset", "millions"), [("base", 63.05), ("big", 214.17)])
def test_the_papers_sizes(preset: str, millions: float) -> None:
    """By hand, with one table of 37,000 and no attention biases; Table 3 prints 65 and 213 for its own vocabulary."""
    config = TransformerConfig(**PRESETS[preset])
    d, f, n = config.d_model, config.d_ff, 6
    feed_forward = d * f + f + f * d + d
    encoder, decoder = 4 * d * d + feed_forward + 4 * d, 8 * d * d + feed_forward + 6 * d
    assert parameter_count(config) == 37000 * d + n * (encoder + decoder)
    assert round(parameter_count(config) / 1e6, 2) == millions


def test_base_and_big_build_and_hold_what_the_formula_says() -> None:
    with torch.device("meta"):
        for preset in PRESETS.values():
            config = TransformerConfig(**preset)
            assert count_parameters(Transformer(config)) == parameter_count(config)


configs = st.builds(
    lambda heads, width, **others: TransformerConfig(n_heads=heads, d_model=2 * heads * width, **others),
    heads=st.integers(1, 4),
    width=st.integers(2, 5),
    vocab_size=st.integers(1, 50),
    d_ff=st.integers(1, 40),
    encoder_layers=st.integers(1, 3),
    decoder_layers=st.integers(1, 3),
    max_length=st.integers(1, 20),
    norm=st.sampled_from(["post", "pre"]),
    tied=st.sampled_from(["all", "decoder", "none"]),
    position=st.sampled_from(["sinusoidal", "learned", "learned(length=5, offset=2)"]),
    attention_bias=st.booleans(),
    output_bias=st.booleans(),
)


@given(configs)
@settings(max_examples=60, deadline=None)
def test_the_formula_counts_every_model(config: TransformerConfig) -> None:
    with torch.device("meta"):
        assert count_parameters(Transformer(config)) == parameter_count(config)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_names_only_sizes_that_exist(preset: str) -> None:
    from_tree(TransformerConfig, PRESETS[preset])


@pytest.mark.parametrize("tied", ["all", "decoder", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_first_loss_is_that_of_logits_of_unit_variance(tied: str, norm: str) -> None:
    """Hidden values and logits have variance 1 at the start, and the log of a mean of e^x is 1/2: ln V + 1/2."""
    torch.manual_seed(0)
    vocab_size, losses = 500, []
    for _ in range(3):
        model = Transformer(tiny(vocab_size=vocab_size, d_model=64, n_heads=4, tied=tied, norm=norm)).eval()
        src, tgt = ids(24, 10, 1, vocab_size), ids(24, 13, 2, vocab_size)
        with torch.no_grad():
            question = asked(tgt[:, 1:])
            loss = Translation().loss(model(src, tgt[:, :-1]), question)
        losses.append(loss.total.item() / question.count)
    assert sum(losses) / 3 == pytest.approx(math.log(vocab_size) + 0.5, abs=0.2)


def test_the_output_has_a_logit_for_every_word_at_every_place() -> None:
    outputs = Transformer(tiny())(ids(3, 5), ids(3, 4))
    assert outputs.hidden.shape == (3, 4, 16)
    assert outputs.logits.shape == (3, 4, V)
    assert outputs.logits.isfinite().all()


def test_one_table_serves_three_uses() -> None:
    """Vaswani et al. 2017, section 3.4."""
    model = Transformer(tiny(tied="all"))
    tables = [model.source.weight, model.target.weight, model.vocabulary.weight]
    assert len({table.data_ptr() for table in tables}) == 1
    assert sum(p.shape == (V, 16) for p in model.parameters()) == 1


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tables_that_are_not_tied_are_apart(tied: str, tables: int) -> None:
    model = Transformer(tiny(tied=tied))
    pointers = {model.source.weight.data_ptr(), model.target.weight.data_ptr(), model.vocabulary.weight.data_ptr()}
    assert len(pointers) == tables


def test_the_tied_tables_gradient_is_the_sum_of_its_three_uses() -> None:
    torch.manual_seed(0)
    tied, apart = Transformer(tiny(tied="all")).double(), Transformer(tiny(tied="none")).double()
    weights = dict(tied.named_parameters())
    with torch.no_grad():
        for name, parameter in apart.named_parameters():
            parameter.copy_(weights.get(name, tied.source.weight))
    src, tgt = ids(3, 5, 1), ids(3, 6, 2)
    for model in (tied, apart):
        logits = model(src, tgt[:, :-1]).logits.flatten(0, 1)
        smoothed_cross_entropy(logits, tgt[:, 1:].flatten(), smoothing=0.1, form="fairseq", pad=0).backward()
    uses = [apart.source.weight.grad, apart.target.weight.grad, apart.vocabulary.weight.grad]
    assert all(use.any() for use in uses)
    torch.testing.assert_close(tied.source.weight.grad, sum(uses), atol=1e-10, rtol=0)


def test_linear_weights_start_as_xavier_uniform() -> None:
    """Glorot and Bengio 2010: uniform within sqrt(6 / (in + out)), biases at 0."""
    torch.manual_seed(0)
    linear = Transformer(tiny(d_model=64, d_ff=256)).encoder.blocks[0].feed_forward.expand
    limit = math.sqrt(6 / (64 + 256))
    assert linear.weight.abs().max() <= limit
    assert linear.weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.05)
    assert not linear.bias.any()


@refused(
    [
        ({"d_model": 30, "n_heads": 4}, "d_model=30 is not divisible by n_heads=4"),
        ({"encoder_layers": 0}, "encoder_layers must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"activation_dropout": -0.5}, "activation_dropout must be at least 0 and below 1"),
        ({"norm": "middle"}, "'post' or 'pre'"),
        ({"tied": "both"}, "'all', 'decoder' or 'none'"),
        ({"d_modle": 8}, "did you mean 'd_model'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    from_tree(TransformerConfig, wrong)
