"""What no flag can cause: a full disk, a locked folder, Ctrl-C, a reader that goes away."""

import fcntl
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kit import write_tsv

Run = Callable[..., Any]
Page = dict[str, tuple[str, str]]
NOBODY = 65534

SENTENCES = {
    "a disk that is full": "could not write to model: File too large; free some space and give the same command again",
    "--out in a locked folder": "locked/model: Permission denied; ",
    "two runs into one folder": "another qkv is training into model; wait for it, or give a new --out",
    "--output in a locked folder": "cannot write locked/out.txt: Permission denied; give --output another place",
    "Ctrl-C while translating": "interrupted",
    "Ctrl-C while training": r"stopped at step \d+, all saved; the same command goes on from here",
}


def the_sentence(result: Any) -> str:
    """The one line that says what was wrong, which is the last."""
    assert result.code == 1
    assert "Traceback" not in result.err
    last: str = result.err.splitlines()[-1]
    assert [line for line in result.err.splitlines() if line.startswith("qkv: ")] == [last]
    return last.removeprefix("qkv: ")


def test_the_page_of_errors_lists_these_too(errors_in_docs: dict[str, str]) -> None:
    for name, sentence in SENTENCES.items():
        assert re.search(sentence, errors_in_docs.get(name, "")), f"{name}: QKV_WRITE_DOCS=1 pytest tests/cli"


def test_a_full_disk_ends_a_run_that_then_goes_on(
    shell: Run, qkv: Run, tmp_path: Path, pairs: list[tuple[str, str]], small: list[str], errors_page: Page
) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    command = ["train", "pairs.tsv", *small, "--steps", "2"]
    most = 32 * 1024  # bytes of one file: the corpus fits, the weights do not

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    sentence = the_sentence(shell(*command, limit=limit))
    assert re.search(SENTENCES["a disk that is full"], sentence)
    assert not (tmp_path / "model" / "model.safetensors").exists()
    assert not list((tmp_path / "model").rglob("*.part"))
    assert qkv(*command).code == 0
    assert (tmp_path / "model" / "model.safetensors").stat().st_size > most
    errors_page["a disk that is full"] = ("qkv train pairs.tsv", sentence)


@contextmanager
def as_a_plain_user() -> Iterator[None]:
    """Root may write everywhere, so that it steps down to a user who may not."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("--out in a locked folder", "train pairs.tsv --steps 1 --out locked/model"),
        ("--output in a locked folder", "translate 7 --model good -o locked/out.txt"),
    ],
)
def test_a_locked_folder_is_named(
    name: str, command: str, qkv: Run, model: Path, tmp_path: Path, pairs: list[tuple[str, str]], errors_page: Page
) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    (tmp_path / "good").mkdir()
    for file in (path for path in model.iterdir() if path.is_file()):
        (tmp_path / "good" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "locked").mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    with as_a_plain_user():
        sentence = the_sentence(qkv(*command.split()))
    assert re.search(SENTENCES[name], sentence)
    assert not list((tmp_path / "locked").iterdir())
    errors_page[name] = (f"qkv {command}", sentence)


def test_two_runs_into_one_folder(qkv: Run, tmp_path: Path, pairs: list[tuple[str, str]], errors_page: Page) -> None:
    write_tsv(tmp_path / "pairs.tsv", pairs)
    (tmp_path / "model").mkdir()
    with (tmp_path / "model" / "training.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sentence = the_sentence(qkv("train", "pairs.tsv", "--steps", "1"))
    assert sentence == SENTENCES["two runs into one folder"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["training.lock"]
    errors_page["two runs into one folder"] = ("qkv train pairs.tsv", sentence)


def interrupted(command: list[str], place: Path, environment: dict[str, str], when: str) -> tuple[int, list[str]]:
    """Start a command, press Ctrl-C at the first line on standard error that has `when`; its exit code and lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "qkv", *command], stderr=subprocess.PIPE, text=True, cwd=place, env=environment
    )
    alarm = threading.Timer(600, process.kill)  # rather a red test than one that never ends
    alarm.start()
    told = []
    assert process.stderr
    for line in process.stderr:
        told.append(line.rstrip("\n"))
        if when in line:
            process.send_signal(signal.SIGINT)
    alarm.cancel()
    return process.wait(), told


