"""Several processes that train one model: the weights of one process, whatever their number, and if one dies."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from kit import write_tsv
from processes import finish, share, start_each, start_ranks, together
from qkv.config import merge
from qkv.data import Buckets, Mixture, Place, RowsInMemory, Stream, Windows
from qkv.errors import InputError
from qkv.training.ranks import ALONE, Ranks
from qkv.training.settings import TrainingConfig

TEXT = "two dogs play in the snow and a man rides a red bicycle over the hill . " * 60


def train(count: int, out: Path, *files: Path, **settings: Any) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint, and the kept model, of a run of so many ranks."""
    processes = start_ranks(count, *files, out=out, **settings)
    assert [finish(process) for process in processes] == [0] * count
    return tensors(out)


def tensors(out: Path) -> dict[str, torch.Tensor]:
    newest = max((out / "training" / "checkpoints").glob("step-*"))
    files = {
        "now": newest / "model.safetensors",
        "state": newest / "training.safetensors",
        "kept": out / "model.safetensors",
    }
    return {f"{kind} {name}": value for kind, path in files.items() for name, value in load_file(path).items()}


def figures(out: Path) -> list[dict[str, Any]]:
    """What each validation has found."""
    events = map(json.loads, (out / "training" / "log.jsonl").read_text().splitlines())
    told = ("peak_memory", "time")
    return [{k: v for k, v in one.items() if k not in told} for one in events if one["event"] == "valid"]


