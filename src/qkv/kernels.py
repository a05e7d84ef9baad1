"""Faster forms of what a CPU does most when a model learns in float32; each gives the numbers of a plain one, rounded
otherwise."""

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 64  # queries in a block of `causal_attention`: half of what a smaller or a larger block skips is lost again
LONGEST = 512  # keys up to which its weights are kept for the backward pass; torch's kernel keeps none
HAS_PRODUCT = torch.backends.cpu.get_cpu_capability().startswith("AVX512") and hasattr(
    torch.ops.mkldnn, "_linear_pointwise"
)


def can_speed(x: Tensor) -> bool:
    """Whether x is a tensor that the forms below are made for, and there is something to learn from it."""
    usual = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return HAS_PRODUCT and usual and torch.is_grad_enabled()


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


class _CausalAttention(torch.autograd.Function):
    """A few queries at a time, each block with the keys that it sees: half of all products are never made."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, H, T, K = q.shape
        q, k, v = (each.reshape(B * H, T, K) for each in (q, k, v))
        context = q.new_empty(B, T, H, K).transpose(1, 2)
        ahead = q.new_full((ROWS, ROWS), -torch.inf).triu(1)
        kept = []
        for start in range(0, T, ROWS):
            stop = min(start + ROWS, T)
            scores = q.new_empty(B * H, stop - start, stop)
            scores.baddbmm_(q[:, start:stop], k[:, :stop].mT, beta=0, alpha=K**-0.5)
            scores[:, :, start:] += ahead[: stop - start, : stop - start]
            weights = torch.softmax(scores, dim=-1, out=scores)
            context[:, :, start:stop] = torch.bmm(weights, v[:, :stop]).unflatten(0, (B, H))
            kept.append(weights)
        ctx.save_for_backward(q, k, v, *kept)
        return context  # (B, H, T, K)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        q, k, v, *kept = ctx.saved_tensors
        shape, grad, scale = grad.shape, grad.reshape(q.shape), q.size(-1) ** -0.5
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for number, weights in enumerate(kept):
            start, stop = number * ROWS, weights.size(-1)
            here = grad[:, start:stop]
            of_v[:, :stop].baddbmm_(weights.mT, here)
            of_weights = torch.bmm(here, v[:, :stop].mT)
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_q[:, start:stop].baddbmm_(of_scores, k[:, :stop], beta=0, alpha=scale)
            of_k[:, :stop].baddbmm_(of_scores.mT, q[:, start:stop], alpha=scale)
        return of_q.view(shape), of_k.view(shape), of_v.view(shape)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax(q k^T / sqrt(K)) v of q, k, v (B, H, T, K), where a query sees itself and what stands before it."""
    if q.size(-2) > LONGEST or not can_speed(q):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return cast(Tensor, _CausalAttention.apply(q, k, v))  # type: ignore[no-untyped-call]
