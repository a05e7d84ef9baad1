"""Checkpoints are whole or not there, damage is found and told, and what they hold comes back exactly."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kit import same, weights
from qkv.data import Place
from qkv.errors import InputError
from qkv.training import checkpoint

FILES = [
    "config.json",
    "generation_config.json",
    "manifest.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "training.json",
    "training.safetensors",
]


def write(folder: Path, step: int, value: float = 1.0) -> Path:
    """A checkpoint of one weight."""

    def save_model(path: Path) -> None:
        from qkv.weights import save_weights

        save_weights(path / "model.safetensors", {"w": torch.tensor([value])})

    return checkpoint.save(folder, step, save_model, {"average.steps": torch.tensor(3)}, {"step": step})


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    state = {"step": 7, "best": -1.25e-7, "place": {"epoch": 2, "batch": 3}, "seconds": 0.1 + 0.2, "none": None}
    tensors = {"a.b": torch.randn(3, 2), "steps": torch.tensor(5), "bytes": torch.arange(9, dtype=torch.uint8)}
    checkpoint.save(
        tmp_path, 7, lambda path: shutil.copy(write(tmp_path / "x", 1) / "model.safetensors", path), tensors, state
    )
    loaded = checkpoint.newest(tmp_path, pytest.fail)
    assert loaded is not None
    assert loaded.state == state
    assert loaded.tensors.keys() == tensors.keys()
    assert all(torch.equal(loaded.tensors[name], tensors[name]) for name in tensors)
    assert all(loaded.tensors[name].dtype == tensors[name].dtype for name in tensors)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
def test_a_failure_in_the_middle_leaves_everything_as_it_was(tmp_path: Path, error: BaseException) -> None:
    write(tmp_path, 7)
    before = content(tmp_path)

    def fail(path: Path) -> None:
        (path / "config.json").write_text("half")
        raise error

    with pytest.raises(type(error)):
        checkpoint.save(tmp_path, 14, fail, {}, {})
    with pytest.raises(type(error)):
        checkpoint.save(tmp_path, 7, fail, {}, {})
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007"]


def test_a_checkpoint_written_again_takes_the_place_of_the_old(tmp_path: Path) -> None:
    write(tmp_path, 7, value=1.0)
    write(tmp_path, 7, value=2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007"]
    found = checkpoint.newest(tmp_path, pytest.fail)
    assert found is not None
    assert found.weights["w"].item() == 2.0


@pytest.mark.parametrize("new_one_arrived", [False, True])
def test_killed_between_old_and_new_one_of_them_is_there(tmp_path: Path, new_one_arrived: bool) -> None:
    """What the disk looks like after a kill in the moment in which the old folder stands aside."""
    write(tmp_path, 7, value=1.0).rename(tmp_path / "step-00000007.old")
    if new_one_arrived:
        write(tmp_path, 7, value=2.0)
    found = checkpoint.newest(tmp_path, pytest.fail)
    assert found is not None
    assert found.weights["w"].item() == (2.0 if new_one_arrived else 1.0)
    write(tmp_path, 8)
    checkpoint.tidy(tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000008"]


def test_only_the_newest_are_kept_and_half_written_ones_removed(tmp_path: Path) -> None:
    for step in (7, 14, 21, 100_000_000):
        write(tmp_path, step)
    (tmp_path / ".step-00000028.4711.part").mkdir()
    (tmp_path / ".step-00000028.4711.part" / "config.json").write_text("{")
    checkpoint.tidy(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000021", "step-100000000"]


@pytest.fixture
def two(workshop: Any) -> Path:
    """The checkpoints of a real run, of steps 4 and 8."""
    workshop.trainer(steps=8, checkpoint_steps=4, keep=2, validate_every=100, checkpoint_minutes=9).run()
    folder: Path = workshop.place / "out" / "training" / "checkpoints"
    assert [path.name for path in checkpoint.existing(folder)] == ["step-00000004", "step-00000008"]
    assert sorted(path.name for path in (folder / "step-00000008").iterdir()) == FILES
    return folder


def flip(path: Path, at: float) -> None:
    """Change the lowest bit of one byte, so that text stays text."""
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "first byte": lambda path: flip(path, 0),
    "middle byte": lambda path: flip(path, 0.5),
    "last byte": lambda path: flip(path, 1),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 9),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_any_file_is_found_and_the_one_before_is_used(two: Path, damage: str) -> None:
    whole = two.parent / "whole"
    two.rename(whole)
    for name in FILES:
        shutil.copytree(whole, two, dirs_exist_ok=True)
        DAMAGES[damage](two / "step-00000008" / name)
        said: list[str] = []
        found = checkpoint.newest(two, said.append)
        assert found is not None
        if name == "training.json" and damage == "last byte":  # its last byte is the end of the line
            assert found.state["step"] in (4, 8)
            continue
        assert found.state["step"] == 4, name
        assert len(said) == 1
        assert said[0].startswith(f"The checkpoint {two / 'step-00000008'} is damaged (")
        assert said[0].endswith("Going back to the one before it.")


def test_a_changed_counter_is_found(two: Path) -> None:
    """The file that vouches for the others vouches for itself too."""
    path = two / "step-00000008" / "training.json"
    proof = json.loads(path.read_text())
    proof["state"]["step"] = 9
    path.write_text(json.dumps(proof))
    said: list[str] = []
    found = checkpoint.newest(two, said.append)
    assert found is not None
    assert found.state["step"] == 4
    assert "training.json" in said[0]


def test_if_none_is_whole_the_run_is_not_silently_begun_anew(two: Path, workshop: Any) -> None:
    for path in two.iterdir():
        flip(path / "model.safetensors", 0.7)
    with pytest.raises(InputError, match=r"no checkpoint in .* is whole; .* give --restart to begin anew"):
        workshop.trainer().resume()
    notes = [event["text"] for event in workshop.named("note")]
    assert [text.split(" is damaged")[0][-13:] for text in notes] == ["step-00000008", "step-00000004"]


def test_no_checkpoint_at_all_is_a_new_run(workshop: Any) -> None:
    assert workshop.trainer().resume() is False


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resuming_brings_everything_back(optimizer: str, workshop: Any) -> None:
    settings = {"steps": 9, "average": "last(n=2)", "validate_every": 4, "clip": 0.5, "optimizer": optimizer}
    first = workshop.trainer(model=workshop.model(dropout=0.3), **settings)
    first.run()
    second = workshop.trainer(model=workshop.model(dropout=0.3), **settings)
    assert second.resume() is True
    assert second.now == first.now
    assert same(weights(second.model), weights(first.model))
    assert same(second.average.tensors(), first.average.tensors())
    one, other = (trainer.optimizer.state_dict()["state"] for trainer in (first, second))
    assert one.keys() == other.keys()
    assert all(same(one[i], other[i]) for i in one)
    for trainer in (first, second):  # and both go on alike, whatever was drawn meanwhile
        torch.manual_seed(id(trainer))
        trainer.step([(trainer.batches.largest(), Place())])
    assert same(weights(second.model), weights(first.model))


def test_the_same_moment_is_not_written_twice(workshop: Any) -> None:
    trainer = workshop.trainer(steps=4)
    trainer.run()
    path = trainer.folder / "step-00000004" / "training.json"
    written = path.stat().st_ino
    trainer.save()
    assert path.stat().st_ino == written
    again = workshop.trainer(steps=4)
    again.resume()
    assert again.run() == "4 steps are done"
    assert path.stat().st_ino == written


def test_ctrl_c_in_the_last_validation_loses_no_step(workshop: Any) -> None:
    def judge(_: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workshop.trainer(steps=5, judge=judge).run()
    again = workshop.trainer(steps=5)
    assert again.resume()
    assert again.run() == "5 steps are done"
    assert [event["step"] for event in workshop.named("train")] == [1, 2, 3, 4, 5]
    assert again.now.best_step == 5
