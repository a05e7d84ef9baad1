"""Files: written so that a crash leaves the old or the new, never a half; read whole if they are plain and small."""

import glob
import hashlib
import json
import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qkv.errors import InputError

WHOLE = 2**28  # bytes of the largest file that is read as a whole


def read_bytes(path: Path, most: int = WHOLE) -> bytes:
    """A whole file; a pipe, a device or one of more bytes is refused before any of it is read."""
    check_plain(path)
    if (size := path.stat().st_size) > most:
        raise InputError(f"{path} has {size:,} bytes, and at most {most:,} are read at once; cut it in parts")
    return path.read_bytes()


def check_plain(path: Path) -> None:
    """Refuse what may never end or never begin."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is a pipe, a device or a folder, where a file belongs that can be read as a whole")


def read_text(path: Path, most: int = WHOLE) -> str:
    return read_bytes(path, most).decode()


def read_json(path: Path) -> Any:
    """What a JSON file holds; a ValueError if that is none, or is nested deeper than anything that a program writes."""
    try:
        return json.loads(read_bytes(path))
    except RecursionError:
        raise ValueError(f"{path} is nested too deep") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it takes the place of `path` at the end, or is removed if anything fails.

    Works for a file and for a folder. What was written is on the disk before the name changes; what is inside a folder
    that is being replaced itself, before that one's name changes. What a process of this machine left there when it was
    killed is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = f".{path.name}.{platform.node()}-"
    for left in path.parent.glob(f"{glob.escape(mine)}*.part"):
        if not is_running(left.name.removeprefix(mine).removesuffix(".part")):
            remove(left)
    draft = f".{platform.node()}-{os.getpid()}.part"
    temporary = path.with_name(f".{path.name}{draft}")
    is_inside = any(folder.name.endswith(draft) for folder in path.parents)
    remove(temporary)
    try:
        yield temporary
        if not is_inside:
            for written in [temporary, *temporary.rglob("*")] if temporary.is_dir() else [temporary]:
                sync(written)
        if path.is_dir() and temporary.is_dir():
            exchange(path, temporary)
        else:
            temporary.replace(path)
        if not is_inside:
            sync(path.parent)
    finally:
        remove(temporary)


def is_running(number: str) -> bool:
    """Whether there is a process of that number on this machine; yes where it cannot be told."""
    if os.name != "posix" or not (number.isascii() and number.isdigit()):
        return True
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is somebody else's
        return True
    return True


def exchange(path: Path, new: Path) -> None:
    """Put a new folder where an old one is. No move does that at once: for a moment the old one is `path`.old."""
    aside = path.with_name(f"{path.name}.old")
    remove(aside)
    path.rename(aside)
    try:
        new.rename(path)
    except OSError:
        aside.rename(path)
        raise
    remove(aside)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def write_with(path: Path, write: Callable[[Path], object]) -> None:
    """For a library that wants a path: write_with(path, lambda p: save_file(tensors, p))."""
    with replacing(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # as of any new file; safetensors makes one that only its owner may read
        write(temporary)
        temporary.chmod(mode)


@contextmanager
def alone(path: Path, otherwise: str) -> Iterator[None]:
    """Hold the lock file `path`, or refuse with the sentence `otherwise`; the lock falls with its process.

    Not by the package filelock: where a file system has no locks, its own would outlive a process that is killed.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(file.fileno()).st_ino == path.stat().st_ino  # not one that its last holder just removed
        except (BlockingIOError, FileNotFoundError):
            held = False
        except OSError:  # some network file systems have no locks
            held = True
        if not held:
            raise InputError(otherwise)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # leave no folder behind that holds nothing
                path.parent.rmdir()


def digest(path: Path, kind: str = "sha256") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def remove(path: Path) -> None:
    """A file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, nor a file synced that is open to read
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
