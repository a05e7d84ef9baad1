"""What must hold for every position: one token at a time, any batch, any precision, the fused kernel, the gradients."""

from dataclasses import replace

import pytest
import torch

from kit import close, draw, refused
from qkv.attention import causal
from qkv.config import build
from qkv.errors import InputError
from qkv.layers import Seen, Stack
from qkv.models import TransformerConfig
from qkv.positions import POSITIONS, Places, Position, Tree, pad_trees

B, T, D = 3, 7, 16
CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=D, d_ff=24, n_heads=2, dropout=0.0, max_length=200)
# One option of each that is not the default, so that what is far is in the test too.
SPECS = [
    *POSITIONS,
    "shaw(clip=2)",
    "shaw(values=False)",
    "rotary(layout='interleaved')",
    "t5(buckets=4, max_distance=5)",
]
PER_LAYER = ("shaw", "structural_relative", "transformer_xl")
RELATIVE = ["shaw", "shaw(clip=2)", "rotary", "rotary(layout='interleaved')", "alibi", "t5", "transformer_xl"]


def stack(spec: str, layers: int = 2) -> Stack:
    """With weights large enough for attention to choose."""
    torch.manual_seed(0)
    built = Stack(replace(SIZES, position=spec), layers=layers).eval()
    with torch.no_grad():
        for block in built.blocks:
            block.attention.query.weight.mul_(3)
        for parameter in built.positions.parameters():
            parameter.normal_(0, 0.5)
    return built


