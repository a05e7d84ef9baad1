"""The command line as a person uses it: in this process where that will do, in a shell's process where it matters."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from kit import DIGITS, Pairs, Result, run_command, write_tsv

FLAGS = (
    "--from num --to en --model.d-model 32 --model.d-ff 64 --model.n-heads 4 --model.encoder-layers 1 "
    "--model.decoder-layers 1 --model.dropout 0 --data.vocab-size 310 --data.batch-tokens 256 "
    "--training.learning-rate 0.01 --training.schedule cosine(warmup=20) --training.average running(decay=0.9) "
    "--training.precision float32 --training.bleu-sentences 10 --training.threads 1"
)
SMALL = FLAGS.split()
Run = Callable[..., Result]

ERRORS = Path(__file__).parents[2] / "docs" / "errors.md"
PAGE = """# Mistakes, and what qkv says

A mistake ends in one sentence on standard error: what was given, what was expected, what to do. The exit code is 1, or
2 where the command line itself could not be read, or 130 after Ctrl-C. This page is written by the tests from what they
saw: `QKV_WRITE_DOCS=1 pytest tests/cli`.

| mistake | for example | what qkv says |
|---|---|---|
"""


@pytest.fixture
def qkv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The fixture `command` by another name, since many tests here are given command lines called so."""
    monkeypatch.chdir(tmp_path)
    return partial(run_command, monkeypatch)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """One thread, and output that no terminal's width or colour changes."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> Run:
    """The same as a process of its own, which is what a person starts."""

    def run(*arguments: object, stdin: str | bytes = b"", limit: Callable[[], None] | None = None) -> Result:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        command = [sys.executable, "-m", "qkv", *map(str, arguments)]
        done = subprocess.run(
            command, input=given, capture_output=True, cwd=tmp_path, env=environment, timeout=600, preexec_fn=limit
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def some_pairs(count: int) -> Pairs:
    """An invented language with one right answer: "3 1 4" -> "three one four"."""
    rng = random.Random(1)
    sources: dict[tuple[int, ...], None] = {}
    while len(sources) < count:
        sources[tuple(rng.choices(range(10), k=rng.randint(1, 4)))] = None
    return [(" ".join(map(str, digits)), " ".join(DIGITS[digit] for digit in digits)) for digits in sources]


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    return some_pairs(400)


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Flags of a model that trains in seconds."""
    return SMALL


@dataclass(frozen=True)
class Trained:
    """A model folder that `qkv train` wrote, how it was asked for, and what it printed."""

    folder: Path
    command: list[str]
    result: Result


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, environment: dict[str, str]) -> Trained:
    """One real model, by the real command, for all tests; those that spoil it take a copy."""
    place = tmp_path_factory.mktemp("trained")
    tsv = write_tsv(place / "numbers.tsv", pairs)
    command = ["train", str(tsv), "--out", str(place / "model"), *SMALL]
    command += ["--steps", "300", "--training.validate-every", "60"]
    done = subprocess.run([sys.executable, "-m", "qkv", *command], capture_output=True, env=environment, timeout=600)
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert result.code == 0, result.err
    return Trained(place / "model", command, result)


@pytest.fixture(scope="session")
def model(trained: Trained) -> Path:
    return trained.folder


@pytest.fixture(scope="session")
def errors_page() -> Iterator[dict[str, tuple[str, str]]]:
    """Mistake -> (command, sentence), as they were seen; with QKV_WRITE_DOCS=1, docs/errors.md is written from it."""
    seen: dict[str, tuple[str, str]] = {}
    yield seen
    if os.environ.get("QKV_WRITE_DOCS"):
        rows = [f"| {name} | `{command}` | {sentence} |\n" for name, (command, sentence) in seen.items()]
        ERRORS.parent.mkdir(exist_ok=True)
        ERRORS.write_text(PAGE + "".join(rows), encoding="utf-8")


@pytest.fixture(scope="session")
def errors_in_docs() -> dict[str, str]:
    """Mistake -> sentence, as docs/errors.md has them."""
    lines = ERRORS.read_text(encoding="utf-8").splitlines() if ERRORS.exists() else []
    rows = [line.strip("| ").split(" | ", 2) for line in lines if line.startswith("| ")]
    return {name: sentence for name, _, sentence in rows}
