"""Checkpoints: model folders that also hold all that a run needs to go on exactly as if it had never stopped."""

import errno
import hashlib
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from qkv.errors import InputError
from qkv.files import digest, read_json, remove, replacing, write_json
from qkv.folder import RunFolder
from qkv.weights import load_weights, save_weights

PROOF = "training.json"  # written last; it names every other file and its digest
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # ways in which a disk has no room


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood: its weights, the tensors of optimiser and average, and its counters."""

    weights: dict[str, Tensor]
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(
    folder: Path, step: int, save_model: Callable[[Path], None], tensors: dict[str, Tensor], state: dict[str, Any]
) -> Path:
    """Write folder/step-N whole, or leave everything as it was."""
    final = folder / f"step-{step:08d}"
    with replacing(final) as temporary:
        temporary.mkdir()
        save_model(temporary)
        save_weights(temporary / "training.safetensors", {name: value.contiguous() for name, value in tensors.items()})
        digests = {path.name: digest(path, "blake2b") for path in sorted(temporary.iterdir())}
        write_json(temporary / PROOF, {"state": state, "digests": digests, "seal": seal(state, digests)})
    return final


def newest(folder: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; damaged ones are named and passed over. None if there never was one."""
    paths = existing(folder)
    for path in reversed(paths):
        try:
            return load(path)
        except InputError as error:
            say(f"{error} Going back to the one before it.")
    if not paths:
        return None
    cure = "copy one back from elsewhere, or give --restart to begin anew"
    raise InputError(f"no checkpoint in {folder} is whole; {cure}")


def load(path: Path) -> Checkpoint:
    try:
        proof = read_json(path / PROOF)
        state, digests = dict(proof["state"]), dict(proof["digests"])
        damaged = [name for name, expected in digests.items() if digest(path / name, "blake2b") != expected]
        damaged += [PROOF] if proof["seal"] != seal(state, digests) else []
    except (OSError, ValueError, KeyError, TypeError):
        damaged = [PROOF]
    if damaged:
        raise InputError(f"The checkpoint {path} is damaged ({', '.join(damaged)} is not as it was written).")
    return Checkpoint(load_weights(path / "model.safetensors"), load_weights(path / "training.safetensors"), state)


def existing(folder: Path) -> list[Path]:
    """Checkpoints by step, oldest first; unfinished ones have other names and are not among them."""
    found = folder.glob("step-*") if folder.is_dir() else []
    return sorted(found, key=lambda path: (path.name.removesuffix(".old"), path.suffix != ".old"))


def tidy(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep`, and what a killed run left half-written."""
    for path in existing(folder)[:-keep]:
        remove(path)
    for path in folder.glob(".step-*.part"):
        remove(path)


def seal(state: dict[str, Any], digests: dict[str, str]) -> str:
    """The digest of what the proof itself says."""
    return hashlib.blake2b(json.dumps([state, digests], sort_keys=True).encode()).hexdigest()


@contextmanager
def explained(out: Path) -> Iterator[None]:
    """A disk that is full or cannot be written ends a run with one sentence, which says what is safe."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        said = re.search(r"os error (\d+)", str(error))  # safetensors tells the number in its text only
        number = error.errno if isinstance(error, OSError) else int(said[1]) if said else None
        saved = existing(RunFolder(out).checkpoints)
        safe = f"the checkpoint of step {int(saved[-1].name[5:13])} is whole; " if saved else ""
        cure = "free some space" if number in FULL else "put that right"
        raise InputError(
            f"could not write to {out}: {os.strerror(number) if number else error}; "
            f"{safe}{cure} and give the same command again"
        ) from None


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM wait for the step to end, so that a checkpoint can be written; a second one does not wait."""
    asked: list[int] = []

    def ask(number: int, _: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    try:
        old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # only the main thread may listen to signals
        old = {}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