def trees(length: int) -> Tree:
    """Three trees: a chain, a star, and each word under the one at half its place."""
    words = range(length)
    return pad_trees([list(words), [0] + [1] * (length - 1), [(word + 1) // 2 for word in words]])


def places(start: int, stop: int, *, is_causal: bool = False) -> Places:
    """As decoding and training see them: queries from start, keys from 0."""
    whole = trees(stop)
    tree = Tree(whole.depth[:, start:], whole.relation[:, start:])
    return Places.span(start, stop, CPU, causal=is_causal, tree=tree)


@pytest.mark.parametrize("spec", SPECS)
def test_one_token_at_a_time_equals_all_at_once(spec: str) -> None:
    decoder, x = stack(spec), draw(B, T, D)
    at = places(0, T, is_causal=True)
    whole = decoder(x, at, causal(at))
    seen = [Seen(), Seen()]
    for t in range(T):
        # A tree that is still growing would have other depths: the step is given its part of the whole one.
        tree = Tree(at.tree.depth[:, t : t + 1], at.tree.relation[:, t : t + 1, : t + 1])
        step = Places.span(t, t + 1, CPU, causal=True, tree=tree)
        close(decoder(x[:, t : t + 1], step, None, seen=seen), whole[:, t : t + 1])


@pytest.mark.parametrize("spec", SPECS)
def test_a_row_alone_equals_the_row_in_a_batch(spec: str) -> None:
    encoder, x, at = stack(spec), draw(B, T, D), places(0, T)
    together = encoder(x, at, None)
    for row in range(B):
        tree = Tree(at.tree.depth[row : row + 1], at.tree.relation[row : row + 1])
        close(encoder(x[row : row + 1], replace(at, tree=tree), None), together[row : row + 1])


@pytest.mark.parametrize("length", [T, 70])  # the plain form of attention, and the fused one
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_a_row_padded_in_front_equals_the_row_alone(spec: str, is_causal: bool, length: int) -> None:
    """Places are counted in each row from its first real token: text that stands elsewhere is the same text."""
    encoder, x, whole, starts = stack(spec), draw(B, length, D), trees(length), (0, 3, length - 1)
    real = torch.arange(length) >= torch.tensor(starts)[:, None]
    at = Places.counted(real, length, causal=is_causal, tree=whole)
    mask = real[:, None, None] & causal(at) if is_causal else real[:, None, None]
    together = encoder(x.masked_fill(~real[:, :, None], 50.0), at, mask)
    for row, start in enumerate(starts):
        own = slice(row, row + 1), slice(start, None)
        tree = Tree(whole.depth[own], whole.relation[*own, start:])
        alone = Places.span(0, length - start, CPU, causal=is_causal, tree=tree)
        close(together[row, start:], encoder(x[own], alone, causal(alone) if is_causal else None)[0])


@pytest.mark.parametrize("spec", SPECS)
def test_rows_may_have_other_distances(spec: str) -> None:
    """As in a permutation, or in a text with gaps: each row has places of its own."""
    encoder, x, whole = stack(spec), draw(B, T, D), trees(T)
    place = torch.stack([torch.arange(T), 3 * torch.arange(T), torch.tensor([3, 0, 6, 1, 5, 2, 4])])
    together = encoder(x, Places(query=place, key=place, tree=whole), None)
    for row in range(B):
        tree = Tree(whole.depth[row : row + 1], whole.relation[row : row + 1])
        alone = Places(query=place[row], key=place[row], tree=tree)
        close(together[row : row + 1], encoder(x[row : row + 1], alone, None))


@pytest.mark.parametrize("length", [T, 70])  # the plain form of attention, and the fused one
@pytest.mark.parametrize("spec", SPECS)
def test_every_precision_gives_the_same(spec: str, length: int) -> None:
    encoder, x, at = stack(spec), draw(B, length, D), places(0, length)
    single = encoder(x, at, None)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = encoder(x, at, None)
    assert narrow.isfinite().all()
    assert (narrow.float() - single).abs().mean() < 0.02  # bfloat16 has 8 bits: 0.004 of each number, several times
    pure = encoder.bfloat16()(x.bfloat16(), at, None)
    assert pure.dtype == torch.bfloat16
    assert pure.isfinite().all()
    close(stack(spec).double()(x.double(), at, None).float(), single)


@pytest.mark.parametrize("spec", SPECS)
def test_queries_and_scores_keep_the_number_format_of_the_projections(spec: str) -> None:
    """Under autocast weights are float32 and projections bfloat16: the cache and the fused kernel want the latter."""
    position, q, at = stack(spec, layers=1).position, draw(B, 2, T, 8).bfloat16(), places(0, T)
    with torch.autocast("cpu", torch.bfloat16):
        turned, scores = position.rotate(q, at), position.score(q, q, at)
    assert turned.dtype == torch.bfloat16
    assert scores is None or scores.dtype == torch.bfloat16


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("spec", SPECS)
def test_the_fused_kernel_equals_the_plain_form(spec: str, mask: bool) -> None:
    encoder = stack(spec, layers=1)
    attend, position = encoder.blocks[0].attention.attend, encoder.position
    q, k, v = draw(B, 2, T, 8), draw(B, 2, T, 8, seed=2), draw(B, 2, T, 8, seed=3)
    at = places(0, T, is_causal=True)
    visible = causal(at) & (torch.arange(T) < torch.tensor([T, 4, 2])[:, None])[:, None, None] if mask else None
    plain, weights = attend.plain(q, k, v, at, visible, position)
    more = position.value(weights, at)
    close(attend.fused(q, k, v, at, visible, position), plain if more is None else plain - more)
    assert (more is not None) == position.has_value


@pytest.mark.parametrize("spec", SPECS)
def test_every_parameter_gets_a_gradient_in_every_layer(spec: str) -> None:
    encoder, x, along = stack(spec), draw(B, T, D), draw(B, T, D, seed=2)
    (encoder(x, places(0, T), None) * along).sum().backward()
    for name, parameter in encoder.positions.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-4, name
    assert len(encoder.positions) == (2 if spec.startswith(PER_LAYER) else 1)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "none"])
def test_every_position_but_none_tells_tokens_apart(spec: str) -> None:
    """The same tokens in another order give other results, not just the results in another order."""
    encoder, x, at = stack(spec), draw(B, T, D), places(0, T)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert (encoder(x[:, order], at, None) - encoder(x, at, None)[:, order]).abs().max() > 0.01


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("spec", RELATIVE)
def test_a_relative_position_sees_no_difference_when_everything_moves(spec: str, is_causal: bool) -> None:
    encoder, x, at = stack(spec), draw(B, T, D), places(0, T, is_causal=is_causal)
    mask = causal(at) if is_causal else None
    moved = replace(at, query=at.query + 90, key=at.key + 90)
    close(encoder(x, moved, mask), encoder(x, at, mask))
    wider = replace(at, query=2 * at.query, key=2 * at.key)  # and it does see when they move apart
    assert (encoder(x, wider, mask) - encoder(x, at, mask)).abs().max() > 0.01


@pytest.mark.parametrize("spec", RELATIVE)
def test_a_relative_position_does_not_mind_padding_in_front(spec: str) -> None:
    """The sequence stands three places later, behind padding that a mask hides."""
    encoder, x = stack(spec), draw(B, T, D)
    padded = torch.cat((99 * draw(B, 3, D, seed=2), x), dim=1)
    mask = (torch.arange(T + 3) >= 3)[None, None, None, :]
    close(encoder(padded, Places.span(0, T + 3, CPU), mask)[:, 3:], encoder(x, Places.span(0, T, CPU), None))


@pytest.mark.parametrize("spec", ["sinusoidal", "learned"])
def test_an_absolute_position_does_see_when_everything_moves(spec: str) -> None:
    encoder, x, at = stack(spec), draw(B, T, D), places(0, T)
    moved = replace(at, query=at.query + 90, key=at.key + 90)
    assert (encoder(x, moved, None) - encoder(x, at, None)).abs().max() > 0.01


def test_without_positions_an_encoder_is_blind_to_order() -> None:
    """It is equivariant, not invariant: each token keeps its result; only a pooled result is the same for any order."""
    encoder, x, at = stack("none").double(), draw(B, T, D).double(), places(0, T)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    straight, mixed = encoder(x, at, None), encoder(x[:, order], at, None)
    close(mixed, straight[:, order], atol=1e-6)
    close(mixed.mean(1), straight.mean(1), atol=1e-6)
    assert (mixed - straight).abs().max() > 0.1


def test_without_positions_a_decoder_of_two_layers_is_not_blind_to_order() -> None:
    """The causal mask tells: in one layer the last token sees a bag of words, but in the next one its words have
    themselves seen what stood before them."""
    x, at = draw(B, T, D).double(), places(0, T, is_causal=True)
    order = torch.tensor([3, 0, 5, 1, 4, 2, 6])  # the last stays the last
    one, two = stack("none", layers=1).double(), stack("none", layers=2).double()
    close(one(x[:, order], at, causal(at))[:, -1], one(x, at, causal(at))[:, -1], atol=1e-12)
    assert (two(x[:, order], at, causal(at)) - two(x, at, causal(at)))[:, -1].abs().max() > 0.01


@pytest.mark.parametrize("spec", ["structural", "structural_relative"])
def test_a_position_that_needs_a_tree_says_so(spec: str) -> None:
    assert POSITIONS[spec].needs_tree
    with pytest.raises(InputError, match="need the dependency tree of each sentence, and none was given"):
        stack(spec)(draw(B, T, D), Places.span(0, T, CPU), None)


@refused(
    {
        "shaw(clip=-1)": "clipped at a distance of 0 or more, not -1",
        "structural_relative(clip=-1)": "clipped at a distance of 0 or more, not -1",
        "rotary(layout='half')": "did you mean 'halves'",
        "rotary(base=1)": "must be above 1, not 1",
        "t5(buckets=2)": "4 or more",
        "t5(buckets=7)": "give an even number of buckets",
        "t5(max_distance=16)": "a max_distance above half of it",
        "alibi(slope=1)": "it takes none",
        "transformerxl": "did you mean 'transformer_xl'",
        "none(length=3)": "it takes none",
    },
    "spec",
)
def test_what_cannot_be_is_refused(spec: str) -> None:
    build(POSITIONS, spec, SIZES)


@pytest.mark.parametrize("spec", ["sinusoidal", "structural", "transformer_xl"])
def test_an_odd_width_has_no_pairs(spec: str) -> None:
    with pytest.raises(InputError, match="d_model must be even and at least 2, not 15"):
        build(POSITIONS, spec, replace(SIZES, d_model=15, d_k=4))


def test_an_odd_head_cannot_be_turned() -> None:
    with pytest.raises(InputError, match="the width of a head must be even and at least 2, not 5"):
        build(POSITIONS, "rotary", replace(SIZES, d_k=5))


def test_none_is_the_base_class() -> None:
    assert POSITIONS["none"] is Position
    assert not list(build(POSITIONS, "none", SIZES).parameters())
