"""Where to compute, how exactly and in which memory: the device, its number format, what was used of it."""

import ctypes
import sys
from pathlib import Path

import torch

from qkv.errors import InputError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # malloc.h


def choose_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise InputError(f"there is no device {name!r} on this machine; use --device auto") from None
    return device


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """bfloat16 where the device has instructions for it, float32 elsewhere; weights and sums stay float32 always."""
    if name != "auto":
        return torch.bfloat16 if name == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    capable: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.6 cannot tell
    has_bfloat16 = device.type == "cpu" and (capable.get("avx512_bf16") or capable.get("amx_bf16"))
    return torch.bfloat16 if has_bfloat16 else torch.float32


def peak_memory() -> int | None:
    """Bytes: of the GPU where there is one, else of this process so far; None where the system does not tell."""
    if torch.cuda.is_available() and (most := torch.cuda.max_memory_allocated()):
        return most
    status = Path("/proc/self/status")
    if status.exists():  # Linux, whose getrusage counts what the parent had before this process began
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def keep_freed_memory() -> None:
    """Tell glibc to use freed memory again instead of giving it back: each step needs the same large blocks.

    Otherwise every one of them is mapped anew and its pages are zeroed by the system, some 10,000 in a small step.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**26)):
        mallopt(option, value)
