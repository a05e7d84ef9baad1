"""What an attention costs as texts grow: multiply-adds, scores and bytes, counted while it runs; and seconds."""

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from qkv.attention import build_attention
from qkv.errors import InputError
from qkv.look.picture import canvas, check_suffix, lined, save
from qkv.models import TransformerConfig
from qkv.positions import Places

RECURRENT = "recurrent"  # an LSTM of the same width, beside the attentions
# Liu et al. 2018 read 256 tokens in a block; the others see about 512 keys each.
USUAL = (
    "scaled_dot", "window(radius=256)", "local(block=256)", "bigbird(block=64)", "linformer(k=256)",
    "memory_compressed(factor=3)", RECURRENT,
)  # fmt: skip
CAUSAL = tuple(spec for spec in USUAL if not spec.startswith(("bigbird", "linformer")))  # no paper has these so
ATEN = torch.ops.aten
SOFTMAX = (ATEN._softmax, ATEN._safe_softmax, ATEN.softmax)


def fused_products(query: Any, key: Any, *_: Any, **__: Any) -> int:
    """Operations of torch's fused kernel on a CPU, which its counter does not know: q k^T, and weights v."""
    return 2 * 2 * math.prod(query) * int(key[-2])


def fused_gradients(_: Any, query: Any, key: Any, *__: Any, **___: Any) -> int:
    """The scores once more, and four products."""
    return 5 * 2 * math.prod(query) * int(key[-2])


def products(_: Any, left: Any, right: Any, **__: Any) -> int:
    return 2 * math.prod(left) * int(right[-1])


FUSED = ATEN._scaled_dot_product_flash_attention_for_cpu
KERNELS = {
    FUSED: fused_products,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: fused_gradients,
    ATEN.baddbmm_: products,
}


class Meter(TorchDispatchMode):
    """While it lasts: the scores that a softmax reads going forward, and the most bytes that new tensors hold."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cells = self.held = self.bytes = 0
        self.known = weakref.WeakSet[Any]()

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for one in tree_leaves((args, kwargs)):
            if isinstance(one, Tensor):
                self.known.add(one.untyped_storage())  # it was there before
        result = f(*args, **(kwargs or {}))
        kind = f.overloadpacket
        if torch._C._current_graph_task_id() >= 0:  # a backward pass: scores that are made once more
            pass
        elif kind in SOFTMAX:
            self.cells += result.numel()
        elif kind is FUSED:
            self.cells += args[0].numel() // args[0].size(-1) * args[1].size(-2)
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, Tensor):
                self.hold(one)
        return result

    def hold(self, tensor: Tensor) -> None:
        """Count the memory behind a tensor, once, until it is given back."""
        storage = tensor.untyped_storage()
        if storage not in self.known:
            self.known.add(storage)
            self.held += storage.nbytes()
            self.bytes = max(self.bytes, self.held)
            weakref.finalize(storage, self.release, storage.nbytes())

    def release(self, size: int) -> None:
        self.held -= size


@dataclass(frozen=True)
class Cost:
    """Of one attention over one text, forward and backward, without projections; scores are those of the forward."""

    attention: str
    length: int
    operations: int  # multiply-adds
    scores: int
    bytes: int  # at the most, beside what it is given
    seconds: float | None = None

    def to_tree(self) -> dict[str, Any]:
        return vars(self).copy()


def runner(spec: str, length: int, *, width: int = 256, heads: int = 4, causal: bool = False) -> Callable[[], object]:
    """What is measured: a new text of random numbers, read once forward and once backward."""
    if spec == RECURRENT:
        return recurrent(length, width, torch.float32)
    c = TransformerConfig(d_model=width, n_heads=heads, max_length=length)
    part = build_attention(spec, c, "decoder" if causal else "encoder")
    at = Places.span(0, length, torch.device("cpu"), causal=causal)
    q, k, v = (torch.randn(1, length, heads, width // heads).transpose(1, 2).requires_grad_() for _ in range(3))
    along = torch.randn(1, heads, length, width // heads)
    return both_ways(lambda: part.fused(q, k, v, at), along, [q, k, v, *part.parameters()])


def recurrent(length: int, width: int, dtype: torch.dtype) -> Callable[[], object]:
    part = nn.LSTM(width, width, batch_first=True, dtype=dtype)
    x, along = (torch.randn(1, length, width, dtype=dtype) for _ in range(2))
    x.requires_grad_()
    return both_ways(lambda: part(x)[0], along, [x, *part.parameters()])


def both_ways(forward: Callable[[], Tensor], along: Tensor, given: Sequence[Tensor]) -> Callable[[], object]:
    def run() -> None:
        for each in given:
            each.grad = None
        forward().backward(along)

    return run


def cost(spec: str, length: int, *, timed: bool = True, rounds: int = 1, **sizes: Any) -> Cost:
    """Count one run of an attention, and take the time of others: the median of `rounds`."""
    with torch.random.fork_rng(devices=[]):
        run = runner(spec, length, **sizes)
        # In float32 torch's LSTM is one kernel that tells nothing; in float64 it goes step by step.
        counted = recurrent(length, sizes.get("width", 256), torch.float64) if spec == RECURRENT else run
        with FlopCounterMode(display=False, custom_mapping=KERNELS) as flops, Meter() as watched:
            counted()
        seconds = sorted(timed_once(run) for _ in range(rounds)) if timed else [math.nan]
    size = watched.bytes // 2 if spec == RECURRENT else watched.bytes
    taken = seconds[len(seconds) // 2] if timed else None
    return Cost(spec, length, flops.get_total_flops() // 2, watched.cells, size, taken)


def timed_once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def slope(few: Cost, many: Cost, what: str = "operations") -> float:
    """The power of the length with which a number grows between two texts."""
    return math.log(getattr(many, what) / getattr(few, what)) / math.log(many.length / few.length)


def read_lengths(text: str) -> list[int]:
    """ "512..4096" -> [512, 1024, 2048, 4096]; "700,900" -> [700, 900]."""
    try:
        first, dots, last = text.partition("..")
        if not dots:
            found = sorted({int(one) for one in text.split(",")})
        else:
            found = [int(first) * 2**i for i in range(40) if int(first) * 2**i <= int(last)]
        if found and found[0] > 0:
            return found
    except ValueError:
        pass
    raise InputError(f"--lengths {text!r} names no lengths; write 512..16384, or 512,1000,4000")


def draw_costs(costs: Sequence[Cost], path: Path) -> Path:
    """Three panels on logarithmic scales: multiply-adds, bytes and seconds against the length."""
    from qkv.look.charts import plot

    check_suffix(path)
    by_name: Mapping[str, list[Cost]] = {one.attention: [] for one in costs}
    for one in costs:
        by_name[one.attention].append(one)
    figure = canvas(12, 4.2)
    for axes, what in zip(figure.subplots(1, 3), ("operations", "bytes", "seconds"), strict=True):
        curves = {name: ([c.length for c in some], [getattr(c, what) for c in some]) for name, some in by_name.items()}
        plot(axes, curves)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        lined(axes, "tokens", {"operations": "multiply-adds"}.get(what, what))
    return save(figure, path)
