"""Several processes that train one model: the weights of one process, whatever their number, and if one dies."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from corpora import CORPORA
from kit import tiny_model, write_tsv
from processes import finish, share, start_each, start_ranks, together, train_apart
from qkv.config import merge
from qkv.data import Buckets, Mixture, Place, RowsInMemory, Stream, Windows
from qkv.errors import InputError
from qkv.layers.heads import BatchNorm
from qkv.tasks import TASKS
from qkv.training.ranks import ALONE, Ranks
from qkv.training.settings import TrainingConfig

NOT_ALIKE = "the run's settings and data are not the same on all ranks; give each the same files and the same command"


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


def far(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> float:
    """How far the most different numbers are apart."""
    assert some.keys() == others.keys()
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


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
    assert far(both, alone) < 1e-4
    assert figures(tmp_path / "shares")[-1]["loss"] == pytest.approx(figures(tmp_path / "alone")[-1]["loss"], abs=1e-4)


def test_so_does_a_classifier_that_is_shared_out(tmp_path: Path) -> None:
    tiny = CORPORA["classify"]
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "layers": 1, "dropout": 0.2, "max_length": 64}
    settings = {"task": "classify", "architecture": "bert", **tiny.settings(steps=6, accumulate=2, validate_every=3)}
    settings, file = {**settings, "model": sizes}, tiny.write(tmp_path)
    alone = train(1, tmp_path / "alone", file, **settings)
    both = train(2, tmp_path / "shares", file, **merge(settings, {"training": {"shard": True}}))
    assert far(both, alone) < 1e-4
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


@pytest.mark.parametrize("task", TASKS)
def test_so_do_those_of_every_task(task: str, tmp_path: Path) -> None:
    tiny = CORPORA[task]
    how = {"accumulate": 2, "validate_every": 3, "average": "running(decay=0.9)"}
    settings, file = {"task": task, **tiny.settings(steps=6, **how)}, tiny.write(tmp_path)
    alone, both = (train(count, tmp_path / str(count), file, **settings) for count in (1, 2))
    assert different(alone, both) == []
    assert figures(tmp_path / "1") == figures(tmp_path / "2") != []


@pytest.mark.parametrize("count", [3, 4])
def test_more_ranks_differ_by_rounding_alone(corpus: Path, asked: dict[str, Any], count: int, tmp_path: Path) -> None:
    settings = merge(asked, {"training": {"accumulate": count, "steps": 8}})
    alone, several = (train(number, tmp_path / str(number), corpus, **settings) for number in (1, count))
    assert far(alone, several) < 1e-5


def test_a_run_goes_on_with_another_number_of_ranks(corpus: Path, asked: dict[str, Any], tmp_path: Path) -> None:
    for first, then, accumulate in ((2, 1, 2), (1, 2, 2), (2, 3, 6)):
        how = merge(asked, {"training": {"accumulate": accumulate}})
        whole, out = train(1, tmp_path / f"whole-{accumulate}", corpus, **how), tmp_path / f"{first}-{then}"
        train(first, out, corpus, **merge(how, {"training": {"steps": 9}}))
        found = train(then, out, corpus, **how)
        assert far(found, whole) < 1e-5 if accumulate > 2 else different(found, whole) == []


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
    for model, why in ((tiny_model("transformer", attention="hard"), "hard attention keeps a moving baseline"),
                       (BatchNorm(3), "batch norm .* keeps moving means")):  # fmt: skip
        with pytest.raises(InputError, match=why):
            Ranks(0, 2).check(model, streams(1)[0], 2)
    carried = Windows(RowsInMemory([[[*range(5, 205)]]]), length=9, batch=2, seed=1, carry=True)
    for stream in (carried, Mixture([carried, streams(1)[0]], seed=1)):
        with pytest.raises(InputError, match="goes on from window to window"):
            Ranks(0, 2).check(torch.nn.Linear(1, 1), stream, 2)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ONE_HOST = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]


def command(
    out: Path, corpus: Path, *more: str, accumulate: int = 2, steps: int = 30, by: Any = (sys.executable,)
) -> list[str]:
    return [
        *by, "-m", "qkv", "train", str(corpus), "--from", "en", "--to", "ne", "--out", str(out),
        "--data.vocab-size", "340", "--data.batch-tokens", "100", "--model.d-model", "16", "--model.n-heads", "2",
        "--model.d-ff", "32", "--training.threads", "1", "--training.precision", "float32",
        "--training.accumulate", str(accumulate), "--training.checkpoint-steps", "5", "--training.validate-every", "30",
        "--training.bleu-sentences", "1", "--steps", str(steps), *more,
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_once_and_the_same_command_goes_on_to_the_same_end(
    corpus: Path, undisturbed: dict[str, torch.Tensor], number: int, tmp_path: Path
) -> None:
    """SIGTERM reaches the command alone; Ctrl-C reaches all processes of a terminal."""
    out = tmp_path / "stopped"
    asked = command(out, corpus, "--ranks", "2")
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(process, lambda: saved(out) > 0)
    if number == signal.SIGTERM:
        process.terminate()
    else:
        os.killpg(process.pid, number)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert said.count("all saved; the same command goes on from here") == 1
    assert "Traceback" not in said
    log = (out / "training" / "log.jsonl").read_text().splitlines()
    newest = max(int(one.name.removeprefix("step-")) for one in (out / "training" / "checkpoints").glob("step-*"))
    assert newest == max(json.loads(line).get("step", 0) for line in log)
    again = subprocess.run(asked, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    assert "going on from step" in again.stderr
    assert different(undisturbed, tensors(out)) == []


def test_who_asks_for_no_batches_has_those_of_one_process_shared_out(corpus: Path, tmp_path: Path) -> None:
    """So that `--ranks 2` is all that is needed; and the same command goes on."""
    written = {}
    for name, ranks in (("both", ["--ranks", "2"]), ("alone", [])):
        asked = command(tmp_path / name, corpus, *ranks)
        for flag in ("--data.batch-tokens", "--training.accumulate", "--steps"):
            del asked[asked.index(flag) : asked.index(flag) + 2]
        for steps in ("3", "4"):
            done = subprocess.run([*asked, "--steps", steps], capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count("tokens of a step are shared out: ") == (steps == "3" and name == "both")
        written[name] = tomllib.loads((tmp_path / name / "training" / "recipe.toml").read_text())
    assert [written[name]["training"]["accumulate"] for name in ("both", "alone")] == [2, 1]
    assert 2 * written["both"]["data"]["batch_tokens"] == written["alone"]["data"]["batch_tokens"]


def test_batches_that_are_left_out_are_those_of_one_process_and_the_end_is_said_once(
    corpus: Path, tmp_path: Path
) -> None:
    """A step of two batches is bad if one of them is; both are named, whoever computed them."""
    found = []
    for ranks in ([], ["--ranks", "2"]):
        out = tmp_path / str(len(ranks))
        asked = command(out, corpus, *ranks, "--training.learning-rate", "1e38", "--training.clip", "0", steps=99)
        done = subprocess.run(asked, capture_output=True, text=True, timeout=240)
        assert done.returncode == 1, done.stderr
        assert done.stderr.count("batches gave a loss that is not a number") == 1
        assert "Traceback" not in done.stderr
        events = map(json.loads, (out / "training" / "log.jsonl").read_text().splitlines())
        found.append([[one[key] for key in ("step", "rows", "count")] for one in events if one["event"] == "bad"])
    assert found[0] == found[1] != []


def test_ranks_that_do_not_hold_the_same_are_refused(corpus: Path, asked: dict[str, Any], tmp_path: Path) -> None:
    """As on two hosts, each with a folder of its own, of which one is left of another run."""
    train(1, tmp_path / "1", corpus, **merge(asked, {"data": {"seed": 2}, "training": {"steps": 1}}))
    for own, sentence in (({}, NOT_ALIKE), ({"seed": 1}, "rank 1 cannot take part: this run began with data.seed = 2")):
        processes = start_each(2, train_apart, tmp_path, corpus, **merge(asked, {"data": own}))
        assert [finish(process) for process in processes] == [0, 1]
        assert (tmp_path / "said.txt").read_text().startswith(sentence)


def test_ranks_with_other_limits_are_refused(corpus: Path, asked: dict[str, Any], tmp_path: Path) -> None:
    """A run that goes on may have others; but one rank would stop before another does."""
    train(1, tmp_path / "0", corpus, **merge(asked, {"training": {"steps": 1}}))
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    processes = start_each(2, train_apart, tmp_path, corpus, steps_of=[4, 5], **asked)
    assert [finish(process) for process in processes] == [0, 1]
    assert (tmp_path / "said.txt").read_text() == NOT_ALIKE


def test_a_refusal_is_said_once(corpus: Path, tmp_path: Path) -> None:
    asked = command(tmp_path / "m", corpus, "--ranks", "2", accumulate=3)
    done = subprocess.run(asked, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert done.stderr.count("2 ranks share the batches of a step, and training.accumulate is 3") == 1
    assert "Traceback" not in done.stderr
    assert "another rank" not in done.stderr
