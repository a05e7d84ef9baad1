"""Faster forms of what a CPU does most when a model learns; each gives the numbers of a plain one, rounded
otherwise."""

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 64  # queries in a block of causal `attention`: half of what a smaller or a larger block skips is lost again
LONGEST = 512  # keys up to which weights are kept for the backward pass; torch's kernel keeps none
HAS_PRODUCT = torch.backends.cpu.get_cpu_capability().startswith("AVX512") and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)


def can_speed(x: Tensor, *, narrow: bool = False) -> bool:
    """Whether x is a tensor that the forms below are made for, and there is something to learn from it: in float32, or
    if `narrow` where autocast computes in bfloat16."""
    if torch.is_autocast_enabled("cpu"):
        is_usual = narrow and torch.get_autocast_dtype("cpu") is torch.bfloat16
    else:
        is_usual = not narrow and x.dtype is torch.float32
    return HAS_PRODUCT and is_usual and x.device.type == "cpu" and torch.is_grad_enabled()


# -- products ----------------------------------------------------------------------------------------------------------


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b of x (.., K) and weight (N, K) by oneDNN, which has AVX-512 for every maker's processors; MKL, torch's
    own choice, only for one maker's. Without gradients."""
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], ""))


def transposed_product(a: Tensor, b: Tensor) -> Tensor:
    """A^T B of a (M, N) and b (M, K). oneDNN wants A^T copied, which pays where it is narrow; MKL takes it as it is."""
    return product(a.T, b.T) if a.size(1) < b.size(1) else a.T @ b


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        flat = grad.flatten(0, -2)  # (B * T, N)
        of_x = product(grad, weight.T) if ctx.needs_input_grad[0] else None
        of_weight = transposed_product(flat, x.flatten(0, -2)) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, flat.sum(dim=0) if ctx.needs_input_grad[2] else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear, faster where it can be."""
    if not can_speed(x):
        return F.linear(x, weight, bias)
    return cast(Tensor, _Linear.apply(x, weight, bias))  # type: ignore[no-untyped-call]


class FastLinear(nn.Linear):
    """nn.Linear, faster in training where it can be. What a trained model writes does not depend on it."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias) if self.training else super().forward(x)


# -- activation --------------------------------------------------------------------------------------------------------

PIECE = 2**18  # values at a time: what is made of them on the way stays in the cache
STRETCH, CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


class _GeluTanh(torch.autograd.Function):
    """x s with s = sigmoid(u) = (1 + tanh(u / 2)) / 2 and u = x r, r = a (1 + c x^2); its slope is made with it:
    s + x s (1 - s) u', u' = 3 r - 2 a."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, slope = torch.empty_like(x), torch.empty_like(x)
        r, s, a = x.new_empty(PIECE), x.new_empty(PIECE), x.new_tensor(STRETCH)
        for here, y_, slope_ in zip(*(each.view(-1).split(PIECE) for each in (x, y, slope)), strict=True):
            r_, s_ = r[: len(here)], s[: len(here)]
            torch.addcmul(a, here, here, value=STRETCH * CUBE, out=r_)
            torch.mul(here, r_, out=s_).sigmoid_()
            torch.mul(here, s_, out=y_)
            torch.addcmul(y_, y_, s_, value=-1, out=slope_)
            torch.addcmul(s_, slope_, r_.mul_(3).sub_(2 * STRETCH), out=slope_)
        ctx.save_for_backward(slope)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * cast(Tensor, ctx.saved_tensors[0])


def gelu_tanh(x: Tensor) -> Tensor:
    """Hendrycks & Gimpel 2016: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    if not can_speed(x) or not x.is_contiguous():
        return F.gelu(x, approximate="tanh")
    return cast(Tensor, _GeluTanh.apply(x))  # type: ignore[no-untyped-call]


# -- attention ---------------------------------------------------------------------------------------------------------


class _Attention(torch.autograd.Function):
    """The weights are kept for the backward pass. Causal: a few queries at a time, each block with the keys that it
    sees, so that half of all products are never made."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        (B, H, T, K), S = q.shape, k.size(-2)
        q, k, v = (each.reshape(B * H, -1, K) for each in (q, k, v))
        context = q.new_empty(B, T, H, K).transpose(1, 2)
        wide_q, wide_k = (each.to(torch.promote_types(each.dtype, torch.float32)) for each in (q, k))
        ahead = wide_q.new_full((ROWS, ROWS), -torch.inf).triu(1)
        kept, rows = [], ROWS if is_causal else T
        for start in range(0, T, rows):
            stop = min(start + rows, T)
            seen = stop if is_causal else S
            scores = wide_q.new_empty(B * H, stop - start, seen)
            scores.baddbmm_(wide_q[:, start:stop], wide_k[:, :seen].mT, beta=0, alpha=K**-0.5)
            if is_causal:
                scores[:, :, start:] += ahead[: stop - start, : stop - start]
            if mask is not None:
                scores.view(B, H, T, S).add_(wide_q.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf))
            weights = torch.softmax(scores, dim=-1, out=scores).to(q.dtype)
            if mask is not None:
                weights.nan_to_num_()  # a row of -inf alone
            context[:, :, start:stop] = torch.bmm(weights, v[:, :seen]).unflatten(0, (B, H))
            kept.append(weights)
        ctx.rows = rows
        ctx.save_for_backward(q, k, v, *kept)
        return context  # (B, H, T, K)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *kept = ctx.saved_tensors
        (B, H, _, K), grad = grad.shape, grad.reshape(q.shape)
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for number, weights in enumerate(kept):
            start, stop, seen = number * ctx.rows, number * ctx.rows + weights.size(-2), weights.size(-1)
            here = grad[:, start:stop]
            of_v[:, :seen].baddbmm_(weights.mT, here)
            of_weights = torch.bmm(here, v[:, :seen].mT)
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_q[:, start:stop].baddbmm_(of_scores, k[:, :seen], beta=0, alpha=K**-0.5)
            of_k[:, :seen].baddbmm_(of_scores.mT, q[:, start:stop], alpha=K**-0.5)
        return *(each.unflatten(0, (B, H)) for each in (of_q, of_k, of_v)), None, None


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, is_causal: bool = False) -> Tensor:
    """Softmax(q k^T / sqrt(K)) v of q (B, H, T, K) and k, v (B, H, S, K), where a query sees what the mask, True =
    may look, lets it; if `is_causal`, itself and what stands before it.

    In bfloat16, with scores in float32, it takes a third of the time of torch's kernel at 128 keys and a sixth at 12,
    forward and backward; in float32 the two are level but for what a causal one need not compute.
    """
    narrow = q.dtype == k.dtype == v.dtype == torch.bfloat16
    if k.size(-2) > LONGEST or not (narrow or is_causal) or not can_speed(q, narrow=narrow):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
    return cast(Tensor, _Attention.apply(q, k, v, mask, is_causal))  # type: ignore[no-untyped-call]
