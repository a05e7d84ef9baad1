"""Files of weights: safetensors and never pickle, with a checksum of their own."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.files import check_plain, read_json, write_with

DIGEST = "sha256"  # of all tensors, in the header of their file
LARGEST = 1e15  # a weight: its square is still a float32


def save_weights(path: Path, tensors: dict[str, Tensor], **about: str) -> None:
    """With their own digest in the file's header, so that one flipped bit is seen."""
    header = {"format": "pt", DIGEST: fingerprint(tensors), **about}

    def write(temporary: Path) -> None:
        save_file(tensors, temporary, metadata=header)
        settle_header(temporary)

    write_with(path, write)


def settle_header(path: Path) -> None:
    """What the header tells, in order of its names: safetensors takes any, and equal weights shall be equal files."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        tree = json.loads(file.read(length))
        tree["__metadata__"] = dict(sorted(tree["__metadata__"].items()))
        text = json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(length))


def fingerprint(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and numbers: 0.3 s for 500 MB."""
    sha = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            sha.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and what its header tells; a SafetensorError if they are not what was written."""
    with safe_open(path, "pt") as file:
        header: dict[str, str] = file.metadata() or {}
    tensors = load_file(path)
    if DIGEST in header and header[DIGEST] != fingerprint(tensors):
        raise SafetensorError("its checksum differs")
    return tensors, header


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, or of the several that an index beside it names."""
    try:
        check_plain(path)
        path.open("rb").close()  # safetensors would call every reason "No such file"
        return read_weights(path)[0]
    except FileNotFoundError:
        return load_parts(path)
    except InputError:
        raise
    except PermissionError:
        raise InputError(f"{path} may not be read by this user; give it the right to, with chmod a+r") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); copy the whole model folder again") from None


def load_parts(path: Path) -> dict[str, Tensor]:
    """The tensors of the files that the index of a missing one names."""
    index = path.with_name(f"{path.name}.index.json")
    if not index.exists():
        if pickles := sorted(path.parent.glob("pytorch_model*.bin")):
            raise InputError(
                f"{pickles[0]} is a pickle, which can run any code and is never opened; where you trust it, open it "
                "with transformers and save it as model.safetensors, by save_pretrained"
            )
        raise InputError(f"{path} is missing; copy the whole model folder again, or train again")
    try:
        names = sorted({str(name) for name in read_json(index)["weight_map"].values()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{index} is damaged; copy the whole model folder again") from None
    if odd := [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]:
        raise InputError(f"{index} names {odd[0]!r}, which is no safetensors file beside it; copy the folder again")
    return {key: value for name in names for key, value in load_weights(path.with_name(name)).items()}


def check_finite(model: nn.Module, path: Path) -> None:
    """Refuse weights with which every answer would be NaN: one pass over them, 0.04 s for 500 MB."""
    for name, parameter in model.named_parameters():
        low, high = torch.aminmax(parameter.detach()) if parameter.numel() else (0.0, 0.0)
        if not -LARGEST < float(low) <= float(high) < LARGEST:  # also where one is NaN
            raise InputError(
                f"{path}: {name} holds numbers that no training ends with ({float(low):g} to {float(high):g}); "
                "copy the whole model folder again, or train again with a smaller rate"
            )