def different(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> list[str]:
    assert some.keys() == others.keys()
    return [name for name in some if not torch.equal(some[name], others[name])]


@pytest.fixture(scope="module")
def asked(small: dict[str, Any]) -> dict[str, Any]:
    """Everything random takes part: dropout, averages; two batches in each step."""
    training = {"steps": 16, "accumulate": 2, "validate_every": 8, "bleu_sentences": 2}
    return merge(small, {"data": {"batch_tokens": 200}, "training": training})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> Path:
    return write_tsv(tmp_path_factory.mktemp("corpus") / "pairs.tsv", pairs)


def test_ranks_that_each_keep_a_share_of_the_model_end_in_the_weights_of_one(
    corpus: Path, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Also when they stop and go on. Their sums are rounded in another order."""
    alone = train(1, tmp_path / "alone", corpus, **asked)
    shared = merge(asked, {"training": {"shard": True}})
    train(2, tmp_path / "shares", corpus, **merge(shared, {"training": {"steps": 8}}))
    both = train(2, tmp_path / "shares", corpus, **shared)
    assert both.keys() == alone.keys()
    far = {name: float((both[name] - alone[name]).abs().max()) for name in alone}
    assert max(far.values()) < 1e-4, max(far.items(), key=lambda pair: pair[1])
    assert figures(tmp_path / "shares")[-1]["loss"] == pytest.approx(figures(tmp_path / "alone")[-1]["loss"], abs=1e-4)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_ranks_end_in_the_weights_of_one_to_the_bit(
    corpus: Path, asked: dict[str, Any], optimizer: str, tmp_path: Path
) -> None:
    settings = merge(asked, {"training": {"optimizer": optimizer}})
    alone, both = (train(count, tmp_path / str(count), corpus, **settings) for count in (1, 2))
    assert different(alone, both) == []
    assert len(alone) > 70
    validations = [figures(tmp_path / str(count)) for count in (1, 2)]
    assert validations[0] == validations[1]
    assert {"loss", "bleu"} < validations[0][-1].keys()


TASKS: dict[str, Any] = {
    "language_model": {"architecture": "gpt2", "data": {"window": 16}},
    "fill": {"architecture": "bert", "data": {"window": 16}},
    "classify": {"architecture": "bert", "data": {"max_length": 16}},
}


@pytest.mark.parametrize("task", TASKS)
def test_so_do_those_of_other_tasks(task: str, tmp_path: Path) -> None:
    lines = [f"{('good', 'bad')[i % 2]}\t{TEXT[i : i + 40].strip()}\n" for i in range(60)]
    file = tmp_path / ("texts.tsv" if task == "classify" else "text.txt")
    file.write_text("".join(lines) if task == "classify" else TEXT)
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "layers": 1, "dropout": 0.2, "max_length": 16}
    training = {"steps": 10, "accumulate": 2, "threads": 1, "precision": "float32", "validate_every": 5}
    shared = {"task": task, "model": sizes, "data": {"vocab_size": 300, "batch_tokens": 64}, "training": training}
    settings = merge(shared, TASKS[task])
    alone, both = (train(count, tmp_path / str(count), file, **settings) for count in (1, 2))
    assert different(alone, both) == []
    assert figures(tmp_path / "1") == figures(tmp_path / "2") != []


def test_three_ranks_differ_by_rounding_alone(corpus: Path, asked: dict[str, Any], tmp_path: Path) -> None:
    settings = merge(asked, {"training": {"accumulate": 3, "steps": 8}})
    alone, three = (train(count, tmp_path / str(count), corpus, **settings) for count in (1, 3))
    for name, value in alone.items():
        assert torch.allclose(value.float(), three[name].float(), atol=1e-5), name


def test_a_run_goes_on_with_another_number_of_ranks(corpus: Path, asked: dict[str, Any], tmp_path: Path) -> None:
    whole = train(1, tmp_path / "whole", corpus, **asked)
    for first, then in ((2, 1), (1, 2)):
        out = tmp_path / f"{first}-{then}"
        train(first, out, corpus, **merge(asked, {"training": {"steps": 9}}))
        assert different(train(then, out, corpus, **asked), whole) == []


def test_work_is_shared_out_and_all_have_all_of_it(tmp_path: Path) -> None:
    assert [finish(process) for process in start_each(3, together, share, tmp_path)] == [0] * 3
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(3)]
    assert [computed for computed, _, _ in found] == [[0, 3, 0], [1, 4], [2]]
    (tmp_path / "alone").mkdir()
    share(ALONE, tmp_path / "alone")
    _, every, same = json.loads((tmp_path / "alone" / "0.json").read_text())
    assert [rest for _, *rest in found] == [[every, same]] * 3
    assert same == [True, True]


def streams(seed: int) -> list[Stream]:
    rows = RowsInMemory([[list(range(5, 6 + i % 7)), [5] * (1 + i % 3)] for i in range(40)])
    text = RowsInMemory([[[*range(5, 205)]]])
    buckets = Buckets(rows, tokens=16, seed=seed, sizes=(0, 1))
    windows = Windows(text, length=9, batch=2, seed=seed)
    return [buckets, windows, Mixture([buckets, windows], seed=seed)]


@given(st.integers(0, 2), st.integers(1, 5), st.integers(0, 3), st.integers(0, 30))
def test_ranks_share_out_every_batch_once_in_one_order(kind: int, count: int, epoch: int, begin: int) -> None:
    stream = streams(3)[kind]
    place, number = Place(epoch, begin % stream.count(epoch)), 4 * count + 3
    whole = list(islice(stream.stream(place), number))
    shares = [stream.stream(place, first=first, every=count) for first in range(count)]
    for i, (batch, after) in enumerate(whole):
        own, own_after = next(shares[i % count])
        assert own_after == after == stream.after(place, i + 1)
        assert own.rows.tolist() == batch.rows.tolist()
        assert (own.part, own.epoch, own.begins) == (batch.part, batch.epoch, batch.begins)


def test_what_ranks_cannot_share_is_refused() -> None:
    with pytest.raises(InputError, match="this is one process; start more, with --ranks or torchrun"):
        ALONE.check(torch.nn.Linear(1, 1), streams(1)[0], 1, shard=True)
    for other in ({"optimizer": "muon"}, {"unfreeze": 1.0}, {"groups": ["heads: adam(rate=5e-4)"]}):
        with pytest.raises(ValueError, match="shard goes with adam and adamw"):
            TrainingConfig(shard=True, **other)
    with pytest.raises(InputError, match=r"3 ranks share the batches of a step, and training\.accumulate is 2"):
        Ranks(0, 3).check(torch.nn.Linear(1, 1), streams(1)[0], 2)
    carried = Windows(RowsInMemory([[[*range(5, 205)]]]), length=9, batch=2, seed=1, carry=True)
    for stream in (carried, Mixture([carried, streams(1)[0]], seed=1)):
        with pytest.raises(InputError, match="goes on from window to window"):
            Ranks(0, 2).check(torch.nn.Linear(1, 1), stream, 2)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ONE_HOST = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]


def command(out: Path, corpus: Path, *more: str, accumulate: int = 2, by: Any = (sys.executable,)) -> list[str]:
    return [
        *by, "-m", "qkv", "train", str(corpus), "--from", "en", "--to", "ne", "--out", str(out),
        "--data.vocab-size", "340", "--data.batch-tokens", "100", "--model.d-model", "16", "--model.n-heads", "2",
        "--model.d-ff", "32", "--training.threads", "1", "--training.precision", "float32",
        "--training.accumulate", str(accumulate), "--training.checkpoint-steps", "5", "--training.validate-every", "30",
        "--training.bleu-sentences", "1", "--steps", "30", *more,
    ]  # fmt: skip


def children(process: "subprocess.Popen[str]") -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(number) for number in found]


def saved(out: Path) -> int:
    return len(list((out / "training" / "checkpoints").glob("step-*")))


def wait_for(process: "subprocess.Popen[str]", condition: Any) -> None:
    until = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    out = tmp_path_factory.mktemp("undisturbed") / "m"
    assert subprocess.run(command(out, corpus), capture_output=True, timeout=240).returncode == 0
    return tensors(out)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks of a command in /proc")
@pytest.mark.parametrize("by", ["--ranks", "torchrun"])
def test_a_rank_that_is_killed_comes_back_and_all_ends_the_same(
    corpus: Path, undisturbed: dict[str, torch.Tensor], by: str, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    asked = command(out, corpus, "--ranks", "2")
    if by == "torchrun":
        asked = command(out, corpus, by=[*TORCHRUN, *ONE_HOST])
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True)
    wait_for(process, lambda: saved(out) > 0)
    os.kill(children(process)[1], signal.SIGKILL)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert ("a rank has died (SIGKILL): beginning again from the newest checkpoint" in said) == (by == "--ranks")
    assert "Traceback" not in said
    assert "going on from step" in said
    assert different(undisturbed, tensors(out)) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks of a command in /proc")
def test_sigterm_saves_once_and_the_same_command_goes_on(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    process = subprocess.Popen(command(out, corpus, "--ranks", "2"), stderr=subprocess.PIPE, text=True)
    wait_for(process, lambda: saved(out) > 0)
    process.terminate()
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in said
    again = subprocess.run(command(out, corpus, "--ranks", "2"), capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    assert "going on from step" in again.stderr


def test_a_refusal_is_said_once(corpus: Path, tmp_path: Path) -> None:
    asked = command(tmp_path / "m", corpus, "--ranks", "2", accumulate=3)
    done = subprocess.run(asked, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert done.stderr.count("2 ranks share the batches of a step, and training.accumulate is 3") == 1
    assert "Traceback" not in done.stderr
    assert "another rank" not in done.stderr
