"""The memory of this process: how much it has used, and that what is freed is used again."""

import ctypes
import os
import sys
from pathlib import Path

from qkv.errors import InputError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # malloc.h


def peak_memory() -> int | None:
    """Bytes: of the GPU where there is one, else of this process so far; None where the system does not tell."""
    import torch

    if torch.cuda.is_available() and (most := torch.cuda.max_memory_allocated()):
        return most
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    if line := next((line for line in lines if line.startswith("VmHWM:")), None):
        return 1024 * int(line.split()[1])  # Linux, whose getrusage counts what the parent had before this process
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def all_memory() -> int:
    """Bytes that this machine has in all; a very large number where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 2**63


def address_space() -> int:
    """Bytes that this process may map, as `ulimit -v` sets them; a very large number where there is no such limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 2**63
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return 2**63 if most == resource.RLIM_INFINITY else most


def check_addresses(least: int, who: str) -> None:
    """Refuse to begin with so few that it would abort somewhere, or leave an import's traceback."""
    if (most := address_space()) < least:
        raise InputError(
            f"this process may map {most / 2**20:,.0f} MB (ulimit -v), and {who} needs {least / 2**20:,.0f} to start; "
            "raise that limit"
        )


def keep_freed_memory() -> None:
    """Tell glibc to use freed memory again instead of giving it back: each step of a model needs the same large blocks.

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
