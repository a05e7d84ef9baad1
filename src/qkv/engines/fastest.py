"""--engine auto: the engines that a model folder has are timed once on this machine, and the fastest is remembered."""

import platform
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from qkv.convert.export import read_note
from qkv.decoding.engine import Engine, Search
from qkv.decoding.translator import longest_targets
from qkv.errors import InputError
from qkv.files import write_json
from qkv.folder import Loaded
from qkv.text.tokenizer import UNK

FILE = "engine.json"
SENTENCES, TOKENS = 16, 12  # of the trial
ROUNDS = 3  # the best of them counts


def fastest(path: Path, loaded: Loaded, candidates: dict[str, Callable[[], Engine]]) -> Engine:
    """Open each candidate, decode the same sentences with it, and keep the fastest; say which one and why."""
    vectors = torch.backends.cpu.get_cpu_capability()
    machine = f"{platform.node()} {platform.machine()} {vectors} {torch.__version__}"
    about, kept = {"machine": machine, "candidates": sorted(candidates)}, read_note(path / FILE)
    if {key: kept.get(key) for key in about} == about and kept.get("engine") in candidates:
        with suppress(InputError):  # the model was trained on since then, or its 8 bits are damaged
            return candidates[kept["engine"]]()
    rng = random.Random(1)
    sources = [rng.choices(range(UNK + 1, len(loaded.tokenizer)), k=TOKENS) for _ in range(SENTENCES)]
    limits = longest_targets(sources, loaded.model.config.max_length)
    engines, speeds = dict[str, Engine](), dict[str, float]()
    for name, open_ in candidates.items():
        try:
            engines[name] = open_()
        except InputError as error:
            print(f"engine {name} is left out: {error}", file=sys.stderr)
            continue
        speeds[name] = max(speed(engines[name], sources, limits) for _ in range(ROUNDS))
    best = max(speeds, key=lambda name: speeds[name])
    said = ", ".join(f"{name} {value:,.0f}" for name, value in sorted(speeds.items(), key=lambda item: -item[1]))
    print(f"engine {best} is the fastest here (tokens/s: {said})", file=sys.stderr)
    with suppress(OSError):  # a folder that cannot be written to is measured each time
        write_json(path / FILE, {**about, "engine": best, "tokens_per_second": speeds})
    return engines[best]


def speed(engine: Engine, sources: list[list[int]], limits: list[int]) -> float:
    """Target tokens a second in beam search."""
    began = time.perf_counter()
    found = engine.decode(sources, limits, Search())
    return sum(len(some[0].tokens) + 1 for some in found) / (time.perf_counter() - began)
