"""Where to compute, and how exactly: the device and its number format."""

import torch

from qkv.errors import InputError


def choose_device(name: str, otherwise: str = "--device auto") -> torch.device:
    """The device of that name, "auto" for the best there is; if there is none, the error says what to use."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" holds no numbers
    except (RuntimeError, AssertionError):
        raise InputError(f"there is no device {name!r} on this machine; use {otherwise}") from None
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
