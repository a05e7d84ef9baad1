"""Which attention a text names, and what is said to a wrong one."""

import pytest

from kit import refused
from qkv.attention import ATTENTIONS, SCORES, STRUCTURES, build_attention
from qkv.attention.local import LocalP
from qkv.attention.scores import Additive
from qkv.models import TransformerConfig, count_parameters

SIZES = TransformerConfig(d_model=12, n_heads=3, max_length=7)


def test_every_kind_of_attention_has_a_name() -> None:
    """By choice, by region, by what is read, by structure, and by score."""
    names = {*ATTENTIONS, *STRUCTURES, *SCORES}
    assert names >= {"soft", "hard", "straight_through", "top_k", "local_m", "local_p", "window", "local", "scope"}
    assert names >= {"single", "hierarchical", "multi_head", "attention_over_attention"}
    assert names >= {"self", "memory", "cross", "causal"}
    assert names >= {"dot", "scaled_dot", "general", "additive", "concat", "location"}


@pytest.mark.parametrize("name", [*ATTENTIONS, *SCORES])
def test_the_first_line_of_each_names_its_source_and_fits_a_line(name: str) -> None:
    first = ({**ATTENTIONS, **SCORES}[name].__doc__ or "").split("\n")[0]
    assert "et al. 20" in first
    assert len(first) <= 120


def test_the_name_of_a_score_is_soft_attention_by_it() -> None:
    short = build_attention("additive(width=5, dropout=0.2)", SIZES, "memory")
    assert type(short) is ATTENTIONS["soft"]
    assert short.dropout == 0.2
    assert isinstance(short.score, Additive)
    assert short.score.v.shape == (3, 5, 1)


def test_options_reach_the_part_and_its_score() -> None:
    part = build_attention("local_p(radius=3, score='concat(width=2)', dropout=0.1)", SIZES, "decoder")
    assert isinstance(part, LocalP)
    assert (part.radius, part.dropout) == (3, 0.1)
    assert part.score.v.shape == (3, 2, 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("soft", 0), ("dot", 0), ("general", 3 * 4 * 4), ("additive", 3 * (4 * 4 + 4 * 4 + 4 + 4)),
        ("concat", 3 * (8 * 4 + 4)), ("location", 3 * 7 * 4), ("local_m", 0), ("local_p", 3 * (4 * 4 + 4)),
        ("window", 0), ("local", 0), ("hard", 1), ("straight_through", 0), ("top_k", 0),
    ],
)  # fmt: skip
def test_how_many_weights_each_has(name: str, expected: int) -> None:
    """A matrix and a vector for each of three heads of width 4; hard attention carries its baseline."""
    assert count_parameters(build_attention(name, SIZES, "decoder")) == expected


@refused(
    {
        "scaled_dots": "did you mean 'scaled_dot'",
        "scaled_dot(drop=0.1)": "did you mean 'dropout'",
        "additive(widht=5)": "'additive' has no option 'widht'; did you mean 'width'",
        "local_m(radios=2)": "did you mean 'radius'",
        "local_m(radius=0)": "radius=0 .* at least 1",
        "local_p(radius=-1)": "radius=-1 .* at least 1",
        "window(radius=0)": "radius=0 .* at least 1",
        "window(radius=2.5)": "radius=2.5",
        "local(block=0)": "block=0 .* at least 1",
        "top_k(k=0)": "k=0 .* at least 1",
        "hard(sampling=1.5)": "sampling=1.5 .* from 0 to 1",
        "hard(entropy=-1.0)": "entropy=-1.0 .* 0 or more",
        "scope(limit='page')": "'sentence' or 'document'",
        "additive(width=-3)": "width=-3 .* 0 for that of a head",
        "soft(score='bilinear')": "unknown name 'bilinear'",
        "soft(dropout=1.0)": "at least 0 and below 1, not 1.0",
        "hierarchical": "Yang et al. 2016.*models/hierarchical.py",
    },
    "spec",
)
def test_what_cannot_be_is_refused_in_one_sentence(spec: str) -> None:
    build_attention(spec, SIZES, "encoder")


@refused(
    {
        ("window", "memory"): "cannot stand in the memory of a model, only in: encoder, decoder",
        ("local", "memory"): "only in: encoder, decoder",
        ("scope", "decoder"): "only in: encoder",
        ("cross", "memory"): "not an attention to swap in",
    },
    "spec use",
)
def test_what_cannot_stand_there_is_refused_in_one_sentence(spec: str, use: str) -> None:
    build_attention(spec, SIZES, use)
