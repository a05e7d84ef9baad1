"""Commands that are killed at any moment: nothing is half-written, nothing runs on, and the same command again ends as
if it had never been killed, to the last bit."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from attack.harness import SEED, count, record, run
from attack.test_commands import RECIPE, SMALL
from kit import some_pairs, write_tsv
from processes import CONTEXT
from qkv import folder
from qkv.files import digest

pytestmark = pytest.mark.attack
AT_MOST = 4  # kills in a row of one command
STEPS = 12
TRAIN = ["train", "pairs.tsv", "--recipe", "tiny.toml", "--out", "out"]
KINDS: dict[str, list[str]] = {
    "train": TRAIN,
    "prepare": [*TRAIN, "--steps", "1"],
    "ranks": [*TRAIN, "--ranks", "2"],
    "compare": ["compare", "tiny.toml", "--vary=position=none,learned", "--beam", "1", "--out", "out"],
    "quantize": ["quantize", "model"],
    "export": ["export", "model", "--to", "huggingface", "--out", "out"],
}
WRITTEN = (".safetensors", ".qkv", ".toml")  # what a killed command must end with, checkpoints too


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a recipe, and a model of it."""
    place = tmp_path_factory.mktemp("ground")
    write_tsv(place / "pairs.tsv", some_pairs(400))
    settings = {**SMALL, "training.steps": STEPS, "training.checkpoint_steps": 3, "training.accumulate": 2}
    (place / "tiny.toml").write_text(RECIPE + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    assert finish(start(place, "model", *TRAIN[:-1], "model")) == 0, (place / "model.said").read_text()
    (place / "model" / "int8.qkv").unlink(missing_ok=True)
    return place


def start(place: Path, name: str, *given: str) -> CONTEXT.Process:  # type: ignore[name-defined]
    out, said = place / f"{name}.out", place / f"{name}.said"
    process = CONTEXT.Process(target=run, args=(place, given, out, said, "/dev/null"))
    process.start()
    return process


def finish(process: CONTEXT.Process) -> int | None:  # type: ignore[name-defined]
    process.join(600)
    return process.exitcode


def left_of(session: int) -> list[psutil.Process]:
    """The processes of a command that was killed; each began in its session."""
    found = []
    for one in psutil.process_iter():
        try:
            if os.getsid(one.pid) == session and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def ends(place: Path) -> dict[str, str]:
    """The files that a command has written, with their digests."""
    paths = [path for path in place.rglob("*") if path.suffix in WRITTEN and path.name != "tiny.toml"]
    return {str(path.relative_to(place)): digest(path) for path in paths}


def waits(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment(kind: str, ground: Path, tmp_path: Path) -> None:
    given, rng, faults = KINDS[kind], random.Random(f"{SEED} {kind}"), list[str]()
    whole = shutil.copytree(ground, tmp_path / "whole")
    began = time.monotonic()
    assert finish(start(whole, "whole", *given)) == 0, (whole / "whole.said").read_text()
    took, expected, left = time.monotonic() - began, ends(whole), -(-count("kills") // len(KINDS))
    while left > 0:
        place = shutil.copytree(ground, tmp_path / "place")
        for _ in range(min(left, rng.randint(1, AT_MOST))):
            process, moment = start(place, "killed", *given), rng.uniform(0, took)
            process.join(moment)
            is_killed = process.exitcode is None
            if is_killed:
                os.kill(process.pid, signal.SIGKILL)
            process.join()
            fault = "" if waits(lambda session=process.pid: not left_of(session)) else "runs on"  # type: ignore[misc]
            try:
                folder.load(place / "model")
            except ValueError as error:
                fault = str(error)
            if is_killed:
                left -= 1
                record("kills", {"given": f"{kind} after {moment:.2f} of {took:.2f} s", "fault": fault})
            faults += [f"{kind} after {moment:.2f} s: {fault}"] if fault else []
        code = finish(start(place, "again", *given))
        said = (place / "again.said").read_text()
        found = ends(place)
        wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        if code != 0 or wrong or list(place.rglob("*.part")):
            fault = f"{kind} again: {code}, {wrong}, {[str(one) for one in place.rglob('*.part')]}: {said[-300:]}"
            record("kills", {"given": f"{kind} again", "fault": fault, "is_end": True})
            faults.append(fault)
        shutil.rmtree(place)
    assert not faults, "\n".join(faults)
