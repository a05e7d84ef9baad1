"""Other programs' translators: which of them a folder or an archive holds, by the files that are there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qkv.convert.families.ctranslate2 import read_argos, read_ctranslate2
from qkv.convert.families.firefox import model_file, read_firefox
from qkv.convert.foreign import Converted
from qkv.convert.package import Package

ARCHIVES = (".argosmodel", ".zip")


@dataclass(frozen=True)
class Theirs:
    """A translator of another program."""

    package: Package
    reader: Callable[[Package], Converted]

    def read(self) -> Converted:
        return self.reader(self.package)


def find_package(path: Path) -> Theirs | None:
    """What a path holds; None if that is no translator of another program."""
    if not path.is_dir() and not (path.suffix in ARCHIVES and path.is_file()):
        return None
    package = Package(path)
    if package.archive is not None or (package.has("metadata.json") and package.has("model/model.bin")):
        return Theirs(package, read_argos)
    if package.has("model.bin") and any(
        name.endswith(("vocabulary.json", "vocabulary.txt")) for name in package.names()
    ):
        return Theirs(package, read_ctranslate2)
    if model_file(package):
        return Theirs(package, read_firefox)
    return None
