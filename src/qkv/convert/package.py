"""Where other people's translators lie: a folder of files, or an archive of one (an Argos package is a zip). Nothing is
unpacked to the disk, and nothing of it is ever executed."""

import json
import mmap
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from qkv.errors import InputError
from qkv.files import check_plain

LARGEST = 2**32  # bytes of a file that is opened
SMALL = 2**26  # ... and of one that is read as text


class Package:
    """The files of a folder or of an archive, by their paths from its root with / between them."""

    def __init__(self, path: Path) -> None:
        self.path, self.archive, self.root = path, None, PurePosixPath()
        if path.is_dir():
            return
        try:
            check_plain(path)
            self.archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            raise InputError(f"{path} is neither a model folder nor an Argos package; give one of these") from None
        roots = [PurePosixPath(name).parent for name in self.archive.namelist() if name.endswith("metadata.json")]
        self.root = min(roots, key=lambda root: len(root.parts), default=self.root)

    def name(self, file: str) -> str:
        """A file as an error names it."""
        return f"{self.path}/{file}" if self.archive is None else f"{self.path} ({file})"

    def has(self, file: str) -> bool:
        if self.archive is None:
            return (self.path / file).is_file()
        return str(self.root / file) in self.archive.NameToInfo

    def names(self) -> list[str]:
        """The files of the root, in order."""
        if self.archive is None:
            return sorted(child.name for child in self.path.iterdir() if child.is_file())
        paths = map(PurePosixPath, self.archive.namelist())
        return sorted(path.name for path in paths if path.parent == self.root)

    def read(self, file: str, most: int = LARGEST) -> bytes | memoryview:
        """What a file holds; one in a folder is read as far as it is used."""
        try:
            if self.archive is not None:
                return self.unpacked(file, most)
            path = self.path / file
            check_plain(path)
            if (size := path.stat().st_size) > most:
                raise InputError(f"{path} has {size:,} bytes, and at most {most:,} are read; is it the right file?")
            with path.open("rb") as opened:
                return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)) if size else b""
        except OSError as error:
            raise InputError(f"{self.name(file)} cannot be read: {error.strerror}; copy it again") from None

    def unpacked(self, file: str, most: int) -> bytes:
        """A file of the archive; no more than its size says is ever written."""
        assert self.archive is not None
        try:
            entry = self.archive.getinfo(str(self.root / file))
            if entry.file_size > most:
                raise InputError(f"{self.name(file)} has {entry.file_size:,} bytes, and at most {most:,} are read")
            return self.archive.read(entry)
        except (KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{self.name(file)} is damaged ({reason}); copy the package again") from None
        except Exception as error:  # zlib.error and its like, one for each way of packing
            raise InputError(f"{self.name(file)} is damaged ({error}); copy the package again") from None

    def text(self, file: str) -> str:
        try:
            return bytes(self.read(file, SMALL)).decode()
        except UnicodeDecodeError:
            raise InputError(f"{self.name(file)} is damaged: it is no text in UTF-8; copy it again") from None

    def table(self, file: str) -> dict[str, Any]:
        """A table in JSON; an empty one where there is no such file."""
        if not self.has(file):
            return {}
        try:
            tree = json.loads(self.text(file))
        except (ValueError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise InputError(f"{self.name(file)} is damaged: it is not a table in JSON; copy it again")
        return tree
