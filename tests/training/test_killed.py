"""A run that is killed again and again and goes on each time ends with the very bits of one that was never stopped."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import qkv
from corpora import CORPORA
from kit import same, write_tsv
from processes import CONTEXT, finish
from qkv.config import merge

Start = Callable[[Path], Any]


@pytest.fixture(scope="module", params=["float32"])
def start(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], small: dict[str, Any],
    request: pytest.FixtureRequest,
) -> Start:  # fmt: skip
    """Starts a run as its own process; the same one for each folder that it is given."""
    tsv = write_tsv(tmp_path_factory.mktemp("corpus") / "pairs.tsv", pairs)
    settings = merge(small, {"training": {"precision": request.param}})

    def begin(out: Path) -> Any:
        process = CONTEXT.Process(target=qkv.train, args=(tsv,), kwargs={"out": out, "quiet": True, **settings})
        process.start()
        return process

    return begin


@pytest.fixture(scope="module")
def reference(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was never stopped."""
    out = tmp_path_factory.mktemp("reference") / "model"
    assert finish(start(out)) == 0
    return out


def steps(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "training" / "checkpoints").glob("step-*"))


def wait_until(process: Any, condition: Callable[[], object]) -> None:
    """Look often; end at once if the run ends."""
    while process.is_alive() and not condition():
        time.sleep(0.001)


def kill(process: Any) -> bool:
    """SIGKILL, which no program can answer; whether it came in time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    return finish(process) == -signal.SIGKILL


def half_written(folder: Path) -> bool:
    """Is a file or folder being written right now?"""
    return any(folder.glob(".*.part")) if folder.is_dir() else False


def kill_again_and_again(start: Start, out: Path, rng: random.Random, times: int) -> int:
    """Each time after some progress, at a random moment; every other time while something is being written."""
    killed = 0
    for number in range(times):
        process, before = start(out), steps(out)
        if number == 0:  # while files are read and encoded, as likely as not
            time.sleep(rng.uniform(0, 0.4))
        elif number % 3 == 0:
            wait_until(process, lambda: half_written(out))
        elif number % 3 == 1:
            wait_until(process, lambda: half_written(out / "training" / "checkpoints"))
        else:
            wait_until(process, lambda before=before: steps(out) != before)  # type: ignore[misc]
            time.sleep(rng.uniform(0, 0.1))
        killed += kill(process)
    return killed


def state_of(out: Path) -> tuple[list[str], dict[str, torch.Tensor], dict[str, Any]]:
    """Which checkpoints there are, every tensor of the newest and of the model, and all counters but the clock."""
    newest = out / "training" / "checkpoints" / steps(out)[-1]
    files = (newest / "model.safetensors", newest / "training.safetensors", out / "model.safetensors")
    tensors = {f"{path.parent.name[:4]}/{path.name}/{k}": v for path in files for k, v in load_file(path).items()}
    tensors = {name.replace(f"{out.name[:4]}/", "kept/"): value for name, value in tensors.items()}
    state = json.loads((newest / "training.json").read_text())["state"]
    state.pop("seconds")
    return steps(out), tensors, state


def assert_identical(out: Path, reference: Path) -> None:
    (names, tensors, state), (names_too, tensors_too, state_too) = state_of(out), state_of(reference)
    assert names[-1] == names_too[-1]  # being asked to stop writes one more, which may be among those that are kept
    assert state == state_too
    assert tensors.keys() == tensors_too.keys()
    different = [name for name in tensors if not torch.equal(tensors[name], tensors_too[name])]
    assert different == []
    assert len(tensors) > 100  # weights, Adam's two memories and counts, average, kept model


def assert_log_tells_each_step_once(out: Path) -> None:
    events = [json.loads(line) for line in (out / "training" / "log.jsonl").read_text().splitlines()]
    for kind in ("train", "valid"):
        logged = [event["step"] for event in events if event["event"] == kind]
        assert logged == sorted(set(logged))
        assert logged[-1] == 60


def test_killed_at_any_moment_it_ends_the_same_to_the_bit(start: Start, reference: Path, tmp_path: Path) -> None:
    check_killed(start, reference, tmp_path / "killed", times=6)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_ends_cleanly_and_the_rest_is_the_same(
    start: Start, reference: Path, number: signal.Signals, tmp_path: Path
) -> None:
    out = tmp_path / "asked"
    process = start(out)
    wait_until(process, lambda: len(steps(out)) > 1)
    before = steps(out)[-1]
    os.kill(process.pid, number)
    assert finish(process) == 0  # no error, no traceback
    assert before <= steps(out)[-1] < "step-00000060"
    log = [json.loads(line) for line in (out / "training" / "log.jsonl").read_text().splitlines()]
    assert steps(out)[-1] == f"step-{log[-1]['step']:08d}"  # the last step that was made is the one that is saved
    assert finish(start(out)) == 0
    assert_identical(out, reference)
    assert_log_tells_each_step_once(out)


def test_a_finished_run_that_is_started_again_changes_nothing(start: Start, reference: Path, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(reference, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.suffix in (".safetensors", ".json")}
    assert finish(start(out)) == 0
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(("architecture", "task"), [("awd_lstm", "language_model"), ("xlnet", "fill")])
def test_what_windows_hand_on_survives_a_kill(architecture: str, task: str, tmp_path: Path) -> None:
    """Within an epoch each window begins with what the one before it has left; no kill takes that away."""
    tiny, model = CORPORA[task], {"d_model": 16, "max_length": 32, "layers": 1, "dropout": 0.2}
    if architecture == "awd_lstm":
        model = {"d_model": 16, "d_hidden": 12, "layers": 2}
    else:
        model |= {"n_heads": 2, "memory": 20}
    how = tiny.settings(steps=10_000, checkpoint_steps=1, validate_every=500)
    how |= {"task": task, "architecture": architecture, "model": model}
    file, out, whole = tiny.write(tmp_path, count=400), tmp_path / "killed", tmp_path / "straight"
    process = CONTEXT.Process(target=qkv.train, args=(file,), kwargs={"out": out, **how})
    process.start()
    wait_until(process, lambda: (out / "training" / "checkpoints").exists() and steps(out)[-1:] >= ["step-00000003"])
    assert kill(process), "it came too late to prove anything"
    end = int(steps(out)[-1].rpartition("-")[2]) + 3
    qkv.train(out=out, quiet=True, training={"steps": end})
    qkv.train(file, out=whole, **{**how, "training": {**how["training"], "steps": end}})
    (_, tensors, state), (_, tensors_too, state_too) = state_of(out), state_of(whole)
    assert state == state_too
    assert any("carried" in name for name in tensors)
    assert same(tensors, tensors_too)


@pytest.mark.parametrize("start", ["bfloat16"], indirect=True)
def test_killed_in_bfloat16(start: Start, reference: Path, tmp_path: Path) -> None:
    check_killed(start, reference, tmp_path / "killed", times=3)


def check_killed(start: Start, reference: Path, out: Path, times: int) -> None:
    seed = random.randrange(10**6)
    print(f"moments drawn with seed {seed}")
    killed = kill_again_and_again(start, out, random.Random(seed), times)
    assert killed >= 2, "the kills came too late to prove anything"
    assert finish(start(out)) == 0
    assert_identical(out, reference)
    assert steps(out) == steps(reference)
    assert_log_tells_each_step_once(out)
    assert not list(out.rglob("*.part"))
