"""T5's buckets: exact when near, geometric when far, one for all beyond; see tests/parity for Hugging Face's."""

import pytest
import torch

from qkv.models import TransformerConfig
from qkv.positions import T5, Places

SIZES = TransformerConfig(d_model=16, n_heads=4)


def buckets(position: T5, distances: list[int], *, is_causal: bool) -> list[int]:
    return position.bucket(torch.tensor(distances), is_causal=is_causal).tolist()


def test_a_decoder_has_16_exact_buckets_and_16_that_grow() -> None:
    """By hand: 16 .. 128 is 3 octaves over 16 buckets, so bucket 16 + n begins at 16 * 2^(3n/16)."""
    position = T5(SIZES)
    assert buckets(position, list(range(0, -16, -1)), is_causal=True) == list(range(16))
    for n in range(16):
        first = 16 * 2 ** (3 * n / 16)
        whole = int(first) if first == int(first) else int(first) + 1
        assert buckets(position, [-whole, 1 - whole], is_causal=True)[0] == 16 + n
        assert buckets(position, [-whole, 1 - whole], is_causal=True)[1] < 16 + n
    assert buckets(position, [-127, -128, -129, -(10**6)], is_causal=True) == [31, 31, 31, 31]
    assert buckets(position, [1, 50], is_causal=True) == [0, 0]  # what a mask hides


def test_an_encoder_has_half_of_them_for_each_direction() -> None:
    position = T5(SIZES)
    distances = list(range(1, 300))
    before = buckets(position, [-d for d in distances], is_causal=False)
    behind = buckets(position, distances, is_causal=False)
    assert [bucket + 16 for bucket in before] == behind
    assert before[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert before[127:] == [15] * (len(before) - 127)
    assert before == sorted(before)
    assert set(before) | set(behind) | {0} == set(range(32)) - {16}  # 16 would be distance 0, behind


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_score_is_the_tables_entry_of_each_head(is_causal: bool) -> None:
    torch.manual_seed(0)
    position = T5(SIZES, buckets=8, max_distance=6)
    at = Places(torch.arange(3, 5), torch.arange(9), causal=is_causal)
    q = torch.zeros(1, 4, 2, 4)
    found = position.score(q, q, at)
    assert found.shape == (4, 2, 9)
    for head in range(4):
        for t, i in enumerate((3, 4)):
            rows = buckets(position, [j - i for j in range(9)], is_causal=is_causal)
            assert found[head, t].tolist() == [position.table[row, head].item() for row in rows]


def test_one_table_serves_all_layers() -> None:
    assert not T5(SIZES).per_layer
    assert T5(SIZES).table.shape == (32, 4)
