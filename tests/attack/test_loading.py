"""The time to load a model of random weights, with and without its checksum, each in a process of its own."""

import json
import resource
import time
from pathlib import Path

import pytest
import torch

from attack.harness import count, record
from processes import CONTEXT
from qkv import folder, weights
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import Tokenizer

pytestmark = pytest.mark.attack
ROUNDS = 3
LAYER = 4 * 29_000_000  # bytes of width 1024, an encoder's and a decoder's
WIDE = {"d_model": 1024, "d_ff": 4096, "n_heads": 16}


def make(place: Path, megabytes: int) -> None:
    words = Tokenizer.train(["the cat sat on the mat"] * 3, vocab_size=300)
    layers = max(1, megabytes * 2**20 // LAYER)
    torch.manual_seed(1)
    config = TransformerConfig(vocab_size=len(words), encoder_layers=layers, decoder_layers=layers, **WIDE)
    folder.save(place, Transformer(config), words, {"source": "en", "target": "de"})


def load(place: Path, is_checked: bool, found: Path) -> None:
    """In a process of its own: the seconds that pass, those of the processor, and the most bytes held."""
    if not is_checked:
        weights.DIGEST = "none"  # a name that no header has
    wall, cpu = time.perf_counter(), time.process_time()
    folder.load(place)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    found.write_text(json.dumps([*spent, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))


def test_loading(tmp_path: Path) -> None:
    """The file is in the page cache; of several rounds the best is told."""
    place, found = tmp_path / "model", tmp_path / "found"
    make(place, count("loading"))
    size = (place / "model.safetensors").stat().st_size
    for given, is_checked in (("with", True), ("without", False)):
        rounds = []
        for _ in range(ROUNDS):
            process = CONTEXT.Process(target=load, args=(place, is_checked, found))
            process.start()
            process.join()
            assert process.exitcode == 0
            rounds.append(json.loads(found.read_text()))
        wall, cpu, most = (min(some) for some in zip(*rounds, strict=True))
        record("loading", {"given": given, "fault": "", "size": size, "wall": wall, "cpu": cpu, "bytes": most})
