"""The four forms of label smoothing against their definitions, against torch, and against the entropy below them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import draw
from qkv.objectives.smoothing import Form, smoothed_cross_entropy, target_mass

FORMS: list[Form] = ["fairseq", "torch", "annotated", "tensor2tensor"]
V, N, PAD = 11, 40, 0


def rows(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(N, V, generator=generator, dtype=torch.float64) * 2
    return logits, torch.randint(1, V, (N,), generator=generator)


def q_by_hand(form: Form, label: int, e: float) -> list[float]:
    """What each form calls the right answer.

    fairseq, tensor2tensor: 1 - e for the right word, e shared by the V - 1 others. torch: e shared by all V. The
    Annotated Transformer: e shared by the V - 2 that are neither right nor padding.
    """
    if form == "torch":
        return [e / V + (1 - e) * (word == label) for word in range(V)]
    if form == "annotated":
        return [0.0 if word == PAD else 1 - e if word == label else e / (V - 2) for word in range(V)]
    return [1 - e if word == label else e / (V - 1) for word in range(V)]


def entropy(q: list[float]) -> float:
    return -sum(x * math.log(x) for x in q if x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("e", [0.0, 0.1, 0.4])
def test_each_form_is_its_definition(form: Form, e: float) -> None:
    logits, labels = rows()
    expected = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        log_z = math.log(sum(math.exp(x) for x in row))
        q = q_by_hand(form, label, e)
        expected -= sum(mass * (x - log_z) for mass, x in zip(q, row, strict=True))
        if form == "tensor2tensor":
            expected -= entropy(q)
    found = smoothed_cross_entropy(logits, labels, smoothing=e, form=form, pad=PAD)
    assert found.item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("e", [0.0, 0.1])
def test_torchs_form_is_torchs_loss(e: float) -> None:
    logits, labels = rows()
    labels[::4] = PAD
    expected = F.cross_entropy(logits, labels, label_smoothing=e, ignore_index=PAD, reduction="sum")
    found = smoothed_cross_entropy(logits, labels, smoothing=e, form="torch", pad=PAD)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_fairseqs_form_is_its_closed_form() -> None:
    """(1 - e - e_i) nll + e_i sum_w -log p(w), with e_i = e / (V - 1)."""
    logits, labels = rows()
    log_p = logits.log_softmax(-1)
    e, share = 0.1, 0.1 / (V - 1)
    nll, everywhere = -log_p.gather(1, labels[:, None]).sum(), -log_p.sum()
    found = smoothed_cross_entropy(logits, labels, smoothing=e, form="fairseq", pad=PAD)
    torch.testing.assert_close(found, (1 - e - share) * nll + share * everywhere, atol=1e-10, rtol=0)


@pytest.mark.parametrize("form", FORMS)
def test_the_target_is_a_distribution(form: Form) -> None:
    right, other = target_mass(form, 0.1, V)
    others = V - 2 if form == "annotated" else V - 1
    assert right + others * other == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_the_least_loss_is_the_entropy_of_the_target(form: Form) -> None:
    label = 3
    q = q_by_hand(form, label, 0.1)
    best = torch.tensor([[math.log(x) if x else -700.0 for x in q]], dtype=torch.float64).requires_grad_()

    def loss(logits: Tensor) -> Tensor:
        return smoothed_cross_entropy(logits, torch.tensor([label]), smoothing=0.1, form=form, pad=PAD)

    least = 0.0 if form == "tensor2tensor" else entropy(q)
    assert loss(best).item() == pytest.approx(least, abs=1e-10)
    (gradient,) = torch.autograd.grad(loss(best), best)
    torch.testing.assert_close(gradient, torch.zeros(1, V, dtype=torch.float64), atol=1e-12, rtol=0)
    for seed in range(20):
        step = draw(1, V, seed=seed, dtype=torch.float64)
        assert loss(best + 0.1 * step).item() > least


@pytest.mark.parametrize("form", FORMS)
def test_padding_is_left_out(form: Form) -> None:
    logits, labels = rows()
    labels[10:] = PAD
    whole = smoothed_cross_entropy(logits, labels, smoothing=0.1, form=form, pad=PAD)
    alone = smoothed_cross_entropy(logits[:10], labels[:10], smoothing=0.1, form=form, pad=PAD)
    torch.testing.assert_close(whole, alone, atol=1e-12, rtol=0)
