"""What attentions cost, counted: the power of the length with which each grows, from 1,024 to 16,384 tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from kit import Result, draw
from qkv.attention import build_attention
from qkv.errors import InputError
from qkv.layers import Stack
from qkv.look.cost import CAUSAL, KERNELS, USUAL, Cost, Meter, cost, read_lengths, slope
from qkv.models import TransformerConfig
from qkv.positions import Places

SIZES = {"width": 8, "heads": 1, "timed": False}
LINEAR = [
    "window(radius=64)",
    "window(radius=64, global_tokens=32)",
    "local(block=64)",
    "bigbird(block=16)",
    "linformer(k=32)",
]


@pytest.mark.parametrize("spec", LINEAR)
def test_sparse_and_low_rank_attentions_grow_with_the_length(spec: str) -> None:
    few, many = (cost(spec, length, **SIZES) for length in (1024, 16384))
    for what in ("operations", "scores"):
        assert slope(few, many, what) == pytest.approx(1, abs=0.05), what
    assert slope(few, many, "bytes") < 1.05


def test_full_attention_grows_with_the_square() -> None:
    few, many = (cost("scaled_dot", length, **SIZES) for length in (1024, 16384))
    assert slope(few, many) == pytest.approx(2, abs=0.01)
    assert slope(few, many, "scores") == 2
    assert slope(few, many, "bytes") == pytest.approx(1, abs=0.15)  # the fused kernel keeps none of them
    assert many.scores == 16384**2


def test_a_recurrent_layer_grows_with_the_length() -> None:
    """Each step multiplies a token and a state by 4 gates of 8 x 8, forward once and backward twice; nobody asks for
    the gradient of the first state."""
    few, many = (cost("recurrent", length, **SIZES) for length in (64, 512))
    assert slope(few, many) == pytest.approx(1, abs=0.05)
    assert [one.operations for one in (few, many)] == [3 * 2 * 4 * 64 * n - 4 * 64 for n in (64, 512)]
    assert few.scores == 0


@pytest.mark.slow
def test_a_recurrent_layer_up_to_16384_tokens() -> None:
    few, many = (cost("recurrent", length, **SIZES) for length in (2048, 16384))
    assert slope(few, many) == pytest.approx(1, abs=0.05)


def test_memory_compressed_attention_has_a_third_of_the_scores_and_is_still_quadratic() -> None:
    few, many = (cost("memory_compressed(factor=3)", length, **SIZES) for length in (3072, 12288))
    assert many.scores == 12288 * (12288 // 3 + 1)
    assert slope(few, many, "scores") == pytest.approx(2, abs=0.01)
    assert slope(few, many) == pytest.approx(2, abs=0.01)
    causal = cost("memory_compressed(factor=3)", 12288, causal=True, **SIZES)
    assert causal.scores == pytest.approx(many.scores / 2, rel=0.06)  # by 512 queries at a time
    for one in (few, many, causal):
        assert one.operations == 7 * one.scores * 8 + compressing(one.length)


def compressing(length: int) -> int:
    """Multiply-adds of both convolutions, of three keys or values of 8 into a slot, and of their gradients."""
    return 3 * 2 * (length // 3) * (3 * 8) * 8


def of_stack(spec: str, length: int, use: Literal["encoder", "decoder"], layers: int) -> Cost:
    """A whole stack of width 8, its projections and feed-forward networks too, once forward and once backward."""
    c = TransformerConfig(d_model=8, d_ff=8, n_heads=1, dropout=0.0, position="none", attention=spec, max_length=length)
    part = Stack(c, use=use, layers=layers)
    x, at = draw(1, length, 8).requires_grad_(), Places.span(0, length, torch.device("cpu"), causal=use == "decoder")
    with FlopCounterMode(display=False, custom_mapping=KERNELS) as flops, Meter() as watched:
        part(x, at, None).backward(draw(1, length, 8, seed=2))
    return Cost(spec, length, flops.get_total_flops() // 2, watched.cells, watched.bytes)


def test_a_stack_of_bigbirds_with_tokens_of_its_own_grows_with_the_length() -> None:
    few, many = (of_stack("bigbird(16, kind='etc', global_blocks=1)", n, "encoder", 2) for n in (1024, 16384))
    for what in ("operations", "scores"):
        assert slope(few, many, what) == pytest.approx(1, abs=0.05), what


def test_of_five_layers_by_turns_the_compressed_ones_are_quadratic() -> None:
    """T-DMCA's L-M-L-M-L: the counts are those of its layers, of which L grow with the length, and M with
    its square: a third of the scores of a full one."""
    counted = {}
    for length in (3072, 12288):
        around = 3 * (4 + 2) * length * 64  # projections and feed-forward, forward and backward
        local = length * 64
        compressed = sum(512 * (1 + end // 3) for end in range(512, length + 1, 512))  # by 512 queries at a time
        found = counted[length] = of_stack("local(64), memory_compressed(3)", length, "decoder", 5)
        assert found.scores == 3 * local + 2 * compressed
        assert found.operations == 5 * around + 7 * found.scores * 8 + 2 * compressing(length)
    few, many = counted.values()
    assert 1.75 < slope(few, many) < slope(few, many, "scores") < 2


def test_the_counts_are_those_of_the_formulas() -> None:
    """Forward q k^T and weights v, backward five products: 7 n m d; a block of 256 queries sees 256 keys."""
    assert cost("scaled_dot", 512, **SIZES).operations == 7 * 512 * 512 * 8
    local = cost("local(block=256)", 1024, **SIZES)
    assert (local.operations, local.scores) == (7 * 1024 * 256 * 8, 1024 * 256)
    window = cost("window(radius=64)", 1024, **SIZES)
    assert window.scores == 1024 * 3 * 64


def test_bytes_are_those_that_stand_at_a_time() -> None:
    with Meter() as watched:
        for _ in range(3):
            x = torch.zeros(1000)
            y = x + 1
            del x, y
    assert watched.bytes == 8000
    assert watched.held == 0


@pytest.mark.parametrize("spec", ["window(radius=64)", "bigbird(block=16)", "local(block=64)", "memory_compressed"])
def test_the_n_by_n_matrix_is_never_made(spec: str) -> None:
    """No tensor of it, forward or backward, is as large as a tenth of n x n; all of them together are not."""
    found = cost(spec, 8192, **SIZES)
    assert found.bytes < 8192**2 / 2  # of 4 bytes each
    plain = build_attention("scaled_dot", TransformerConfig(d_model=8, n_heads=1), "encoder")
    q = torch.randn(1, 1, 1024, 8)
    with Meter() as watched:
        plain.plain(q, q, q, Places.span(0, 1024, torch.device("cpu")))
    assert watched.bytes >= 4 * 1024**2


def test_lengths() -> None:
    assert read_lengths("512..4096") == [512, 1024, 2048, 4096]
    assert read_lengths("900,700") == [700, 900]
    for bad in ("", "4..1", "0..4", "many", "1..x"):
        with pytest.raises(InputError, match="names no lengths"):
            read_lengths(bad)


def test_the_command_tells_and_draws(command: Callable[..., Result], tmp_path: Path) -> None:
    flags = ("--lengths", "128..256", "--width", 16, "--heads", 2)
    said = command("measure", "attention", *flags, "-o", "cost.png")
    assert said.code == 0
    assert (tmp_path / "cost.png").stat().st_size > 1000
    assert all(spec.split("(")[0] in said.out for spec in USUAL)
    lines = command("measure", "attention", *flags, "--causal", "--json").lines
    found = [json.loads(line) for line in lines]
    assert [(one["attention"], one["length"]) for one in found] == [(spec, n) for spec in CAUSAL for n in (128, 256)]
    for arguments, why in (
        (("--attention", "windov"), "unknown attention 'windov'"),
        (("--attention", "bigbird", "--causal"), "cannot stand in the decoder"),
        (("--lengths", "1..x"), "names no lengths"),
        (("--heads", 3), "heads must divide the width"),
        (("-o", "a.txt"), "a.txt"),
    ):
        done = command("measure", "attention", *arguments)
        assert done.code == 1
        assert why in done.err
