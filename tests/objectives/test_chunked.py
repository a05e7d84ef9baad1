"""The loss in chunks: the plain one's value and gradients, with few logits in memory at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from qkv.objectives.smoothing import Form, chunked_cross_entropy, disagreement, smoothed_cross_entropy

FORMS: list[Form] = ["fairseq", "torch", "annotated", "tensor2tensor"]
N, D, V, PAD = 37, 8, 29, 0


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden (N, D), weight (V, D), bias (V,), and labels (N,) of which some are padding."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((N, D), (V, D), (V,))
    )
    labels = torch.randint(1, V, (N,), generator=generator)
    labels[[3, 4, 20, 36]] = PAD
    return hidden, weight, bias, labels


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cells", [1, V, 5 * V + 3, 33 * V, 10**6])
def test_chunks_change_nothing(form: Form, cells: int) -> None:
    """One row at a time, five, all but a few, all at once: the same loss and the same gradients."""
    hidden, weight, bias, labels = inputs()
    plain = smoothed_cross_entropy(hidden @ weight.T + bias, labels, smoothing=0.1, form=form, pad=PAD)
    chunked, _ = chunked_cross_entropy(
        hidden, weight, bias, labels, smoothing=0.1, form=form, pad=PAD, cells=cells
    )  # fmt: skip
    torch.testing.assert_close(chunked, plain, atol=1e-10, rtol=0)
    expected = torch.autograd.grad(3 * plain, (hidden, weight, bias))
    found = torch.autograd.grad(3 * chunked, (hidden, weight, bias))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_its_gradient_is_the_slope(form: Form) -> None:
    """Against finite differences, so that no other gradient of ours has to be trusted."""
    hidden, weight, bias, labels = inputs()

    def loss(*tensors: Tensor) -> Tensor:
        return chunked_cross_entropy(*tensors, labels, smoothing=0.1, form=form, pad=PAD, cells=4 * V)[0]

    assert torch.autograd.gradcheck(loss, (hidden, weight, bias), fast_mode=True)


def test_without_a_bias() -> None:
    hidden, weight, _, labels = inputs()
    plain = smoothed_cross_entropy(hidden @ weight.T, labels, smoothing=0.1, form="fairseq", pad=PAD)
    chunked, _ = chunked_cross_entropy(hidden, weight, None, labels, smoothing=0.1, form="fairseq", pad=PAD, cells=99)
    torch.testing.assert_close(chunked, plain, atol=1e-10, rtol=0)
    chunked.backward()
    assert weight.grad.isfinite().all()


def test_the_likelihood_is_that_of_the_right_words_whatever_the_smoothing() -> None:
    hidden, weight, bias, labels = inputs()
    log_p = (hidden @ weight.T + bias).log_softmax(-1)
    expected = -log_p.gather(1, labels[:, None])[labels != PAD].sum()
    for form in FORMS:
        for smoothing in (0.0, 0.1, 0.5):
            _, found = chunked_cross_entropy(hidden, weight, bias, labels, smoothing=smoothing, form=form, pad=PAD)
            torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
            assert not found.requires_grad


def test_rows_of_padding_receive_no_gradient() -> None:
    hidden, weight, bias, labels = inputs()
    chunked_cross_entropy(hidden, weight, bias, labels, smoothing=0.1, form="fairseq", pad=PAD)[0].backward()
    assert torch.equal(hidden.grad.any(dim=1), labels != PAD)


def test_nothing_but_padding_costs_nothing() -> None:
    hidden, weight, bias, labels = inputs()
    loss, likelihood = chunked_cross_entropy(
        hidden, weight, bias, torch.full_like(labels, PAD), smoothing=0.1, form="tensor2tensor", pad=PAD
    )
    loss.backward()
    assert loss.item() == likelihood.item() == 0
    assert not weight.grad.any()


def test_float32_is_close_to_float64_even_for_large_logits() -> None:
    """Logits near 1000 overflow if the maximum is not taken off first."""
    hidden, weight, bias, labels = inputs()
    how = {"smoothing": 0.1, "form": "fairseq", "pad": PAD, "cells": 4 * V}
    exact, _ = chunked_cross_entropy(100 * hidden, weight, bias, labels, **how)
    narrow, _ = chunked_cross_entropy(100 * hidden.float(), weight.float(), bias.float(), labels, **how)
    assert exact.dtype == torch.float64
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), exact, rtol=1e-5, atol=0)


def test_bfloat16_is_close_to_float32() -> None:
    hidden, weight, bias, labels = inputs(torch.float32)
    how = {"smoothing": 0.1, "form": "fairseq", "pad": PAD, "cells": 4 * V}
    exact, _ = chunked_cross_entropy(hidden, weight, bias, labels, **how)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, _ = chunked_cross_entropy(hidden, weight, bias, labels, **how)
    assert narrow.dtype == torch.float32
    assert narrow.item() != exact.item()  # it did compute in bfloat16
    assert narrow.item() == pytest.approx(exact.item(), rel=0.01)  # bfloat16 has 8 bits
    expected = torch.autograd.grad(exact, (hidden, weight, bias))
    for ours, theirs in zip(torch.autograd.grad(narrow, (hidden, weight, bias)), expected, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation makes."""

    cells = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        made = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.cells = max([self.cells, *made])
        return result


def test_few_logits_stand_in_memory_at_a_time() -> None:
    n, d, vocabulary, cells = 600, 4, 1000, 5500
    hidden, weight = torch.randn(n, d, requires_grad=True), torch.randn(vocabulary, d, requires_grad=True)
    labels = torch.randint(1, vocabulary, (n,))
    with Largest() as plain:
        smoothed_cross_entropy(hidden @ weight.T, labels, smoothing=0.1, form="fairseq", pad=PAD).backward()
    assert plain.cells >= n * vocabulary
    with Largest() as chunked:
        how = {"smoothing": 0.1, "form": "fairseq", "pad": PAD, "cells": cells}
        chunked_cross_entropy(hidden, weight, None, labels, **how)[0].backward()
    assert vocabulary < chunked.cells <= cells


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cells", [1, 40, 10**6])
def test_two_readings_pulled_together_equal_the_plain_form(form: Form, cells: int) -> None:
    """R-Drop: smoothed cross-entropy of both, and their divergence by torch's own kl_div; values and all gradients."""
    generator = torch.Generator().manual_seed(4)
    first, second = (torch.randn(13, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    weight, bias = torch.randn(17, 6, generator=generator, dtype=torch.float64), torch.randn(17, dtype=torch.float64)
    labels = torch.randint(1, 17, (13,), generator=generator)
    labels[::5] = 0
    leaves = [tensor.requires_grad_() for tensor in (first, second, weight, bias)]

    logits = [F.linear(hidden, weight, bias) for hidden in (first, second)]
    expected = sum(smoothed_cross_entropy(x, labels, smoothing=0.1, form=form, pad=0) for x in logits)
    p, q = (x[labels != 0].log_softmax(dim=-1) for x in logits)
    apart = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    torch.testing.assert_close(disagreement(*(x[labels != 0] for x in logits)), apart / 2)
    expected = expected + 3.5 * apart / 2
    slopes = torch.autograd.grad(expected, leaves)

    found, _ = chunked_cross_entropy(
        torch.cat([first, second]), weight, bias, labels.repeat(2),
        smoothing=0.1, form=form, pad=0, r_drop=3.5, cells=cells,
    )  # fmt: skip
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.autograd.grad(found, leaves), slopes, strict=True):
        torch.testing.assert_close(a, b)
