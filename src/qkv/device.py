"""Where to compute, and how exactly: the device and its number format."""

from typing import TYPE_CHECKING

from qkv.errors import InputError

if TYPE_CHECKING:
    import torch

ENGINE = "auto"  # what searches and reads, by a name of engines.ENGINES, unless another is asked for


def device_name(name: str) -> str:
    """The device of that name, if there is one; the processor is always there, and torch need not be asked for it."""
    return name if name == "cpu" else str(choose_device(name, "cpu"))


def choose_device(name: str, otherwise: str = "--device auto") -> "torch.device":
    """The device of that name, "auto" for the best there is; if there is none, the error says what to use."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # "meta" holds no numbers
    except (RuntimeError, AssertionError):
        raise InputError(f"there is no device {name!r} on this machine; use {otherwise}") from None
    return device


def choose_precision(name: str, device: "torch.device") -> "torch.dtype":
    """bfloat16 where the device has instructions for it, float32 elsewhere; weights and sums stay float32 always."""
    import torch

    if name != "auto":
        return torch.bfloat16 if name == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    capable: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.6 cannot tell
    has_bfloat16 = device.type == "cpu" and (capable.get("avx512_bf16") or capable.get("amx_bf16"))
    return torch.bfloat16 if has_bfloat16 else torch.float32