def test_ctrl_c_within_an_epoch_saves_and_the_same_command_goes_on(
    tmp_path: Path, environment: dict[str, str], small: list[str], errors_page: Page
) -> None:
    many = [(f"{i // 100} {i % 100}", f"number {i % 100} of {i // 100}") for i in range(3000)]
    write_tsv(tmp_path / "pairs.tsv", many)
    command = ["train", "pairs.tsv", *small, "--epochs", "9"]
    code, told = interrupted(command, tmp_path, environment, "step 1:")
    assert code == 130
    assert "Traceback" not in "".join(told)
    assert re.search(SENTENCES["Ctrl-C while training"], told[-1])
    errors_page["Ctrl-C while training"] = ("qkv train pairs.tsv", told[-1])
    *_, newest = sorted((tmp_path / "model" / "training" / "checkpoints").iterdir())
    state = json.loads((newest / "training.json").read_text())["state"]
    assert state["place"]["epoch"] == 0
    assert state["place"]["batch"] == state["step"] > 0

    code, told = interrupted(command, tmp_path, environment, "limits: ")
    assert code == 130
    assert f"going on from step {state['step']}" in "\n".join(told)


def test_ctrl_c_while_translating(model: Path, tmp_path: Path, environment: dict[str, str], errors_page: Page) -> None:
    """While the engine has two threads at work: one sentence, and nothing half written."""
    (tmp_path / "many.txt").write_text("".join(f"{i % 90} {i % 7}\n" for i in range(200_000)))
    command = [sys.executable, "-m", "qkv", "translate", "many.txt", "-o", "out.txt", "--model", str(model)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, cwd=tmp_path, env={**environment, "OMP_NUM_THREADS": "2"}, text=True
    )
    alarm = threading.Timer(600, process.kill)
    alarm.start()
    while len(list(tmp_path.iterdir())) < 2 and process.poll() is None:  # until it writes
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr
    told = process.stderr.read().splitlines()
    assert process.wait() == 130, told
    alarm.cancel()
    assert told[-1] == "qkv: interrupted"
    assert "Traceback" not in "".join(told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.txt"]
    errors_page["Ctrl-C while translating"] = ("qkv translate many.txt -o out.txt", told[-1].removeprefix("qkv: "))


def test_a_reader_that_goes_away_is_no_error(model: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "many.txt").write_text("7 7\n" * 600)
    command = [sys.executable, "-m", "qkv", "translate", "many.txt", "--beam", "1", "--model", str(model)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment, text=True
    )
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_output_into_a_pipe_leaves_the_pipe_in_place(qkv: Run, model: Path, tmp_path: Path) -> None:
    """A device or a pipe is written to; to put a file in its place would take it from all who use it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    result = qkv("translate", "7", "--model", model, "-o", "pipe")
    assert result.code == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(timeout=60)
    assert received == ["seven\n"]


RANK = (
    "import os, time; from qkv.lifeline import *; leave_with_parent(); print(os.getpid(), flush=True); time.sleep(600)"
)
LAUNCHER = "import sys; from qkv.cli.launch import run_ranks; run_ranks(2, [sys.executable, '-c', sys.argv[1]])"


def test_ranks_end_with_the_process_that_started_them() -> None:
    """Killed, so that it can tell them nothing."""
    process = subprocess.Popen([sys.executable, "-c", LAUNCHER, RANK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ranks = [psutil.Process(int(process.stdout.readline())) for _ in range(2)]
    process.kill()
    assert psutil.wait_procs(ranks, timeout=60)[1] == []
    process.communicate()
