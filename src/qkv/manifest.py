"""A manifest: the SHA-256 of files of a folder, so that a byte that has changed since is seen and not used."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from qkv.errors import InputError
from qkv.files import digest, read_json, write_json

NAME = "manifest.json"
NATIVE = "int8.qkv"  # the native engine's form of a model; enough by itself for one that writes
UNKNOWN = f"there is no {NAME}, so that a file that has changed would not be seen"


def seal(folder: Path, names: Iterable[str]) -> None:
    """Write down what these files are now, beside what is known of others that are still there."""
    known = {name: sha for name, sha in (sealed(folder) or {}).items() if (folder / name).exists()}
    new = {name: digest(folder / name) for name in names}
    write_json(folder / NAME, {"sha256": dict(sorted({**known, **new}.items()))})


def sealed(folder: Path) -> dict[str, str] | None:
    """The files of a folder's manifest with their digests; None if it has none."""
    path = folder / NAME
    try:
        found = read_json(path)["sha256"]
        if not all(isinstance(text, str) for pair in found.items() for text in pair):
            raise TypeError
        return dict(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{path} is damaged; copy the whole folder again, or write it anew: {cure(folder)}") from None


def weights_digest(folder: Path) -> str:
    """The SHA-256 of a model folder's weights, in hex, or of the file that lists theirs where there are several; or of
    what another program keeps its weights in; or of the form that is there in their place."""
    form = folder / NATIVE
    return digest(next(weights_of(folder), form if form.exists() else folder / "model.safetensors"))


def has_weights(folder: Path) -> bool:
    """Whether they are there; a folder may have no more than the native engine's form of them."""
    return any(weights_of(folder))


def weights_of(folder: Path) -> Iterator[Path]:
    ours = (folder / name for name in ("model.safetensors", "model.safetensors.index.json"))
    theirs = [folder, folder / "model" / "model.bin", *sorted(folder.glob("*.bin"))]
    return (path for path in (*ours, *theirs) if path.is_file())


def changed(folder: Path) -> list[str]:
    """The files that are not what the manifest says, or not there; none of a folder without a manifest."""
    found = sealed(folder) or {}
    return [name for name, sha in found.items() if not (folder / name).is_file() or digest(folder / name) != sha]


def check(folder: Path) -> None:
    """Refuse a folder whose files have changed since they were sealed."""
    if odd := changed(folder):
        raise InputError(
            f"{folder / odd[0]} has changed since it was written; copy the folder again, or if you changed it, "
            f"say so: {cure(folder)}"
        )


def cure(folder: Path) -> str:
    return f"qkv check {folder} --seal"
