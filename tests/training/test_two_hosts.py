"""Two hosts, as network namespaces of this machine: they train one model, one of them dies, and comes back."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from kit import some_pairs, write_tsv

HOSTS = {"qkv-one": "10.77.13.1", "qkv-two": "10.77.13.2"}
STEPS = 40


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture
def network() -> Iterator[None]:
    """Two namespaces with a wire between them, and nothing else."""
    names = [*HOSTS]
    try:
        run("ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1])
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"needs the right to make network namespaces (root and iproute2): {getattr(error, 'stderr', error)}"
        )
    try:
        for name, address in HOSTS.items():
            run("ip", "netns", "add", name)
            run("ip", "link", "set", name, "netns", name)
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", name)
            for link in (name, "lo"):
                run("ip", "-n", name, "link", "set", link, "up")
        yield
    finally:
        for name in names:
            end_host(name)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", names[0]], capture_output=True)


def end_host(name: str) -> None:
    """No process of a host is left: torchrun and its rank."""
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    for number in found.stdout.split():
        os.kill(int(number), signal.SIGKILL)


def command(corpus: Path, out: Path) -> list[str]:
    return [
        "-m", "qkv", "train", str(corpus), "--from", "en", "--to", "ne", "--out", str(out), "--steps", str(STEPS),
        "--data.vocab-size", "340", "--data.batch-tokens", "100", "--model.d-model", "16", "--model.n-heads", "2",
        "--model.d-ff", "32", "--training.threads", "1", "--training.precision", "float32",
        "--training.accumulate", "2", "--training.checkpoint-steps", "10", "--training.bleu-sentences", "0",
        "--training.validate-every", str(STEPS),
    ]  # fmt: skip


def start(host: str, asked: list[str]) -> "subprocess.Popen[str]":
    first = next(iter(HOSTS))
    return subprocess.Popen(
        [
            "ip", "netns", "exec", host, sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2",
            "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-id", "two-hosts", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", f"{HOSTS[first]}:29500", "--local-addr", HOSTS[host],
            "--rdzv-conf", f"is_host={int(host == first)},last_call_timeout=100", *asked,
        ],
        env={**os.environ, "GLOO_SOCKET_IFNAME": host, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def steps(out: Path) -> int:
    """Of the newest checkpoint."""
    return max((int(one.name[5:]) for one in (out / "training" / "checkpoints").glob("step-*")), default=0)


def wait_for(process: "subprocess.Popen[str]", condition: Callable[[], Any]) -> None:
    until = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(max((out / "training" / "checkpoints").glob("step-*")) / "model.safetensors")


def test_a_host_dies_and_comes_back_and_the_weights_are_those_of_one_process(network: None, tmp_path: Path) -> None:
    corpus = write_tsv(tmp_path / "pairs.tsv", some_pairs(200))
    alone, out = tmp_path / "alone", tmp_path / "both"
    assert subprocess.run([sys.executable, *command(corpus, alone)], capture_output=True, timeout=400).returncode == 0
    asked = command(corpus, out)
    one, two = (start(host, asked) for host in HOSTS)
    wait_for(one, lambda: steps(out) >= 10)
    end_host("qkv-two")
    two.communicate()
    back = start("qkv-two", asked)
    said = one.communicate(timeout=400)[1], back.communicate(timeout=400)[1]
    assert (one.returncode, back.returncode) == (0, 0), said
    assert "going on from step" in "".join(said)
    found, expected = weights(out), weights(alone)
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []
