"""A disk that is full ends a run with one sentence, loses nothing, and the same command goes on once there is room."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import qkv
from qkv.config import merge
from qkv.errors import InputError
from qkv.training import checkpoint

resource = pytest.importorskip("resource", reason="this system has no limits on files")

CHILD = """
import json, sys, qkv
try:
    qkv.train(sys.argv[1], out=sys.argv[2], quiet=True, **json.loads(sys.argv[3]))
except qkv.InputError as error:
    sys.exit(f"qkv: {error}")
"""


def whole(out: Path) -> list[int]:
    """The steps of the checkpoints, each of which must load."""
    found = checkpoint.existing(out / "training" / "checkpoints")
    return [checkpoint.load(path).state["step"] for path in found]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)  # mapped files may still be open


def test_no_space_is_said_nothing_is_lost_and_the_run_goes_on_exactly(
    disk: Path, tsv: Path, small: dict[str, Any], tmp_path: Path
) -> None:
    settings = merge(small, {"training": {"steps": 30, "keep": 20, "checkpoint_steps": 2}})
    out = disk / "model"
    with pytest.raises(InputError) as caught:
        qkv.train(tsv, out=out, quiet=True, **settings)
    saved = whole(out)
    assert 2 <= len(saved) < 15
    assert str(caught.value) == (
        f"could not write to {out}: No space left on device; the checkpoint of step {saved[-1]} is whole; "
        "free some space and give the same command again"
    )
    assert not list(out.rglob("*.part"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    assert qkv.train(tsv, out=out, quiet=True, **settings).steps == 30
    qkv.train(tsv, out=tmp_path / "roomy", quiet=True, **settings)
    for name in ("model.safetensors", "training/checkpoints/step-00000030/training.safetensors"):
        ours, theirs = load_file(out / name), load_file(tmp_path / "roomy" / name)
        assert ours.keys() == theirs.keys()
        assert all(ours[key].equal(theirs[key]) for key in ours)


def test_no_space_for_the_data_is_said_too(disk: Path, tsv: Path, small: dict[str, Any]) -> None:
    (disk / "filling").write_bytes(bytes(1000 * 1024))
    with pytest.raises(InputError, match=r"could not write to .*: No space left on device; free some space"):
        qkv.train(tsv, out=disk / "model", quiet=True, **small)
    (disk / "filling").unlink()
    assert qkv.train(tsv, out=disk / "model", quiet=True, **merge(small, {"training": {"steps": 3}})).steps == 3


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux lets a parent limit its child's files")
def test_a_file_that_may_not_grow_ends_the_run_in_one_line(tsv: Path, small: dict[str, Any], tmp_path: Path) -> None:
    """The limit falls upon the running process from outside, after its second checkpoint."""
    out, checkpoints = tmp_path / "model", tmp_path / "model" / "training" / "checkpoints"
    settings = merge(small, {"training": {"steps": 100_000, "checkpoint_steps": 5, "keep": 100_000}})
    arguments = [sys.executable, "-c", CHILD, str(tsv), str(out), json.dumps(settings)]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and len(checkpoint.existing(checkpoints)) < 2:
            time.sleep(0.01)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    saved = whole(out)
    assert said.splitlines() == [
        f"qkv: could not write to {out}: File too large; the checkpoint of step {saved[-1]} is whole; "
        "free some space and give the same command again"
    ]
    assert not [path for path in checkpoints.iterdir() if path.name.startswith(".")]


def test_a_folder_that_cannot_be_is_said(tsv: Path, small: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="taken is a file; give --out the name of a new folder"):
        qkv.train(tsv, out=tmp_path / "taken", quiet=True, **small)
    with pytest.raises(InputError, match=r"could not write to .*taken.inside: Not a directory; put that right"):
        qkv.train(tsv, out=tmp_path / "taken" / "inside", quiet=True, **small)
