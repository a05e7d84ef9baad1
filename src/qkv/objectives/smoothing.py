"""Cross-entropy with label smoothing: the plain form, and one that never holds all the logits at once."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.kernels import can_speed, product

TINY = 1e-30  # probabilities below it are no longer exact in float32

Form = Literal["fairseq", "torch", "annotated", "tensor2tensor"]


def target_mass(form: Form, smoothing: float, vocab_size: int) -> tuple[float, float]:
    """The probability that the smoothed target gives to the right word, and to each other word.

    fairseq and tensor2tensor: 1 - e, and e / (V - 1). torch spreads e over all V words, the right one too. The
    Annotated Transformer gives nothing to padding: e / (V - 2).
    """
    if form == "torch":
        return 1 - smoothing + smoothing / vocab_size, smoothing / vocab_size
    return 1 - smoothing, smoothing / (vocab_size - (2 if form == "annotated" else 1))


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, *, smoothing: float, form: Form, pad: int) -> Tensor:
    """Szegedy et al. 2016, as in Vaswani et al. 2017, section 5.4: the sum of -sum_w q(w) log p(w), pads left out.

    logits (N, V), labels (N,). The plain form: every step can be read beside the definition.
    """
    log_p = logits.log_softmax(dim=-1)
    right, other = target_mass(form, smoothing, logits.size(-1))
    q = torch.full_like(log_p, other).scatter_(1, labels[:, None], right)  # (N, V)
    if form == "annotated":
        q[:, pad] = 0
    loss = -(q * log_p).sum(dim=-1)
    if form == "tensor2tensor":  # less the entropy of q, so that a perfect model scores 0
        loss = loss + torch.special.xlogy(q, q).sum(dim=-1)
    return loss[labels != pad].sum()


def disagreement(logits: Tensor, other: Tensor) -> Tensor:
    """Liang et al. 2021 (R-Drop), eq. 2, over all rows: (KL(p || q) + KL(q || p)) / 2 = sum (p - q) ln(p/q) / 2."""
    log_p, log_q = logits.log_softmax(dim=-1), other.log_softmax(dim=-1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2


class _Chunked(torch.autograd.Function):
    """Projection and loss a few rows at a time; the gradients are made on the way, while the logits are at hand.

    hidden (copies, N, D): one reading of each token, or two that differ by their dropout and shall agree.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor,
        smoothing: float, form: Form, pad: int, r_drop: float, cells: int, learning: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        device, narrow = hidden.device.type, weight.dtype
        if torch.is_autocast_enabled(device):
            narrow = torch.get_autocast_dtype(device)
        wide = torch.promote_types(narrow, torch.float32)
        table, shift = weight.to(narrow), None if bias is None else bias.to(narrow)
        total, likelihood = hidden.new_zeros((), dtype=wide), hidden.new_zeros((), dtype=wide)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        copies = hidden.size(0)
        rows = max(1, cells // weight.size(0) // copies)
        for start in range(0, len(labels), rows):
            here = slice(start, start + rows)
            h = hidden[:, here].flatten(0, 1).to(narrow)  # (copies * rows, D)
            logits = F.linear(h, table, shift).to(wide)  # (copies * rows, V)
            label = labels[here, None].repeat(copies, 1)
            loss, unlikely, grad = _chunk(logits, label, smoothing, form, pad, r_drop)
            total += loss
            likelihood += unlikely
            if learning:
                grad = grad.to(narrow)
                grad_hidden[:, here] = (grad @ table).view(copies, -1, h.size(-1)).to(hidden.dtype)
                grad_weight += grad.T @ h
                if grad_bias is not None:
                    grad_bias += grad.sum(dim=0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(likelihood)
        return total, likelihood

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if each is None else each * grad_total for each in ctx.saved_tensors), *[None] * 7


def _chunk(
    logits: Tensor, label: Tensor, smoothing: float, form: Form, pad: int, r_drop: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of the loss and of -log p(right word) over some rows, and the gradient, in place of the logits.

    logits (N, V), label (N, 1). q is `other` everywhere and `right - other` more at the right word, so that
    sum_w q(w) log p(w) needs no q: only log p of the right word and the sum of all log p.
    """
    right, other = target_mass(form, smoothing, logits.size(-1))
    logits -= logits.amax(dim=-1, keepdim=True)
    log_p, on_pad, spread = logits.gather(1, label), logits[:, pad, None].clone(), logits.sum(dim=-1, keepdim=True)
    gap = torch.sub(*logits.chunk(2)) if r_drop else None
    p = logits.exp_()
    z = p.sum(dim=-1, keepdim=True)
    log_z = z.log()
    log_p -= log_z
    spread -= p.size(-1) * log_z
    grad = p.div_(z)  # the gradient is p - q, since q sums to 1 in every form
    apart = 0.0 if gap is None else _agree(grad, gap.sub_(torch.sub(*log_z.chunk(2))), r_drop)
    grad.sub_(other).scatter_add_(1, label, torch.full_like(log_p, other - right))
    if form == "annotated":
        spread -= on_pad - log_z
        grad[:, pad] += other
    loss = apart - ((right - other) * log_p + other * spread).sum()
    if form == "tensor2tensor":
        masses = torch.tensor([right, other], dtype=torch.float64)
        loss += len(label) * float(torch.special.xlogy(masses, masses) @ masses.new_tensor([1, p.size(-1) - 1]))
    return loss, -log_p.sum(), grad


def _agree(both: Tensor, gap: Tensor, r_drop: float) -> Tensor:
    """`r_drop` times the disagreement of two readings, its gradient added to p and q in `both` (2N, V).

    gap (N, V) = ln(p / q). Of J = sum (p - q) gap, the gradient to the logits of p is p (gap - sum p gap) + p - q, and
    to those of q the same with p and q changed and the sign of gap turned.
    """
    p, q = both.chunk(2)
    p_gap, q_gap = p * gap, q * gap
    along_p, along_q = p_gap.sum(dim=-1, keepdim=True), q_gap.sum(dim=-1, keepdim=True)
    apart = p - q
    p_gap += apart - p * along_p
    q_gap += apart - q * along_q
    p.add_(p_gap, alpha=r_drop / 2)
    q.sub_(q_gap, alpha=r_drop / 2)
    return r_drop / 2 * (along_p - along_q).sum()


def chunked_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor,
    *, smoothing: float, form: Form, pad: int, r_drop: float = 0.0, cells: int = 2**22,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`smoothed_cross_entropy(hidden @ weight.T + bias, labels)` without its (N, V) logits; and -log p of the words.

    hidden (N, D), weight (V, D), labels (N,). The second result carries no gradient: it is what perplexity is made of.
    At most `cells` logits stand in memory at a time: 16 MB are rows enough for products at their full rate. With
    `r_drop`, hidden and labels hold each row twice, all of them and then all again, and r_drop * `disagreement`
    of the two is added.
    """
    real = labels != pad
    copies = 2 if r_drop else 1
    loss, likelihood = _Chunked.apply(  # type: ignore[no-untyped-call]
        hidden[real].unflatten(0, (copies, -1)), weight, bias, labels[real].chunk(copies)[0],
        smoothing, form, pad, r_drop, cells, torch.is_grad_enabled(),
    )  # fmt: skip
    return loss, likelihood


class _Likelihood(torch.autograd.Function):
    """`_Chunked` of one reading without smoothing, by the products of kernels.py: fewer passes over the logits."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, cells: int) -> Tensor:
        narrow = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else weight.dtype
        table, shift = weight.to(narrow), None if bias is None else bias.to(narrow)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.empty_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        chunks = max(1, math.ceil(len(labels) * len(weight) / cells))
        total, rows = weight.new_zeros(()), max(1, math.ceil(len(labels) / chunks))
        for start in range(0, len(labels), rows):
            h, label = hidden[start : start + rows].to(narrow), labels[start : start + rows, None]
            p = product(h, table, shift).float()  # (rows, V)
            p = torch.softmax(p, dim=-1, out=p)
            right = p.gather(1, label)
            log_p = right.log()
            if (rare := right[:, 0] < TINY).any():  # p has lost them
                log_p[rare] = product(h[rare], table, shift).float().log_softmax(dim=-1).gather(1, label[rare])
            total -= log_p.sum()
            p.scatter_(1, label, right - 1)
            if grad_bias is not None:
                grad_bias.addmv_(p.T, p.new_ones(len(p)))  # their sum, in a third of its time
            grad = p.to(narrow)
            grad_hidden[start : start + rows] = product(grad, table.T)
            if narrow is weight.dtype:
                grad_weight.addmm_(grad.T, h, beta=1 if start else 0)
            else:
                (grad_weight.add_ if start else grad_weight.copy_)(grad.T @ h)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if each is None else each * grad_total for each in ctx.saved_tensors), None, None


def negative_log_likelihood(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, *, pad: int, cells: int = 2**24
) -> tuple[Tensor, Tensor]:
    """`chunked_cross_entropy` without smoothing, twice: with its gradient and without."""
    real = labels != pad
    if not (can_speed(hidden) or can_speed(hidden, narrow=True)) or not real.any():
        return chunked_cross_entropy(hidden, weight, bias, labels, smoothing=0.0, form="fairseq", pad=pad)
    if not real.all():
        hidden, labels = hidden[real], labels[real]
    loss: Tensor = _Likelihood.apply(hidden, weight, bias, labels, cells)  # type: ignore[no-untyped-call]
    return loss, loss.detach()
