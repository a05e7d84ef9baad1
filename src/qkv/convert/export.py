"""Our model in another format: written beside its place, checked by whoever asked, and only then put there."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qkv.convert.ctranslate2 import write_ctranslate2
from qkv.convert.families.marian import write_marian
from qkv.convert.hugging_face import family_of, write_family
from qkv.convert.onnx import write_onnx
from qkv.convert.onnx_reader import write_reader
from qkv.convert.plain import check_backbone, check_plain
from qkv.errors import InputError, nearest
from qkv.files import read_json, replacing, write_json
from qkv.manifest import weights_digest as digest
from qkv.models import Model, Transformer
from qkv.text.tokenizer import Tokenizer


def write_hugging_face(
    out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any], quantization: str = ""
) -> None:
    """As transformers' own classes save it: a translator as Marian or Pegasus, another model as its family."""
    if family := family_of(model):
        write_family(out, model, tokenizer, about, family)
    else:
        write_marian(out, check_plain(model, "huggingface"), tokenizer, about)


def write_graphs(
    out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any], quantization: str = ""
) -> None:
    """A translator as two ONNX graphs, another model as one."""
    if isinstance(model, Transformer):
        write_onnx(out, model, tokenizer, about)
    else:
        write_reader(out, model, tokenizer, about)


# (an empty folder, model, tokenizer, what else config.json says, quantization)
Write = Callable[[Path, Any, Tokenizer, Mapping[str, Any], str], None]
EXPORTS: dict[str, Write] = {"ctranslate2": write_ctranslate2, "onnx": write_graphs, "huggingface": write_hugging_face}
MARK = "qkv.json"  # says that a folder is an export, and of which weights


@contextmanager
def exporting(
    to: str, source: Path, out: Path, model: Model, tokenizer: Tokenizer, about: Mapping[str, Any],
    quantization: str = "",
) -> Iterator[Path]:  # fmt: skip
    """The model of the folder `source` in the format `to`, in a folder that takes the place of `out` at the end.

    If the block that holds it fails, `out` stays as it was.
    """
    if to not in EXPORTS:
        raise InputError(f"unknown format {to!r}; {nearest(to, EXPORTS)}")
    if quantization and to != "ctranslate2":
        raise InputError(f"quantization={quantization!r} is for ctranslate2 alone, not for {to}; leave it out")
    if to == "huggingface" or isinstance(model, Transformer):
        plain = model if to == "huggingface" and family_of(model) else check_plain(model, to)
    else:
        plain = check_backbone(model, to, str(about.get("task", "")))
    if out.exists() and mark(out) is None and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is no export, so it is not overwritten; name a new folder")
    with replacing(out) as temporary:
        temporary.mkdir()
        EXPORTS[to](temporary, plain, tokenizer, about, quantization)
        write_json(temporary / MARK, {"format": to, "weights": digest(source), "quantization": quantization})
        yield temporary


def mark(folder: Path) -> dict[str, Any] | None:
    """What `exporting` noted of its folder; None if this is no such folder."""
    noted = read_note(folder / MARK)
    return noted if noted.get("format") in EXPORTS else None


def read_note(path: Path) -> dict[str, Any]:
    """A JSON object that qkv left for itself; nothing, if it is not there or damaged."""
    try:
        noted = read_json(path)
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
