"""Memory: what is kept of a forward pass, what is given back to the system, what is reported."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from qkv.layers import Stack
from qkv.memory import peak_memory
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import Asked, Translation

SIZES = {"d_model": 32, "d_ff": 64, "n_heads": 4, "encoder_layers": 3, "decoder_layers": 3, "dropout": 0.3}


def gradients(recompute: bool) -> tuple[float, list[torch.Tensor], int]:
    """The loss, the gradients, and the bytes that the graph has kept for the backward pass."""
    torch.manual_seed(1)
    model, objective, kept = Transformer(TransformerConfig(vocab_size=50, **SIZES)).train(), Translation(), [0]
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = recompute
    src, tgt = torch.randint(4, 50, (8, 12)), torch.randint(4, 50, (8, 11))

    def count(tensor: torch.Tensor) -> torch.Tensor:
        kept[0] += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        asked = Asked({"src": src, "tgt": tgt[:, :-1]}, tgt[:, 1:], 1)
        loss = objective.loss(model(**asked.inputs), asked).total
    during = kept[0]
    loss.backward()
    return loss.item(), [parameter.grad for parameter in model.parameters()], during


def test_recomputed_blocks_have_the_same_gradients_and_keep_less() -> None:
    """Bit for bit: dropout draws the same masks when a block is computed again."""
    loss, expected, whole = gradients(recompute=False)
    again, found, less = gradients(recompute=True)
    assert again == loss
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert less < whole / 3


FAULTS = """
import resource, sys, torch
if sys.argv[1] == "keep":
    from qkv.memory import keep_freed_memory
    keep_freed_memory()
def step():
    for _ in range(3):
        torch.ones(2**23).add_(1)   # 32 MB, freed at once
for _ in range(5):
    step()                          # until the heap has found its shape
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is told to keep memory")
def test_freed_memory_is_used_again() -> None:
    faults = {
        how: int(subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True).stdout)
        for how in ("keep", "give")
    }
    assert faults["keep"] < faults["give"] / 10


def test_the_peak_grows_with_what_is_held() -> None:
    before = peak_memory()
    assert before is not None
    held = torch.ones(2**26 + before // 8)  # 256 MB and half as much again as the peak so far: surely a new one
    after = peak_memory()
    assert after is not None
    assert after - before > 2**27
    del held


def test_a_system_that_tells_no_peak_in_its_status_is_asked_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resource")
    monkeypatch.setattr(Path, "read_text", lambda _: "VmRSS:\t1 kB\n")  # as within gVisor
    peak = peak_memory()
    assert peak is not None
    assert peak > 2**26
