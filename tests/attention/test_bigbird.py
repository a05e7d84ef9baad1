"""BigBird: who sees whom by a loop over blocks, the fast form against the dense one, cost, and transformers' plan."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from qkv.attention import Soft, bigbird_blocks, build_attention
from qkv.attention.bigbird import BigBird
from qkv.attention.masks import GLOBAL, RANDOM, WINDOW, bigbird_table
from qkv.errors import InputError
from qkv.models import TransformerConfig
from qkv.positions import Places

B, H, K = 3, 2, 4
CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=H * K, n_heads=H)


def draw(length: int, seed: int = 1) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, H, length, K, generator=generator, dtype=torch.float64) for _ in range(3))


def build(spec: str) -> BigBird:
    built = build_attention(spec, SIZES, "encoder")
    assert isinstance(built, BigBird)
    return built


SPECS = [
    "bigbird(block=4, random=1)",
    "bigbird(block=3, random=2, window=1)",
    "bigbird(block=2, random=3, window=5, global_blocks=3)",
    "bigbird(block=4, random=0, global_blocks=1)",
    "bigbird(block=4, random=2, kind='etc', global_blocks=2)",
    "bigbird(block=4, random=1, plan='transformers')",
]


def by_hand(part: BigBird, length: int) -> Tensor:
    """Query by query and key by key, from the blocks that its head has drawn: (H, T, T)."""
    b, count = part.block, -(-length // part.block)
    kinds = bigbird_blocks(
        count, heads=H, window=part.window, first=part.first, last=part.last, random=part.random,
        rng=torch.Generator().manual_seed(part.seed),
    )  # fmt: skip
    ends = [*range(part.first), *range(count - part.last, count)]
    seen = torch.zeros(H, length, length, dtype=torch.bool)
    for h in range(H):
        for i in range(length):
            for j in range(length):
                row, column = i // b, j // b
                is_drawn = bool(kinds[h, row, column] == RANDOM)
                is_near = abs(row - column) <= part.window // 2
                seen[h, i, j] = row in ends or column in ends or is_near or is_drawn
    return seen


@pytest.mark.parametrize("length", [5, 37, 64])
@pytest.mark.parametrize("spec", SPECS[:-1])
def test_a_token_sees_what_its_block_sees(spec: str, length: int) -> None:
    part = build(spec)
    seen = part.visible(Places.span(0, length, CPU), None)[0]
    assert seen.equal(by_hand(part, length))


@pytest.mark.parametrize("kind", ["none", "padding", "nothing"])
@pytest.mark.parametrize("spec", SPECS)
def test_the_fast_form_is_the_dense_one(spec: str, kind: str) -> None:
    """Values and gradients, in lengths that fill the last block and that do not, with rows of other lengths."""
    part = build(spec)
    for length in (37, 64, 131):
        q, k, v = (x.requires_grad_() for x in draw(length))
        last = {"padding": length // 3, "nothing": 0}.get(kind, length)
        real = (torch.arange(length) < torch.tensor([length, last, length - 1])[:, None])[:, None, None]
        mask = None if kind == "none" else real
        at = Places.span(0, length, CPU)
        expected, found = part.plain(q, k, v, at, mask)[0], part.fused(q, k, v, at, mask)
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
        along = torch.randn(found.shape, generator=torch.Generator().manual_seed(2), dtype=found.dtype)
        pairs = zip(*(torch.autograd.grad((x * along).sum(), (q, k, v)) for x in (found, expected)), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


def test_the_fast_form_runs_where_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    part = build("bigbird(block=4, random=1)")
    sizes = list[int]()
    monkeypatch.setattr(Soft, "fused", lambda self, q, *rest: sizes.append(q.size(2)) or torch.zeros_like(q))
    for length in (131, 132):
        part.fused(*draw(length), Places.span(0, length, CPU))
    assert not sizes
    real = (torch.arange(131) < torch.tensor([131, 90, 131])[:, None])[:, None, None]
    part.fused(*draw(131), Places.span(0, 131, CPU), real)
    assert sizes == [8]  # the first tokens and the last of each row, not all of which see all


def test_each_head_and_each_layer_draws_its_own_blocks_and_keeps_them() -> None:
    one, again, other = (build("bigbird(block=2, random=2)") for _ in range(3))
    other.settle(1, one)
    table = one.table(40)
    assert table.equal(again.table(40))
    assert not table[0].equal(table[1])
    assert not table.equal(other.table(40))


def test_all_free_blocks_are_drawn_alike_and_none_twice() -> None:
    """Of 12 blocks, block 5 may draw any of 1, 2, 3, 7, 8, 9, 10, in any order, three at a time."""
    table = bigbird_table(12, heads=7000, random=3, rng=torch.Generator().manual_seed(0))
    drawn = table[:, 5, -3:]
    assert table[0, 5, :5].tolist() == [0, 11, 4, 5, 6]
    counts = Counter(drawn.flatten().tolist())
    assert set(counts) == {1, 2, 3, 7, 8, 9, 10}
    assert all(abs(count - 3000) < 4 * (7000 * 3 / 7 * 4 / 7) ** 0.5 for count in counts.values())  # 4 deviations
    assert all(len(set(row)) == 3 for row in drawn.tolist())


def test_keys_of_a_query_do_not_grow_with_the_text() -> None:
    part = build("bigbird(block=4, random=3)")
    for length in (200, 400):
        keys = part.visible(Places.span(0, length, CPU), None).sum(dim=-1)[0, :, 12:-12]
        assert int(keys.max()) == int(keys.min()) == (2 + 3 + 3) * 4


@pytest.mark.parametrize("length", [60, 131])
def test_every_token_hears_of_every_other_in_two_layers(length: int) -> None:
    seen = build("bigbird(block=4, random=0)").visible(Places.span(0, length, CPU), None)[0].double()
    assert not (seen > 0).all()
    assert ((seen @ seen) > 0).all()


def test_a_text_of_few_blocks_is_read_by_full_attention() -> None:
    seen = build("bigbird(block=4, random=3)").visible(Places.span(0, 28, CPU), None)
    assert seen.all()


def test_transformers_plan_counts_the_first_block_again_and_again() -> None:
    part = build("bigbird(block=4, random=3, plan='transformers')")
    times = part.times(Places.span(0, 64, CPU), None)[0, 0]
    middle = times[20]  # block 5 of 16
    assert [int(x) for x in middle[::4]] == [4, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert part.times(Places.span(0, 44, CPU), None).eq(1).all()  # 11 blocks: full attention
    kinds = bigbird_blocks(5, random=0, rng=torch.Generator())[0]
    assert [int((kinds == kind).sum()) for kind in (GLOBAL, WINDOW)] == [16, 7]


@pytest.mark.parametrize(("spec", "said"), [
    ("bigbird(block=0)", "block=0"), ("bigbird(window=2)", "give an odd number"), ("bigbird(kind='both')", "kind"),
    ("bigbird(plan='transformers', window=5)", "window=3"), ("bigbird(random=-1)", "random=-1"),
])  # fmt: skip
def test_what_is_no_pattern_is_refused(spec: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build(spec)


def test_it_has_no_place_where_the_future_is_hidden() -> None:
    with pytest.raises(InputError, match="cannot stand in the decoder of a model, only in: encoder"):
        build_attention("bigbird", SIZES, "decoder")
