"""Files are replaced whole or not at all, and nothing half-written stays behind."""

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.errors import InputError
from qkv.files import alone, exchange, remove, replacing, write_json, write_text, write_with


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_the_folders_it_needs(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c.txt", "Grüße 你好\n")
    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == "Grüße 你好\n".encode()
    assert names(tmp_path / "a" / "b") == ["c.txt"]


def test_json_reads_back_and_can_be_read_by_a_person(tmp_path: Path) -> None:
    data = {"Straße": [1, 2.5, None, True], "nested": {"x": "y"}}
    write_json(tmp_path / "data.json", data)
    text = (tmp_path / "data.json").read_text(encoding="utf-8")
    assert json.loads(text) == data
    assert "Straße" in text
    assert text.endswith("}\n")


def test_a_library_that_wants_a_path_gets_one(tmp_path: Path) -> None:
    write_with(tmp_path / "x.bin", lambda path: path.write_bytes(b"\x00\xff"))
    assert (tmp_path / "x.bin").read_bytes() == b"\x00\xff"


@pytest.mark.parametrize("error", [ValueError("no"), OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failure_leaves_the_old_one_and_nothing_else(tmp_path: Path, error: BaseException, kind: str) -> None:
    old = tmp_path / "thing"
    if kind == "folder":
        old.mkdir()
        (old / "inside").write_text("old")
    else:
        old.write_text("old")

    def fail() -> None:
        with replacing(old) as temporary:
            if kind == "folder":
                temporary.mkdir()
                (temporary / "inside").write_text("ne")
            else:
                temporary.write_text("ne")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert names(tmp_path) == ["thing"]
    assert (old / "inside" if kind == "folder" else old).read_text() == "old"


def test_until_the_end_the_old_one_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_folder_takes_the_place_of_a_folder_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for name in ("first", "second"):
        with replacing(path) as temporary:
            (temporary / "deep").mkdir(parents=True)
            (temporary / "deep" / name).write_text(name)
    assert names(path / "deep") == ["second"]
    assert names(tmp_path) == ["folder"]


def test_if_the_new_folder_cannot_come_the_old_one_returns(tmp_path: Path) -> None:
    old = tmp_path / "folder"
    old.mkdir()
    (old / "inside").write_text("old")
    with pytest.raises(FileNotFoundError):
        exchange(old, tmp_path / "there is no such folder")
    assert (old / "inside").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_what_a_killed_process_left_under_this_name_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with replacing(path) as temporary:
        left = temporary
        temporary.mkdir()
    left.mkdir()
    (left / "rest").write_text("half")
    with replacing(path) as temporary:
        assert temporary == left
        assert not temporary.exists()
        temporary.mkdir()
    assert names(path) == []


def test_remove_takes_files_folders_links_and_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (tmp_path / "link").symlink_to(kept, target_is_directory=True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for name in ("link", "file", "full", "never was"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["kept"]
    assert (kept / "file").read_text() == "x"  # a link is removed, not what it points to


def test_a_lock_is_held_by_one_and_falls_with_its_process(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "a.lock"
    hold = (
        "import os, sys; from pathlib import Path; from qkv.files import alone\n"
        "with alone(Path(sys.argv[1]), 'taken'):\n"
        "    print('held', flush=True); sys.stdin.read(1); os._exit(9)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="taken"), alone(lock, "taken"):
            pass
        holder.communicate("x")  # it dies without a chance to tidy up
    with alone(lock, "taken"):
        pass
    assert not lock.exists()


def test_a_file_system_without_locks_is_not_taken_for_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with alone(tmp_path / "a.lock", "taken"):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from qkv.files import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.mkdir()
    (temporary / "half").write_text("ne")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_what_a_killed_process_left_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "out [1]"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(names(tmp_path)) == 1
    write_text(tmp_path / "out", "another")
    assert len(names(tmp_path)) == 2, "that of another name stays"
    with replacing(path) as temporary:
        temporary.mkdir()
        other = temporary.with_name(temporary.name.replace(f"-{os.getpid()}.", f"-{os.getppid()}."))
        elsewhere = temporary.with_name(temporary.name.replace(f".{platform.node()}-", ".another-host-"))
        other.touch()
        elsewhere.touch()
    assert names(tmp_path) == sorted([other.name, elsewhere.name, "out", path.name])
    write_text(path.with_name("x"), "")
    path.rmdir()
    write_text(path, "new")
    assert {other.name, elsewhere.name} < {*names(tmp_path)}, "those of the living and of another machine stay"


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX alone")
def test_what_is_written_is_synced_once_however_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_ino))
    with replacing(tmp_path / "whole") as draft:
        draft.mkdir()
        write_text(draft / "a", "a")
        with replacing(draft / "inner") as inner:
            inner.mkdir()
            write_text(inner / "b", "b")
    places = [tmp_path, tmp_path / "whole", *(tmp_path / "whole").rglob("*")]
    assert sorted(synced) == sorted(place.stat().st_ino for place in places)
    write_text(tmp_path / "alone", "alone")
    assert synced[-2:] == [(tmp_path / "alone").stat().st_ino, tmp_path.stat().st_ino]
