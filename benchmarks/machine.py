"""What this machine can do at most, and what it is: the ceilings that figures are measured against."""

import platform
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from qkv.engines.native.library import is_built, multiply

CUBE = 2048  # side of the matrices that measure the rate of products
FLOATS = 2**26  # of the array that measures the bandwidth: 256 MB, larger than any cache
ROUNDS = 2 * 10**5  # of small products in 8 bits: a tenth of a second
TRIES = 4  # the best of them counts
BYTES = {"float32": 4, "int8": 1}  # of a weight

Rates = dict[str, float]  # operations a second in each precision, and "bytes" a second


def shortest(work: Callable[[], object]) -> float:
    """Seconds of the fastest try."""
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def gemm(precision: str) -> float:
    """Operations a second of one large product of matrices, in float32, bfloat16 or int8: what nobody can pass."""
    a, b = torch.randn(CUBE, CUBE), torch.randn(CUBE, CUBE)
    if precision != "int8":
        kind = getattr(torch, precision)
        a, b = a.to(kind), b.to(kind)
        return 2 * CUBE**3 / shortest(lambda: torch.mm(a, b))
    return dots(torch.get_num_threads()) if is_built() else gemm("float32")


def dots(threads: int) -> float:
    """Operations a second of 8-bit products whose numbers are all in the nearest cache, by so many threads."""
    with ThreadPoolExecutor(threads) as pool:
        seconds = shortest(lambda: list(pool.map(multiply, [ROUNDS] * threads)))
    return threads * multiply(1) * ROUNDS / seconds


def bandwidth() -> float:
    """Bytes a second at which this process reads memory, by the sum of an array that no cache holds."""
    array = torch.ones(FLOATS)
    return 4 * FLOATS / shortest(array.sum)


def rates(threads: int, precisions: Iterable[str]) -> Rates:
    """What so many threads can do at most."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = {**{precision: gemm(precision) for precision in precisions}, "bytes": bandwidth()}
    torch.set_num_threads(before)
    return found


def least(weights: int, rows: int, precision: str, most: Rates) -> float:
    """Seconds of a step at least: each weight is read from memory once, and multiplied by each of the rows."""
    return max(2 * rows * weights / most[precision], BYTES[precision] * weights / most["bytes"])


def cpu() -> str:
    """The processor's name."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def facts() -> str:
    """One line: the processor, what it can, and with what."""
    return f"{cpu()} ({torch.backends.cpu.get_cpu_capability()}), torch {torch.__version__}"
