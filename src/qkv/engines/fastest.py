"""--engine auto: the engines that a model folder has are timed once on this machine, and the fastest is remembered."""

import json
import platform
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from qkv.decoding.engine import Engine, Search
from qkv.decoding.translator import longest_targets
from qkv.errors import InputError
from qkv.files import write_json
from qkv.folder import Loaded
from qkv.text.tokenizer import UNK

FILE = "engine.json"
SENTENCES, TOKENS = 16, 12  # of the trial
ROUNDS = 3  # the best of them counts

Open = Callable[[], Engine]


def fastest(path: Path, loaded: Loaded, candidates: dict[str, Open]) -> Engine:
    """Open each candidate, decode the same sentences with it, and keep the fastest; say which one and why."""
    about = {"machine": machine(), "candidates": sorted(candidates)}
    kept = remembered(path / FILE)
    if {key: kept.get(key) for key in about} == about and kept.get("engine") in candidates:
        with suppress(InputError):  # the model was trained on since then, or its 8 bits are damaged
            return candidates[kept["engine"]]()
    rng = random.Random(1)
    sources = [rng.choices(range(UNK + 1, len(loaded.tokenizer)), k=TOKENS) for _ in range(SENTENCES)]
    engines, speeds = dict[str, Engine](), dict[str, float]()
    for name, open_ in candidates.items():
        try:
            engines[name] = open_()
        except InputError as error:
            print(f"engine {name} is left out: {error}", file=sys.stderr)
            continue
        limits = longest_targets(sources, loaded.model.config.max_length)
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


def machine() -> str:
    return f"{platform.node()} {platform.machine()} {torch.backends.cpu.get_cpu_capability()} {torch.__version__}"


def remembered(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
