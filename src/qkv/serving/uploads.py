"""Files that were sent, and translated ones until they are fetched: opaque names, one private folder, short lives."""

import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from qkv.serving.limits import Limits, Refusal, share_of

PREFIX = "qkv-serve-"


class Kept(NamedTuple):
    path: Path
    name: str  # what the client called it, for the client only: no path is ever made of it
    client: str
    until: float


class Uploads:
    """A folder that only this process reads; it goes with the server, or when the next one starts after a crash."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.lock = limits, threading.Lock()
        remove_left_over(Path(tempfile.gettempdir()))
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self.kept: dict[str, Kept] = {}
        self.begun: Counter[str] = Counter()  # files that are being translated, by client: a place waits for each

    @contextmanager
    def new(self, data: bytes, suffix: str, client: str) -> Iterator[tuple[Path, Path]]:
        """A path with the data and one for the result; both are gone afterwards, unless the result was kept."""
        self.begin(client)
        try:
            with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as place:
                source = Path(place, f"source{suffix}")
                source.write_bytes(data)
                yield source, Path(place, f"target{suffix}")
        finally:
            with self.lock:
                self.begun -= Counter([client])  # whose 0 is forgotten

    def begin(self, client: str) -> None:
        """Take a place before the work is done; refuse where there is none."""
        with self.lock:
            self.forget_old()
            taken = self.begun + Counter(kept.client for kept in self.kept.values())
            if taken.total() >= self.limits.kept_files:
                raise Refusal(503, f"{taken.total()} translated files wait to be fetched; try again later", 60)
            if taken[client] >= share_of(self.limits.kept_files):
                raise Refusal(429, f"Slowdown: {taken[client]} of your files wait to be fetched; fetch them first", 60)
            self.begun[client] += 1

    def keep(self, path: Path, name: str, client: str) -> str:
        """The id under which the file can be fetched once."""
        one = uuid.uuid4().hex
        kept = self.folder / one
        with self.lock:
            path.replace(kept)
            self.kept[one] = Kept(kept, name, client, time.monotonic() + self.limits.kept_seconds)
        return one

    def fetch(self, one: str, *, is_last: bool = True) -> tuple[bytes, str]:
        """The file and its name; it is deleted, unless somebody only asks about it."""
        with self.lock:
            self.forget_old()
            kept = self.kept.get(one)
            if kept is None:
                raise Refusal(404, "there is no such file; it was fetched already, or it waited too long")
            data = kept.path.read_bytes()
            if is_last:
                self.kept.pop(one).path.unlink()
            return data, kept.name

    def forget_old(self) -> None:
        now = time.monotonic()
        for old in [one for one, kept in self.kept.items() if kept.until < now]:
            self.kept.pop(old).path.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_left_over(place: Path) -> None:
    """What servers of ours that were killed left behind: folders of processes that are no more."""
    if os.name != "posix":
        return
    for folder in place.glob(f"{PREFIX}*"):
        match = re.match(rf"{PREFIX}(\d{{1,9}})-", folder.name)
        with suppress(OSError):  # the process may be somebody else's
            if match and not folder.is_symlink() and folder.stat().st_uid == os.getuid():
                try:
                    os.kill(int(match[1]), 0)
                except ProcessLookupError:
                    shutil.rmtree(folder)
