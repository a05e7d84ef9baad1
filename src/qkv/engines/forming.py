"""The native engine's form of a model that has just been trained: kept if it says what the model says.

`qkv quantize` asks the same of many sentences, and BLEU beside; here a few do, so that it takes no time to speak of.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from qkv import manifest
from qkv.convert.native import has_native_form, write
from qkv.decoding.engine import Search
from qkv.decoding.plain import Plain
from qkv.engines.likeness import likeness, same_next
from qkv.engines.native.kept import FILE, made_of
from qkv.engines.native.library import Native, is_built
from qkv.engines.native.reader import native_reader
from qkv.engines.native.writer import NativeWriter
from qkv.engines.quantize import smoothing, tokens_agree
from qkv.errors import InputError
from qkv.files import remove, replacing
from qkv.folder import Loaded
from qkv.models import GPT2, Headed, Model, Transformer
from qkv.text.tokenizer import EOS

AGREE = 0.8  # the share of tokens that must stay as they are,
ALIKE, SAME = 0.99, 0.99  # the cosine of vectors with those of the model, and the share of labels
COMPARED = 16  # texts, of which so many tokens are read
TOKENS = 32
WRITTEN = 16  # after each
LEAST = {
    "same_tokens": (AGREE, "of the tokens are the same"),
    "cosine": (ALIKE, "is the cosine of the vectors"),
    "same_labels": (SAME, "of the labels are the same"),
}
BITS = (8, 16)  # the forms to try, the smallest first


class DiffersError(InputError):
    """A form that does not say what its model says."""


def has_form(model: Model) -> bool:
    """Whether our engine was built, and has a form of this model."""
    return is_built() and has_native_form(backbone_of(model))


def backbone_of(model: Model) -> Any:
    return model.backbone if isinstance(model, Headed) else model


def keep_form(loaded: Loaded, rows: Iterable[Sequence[int]]) -> str:
    """Write the form of a folder's model into the folder, if it agrees with the model on these rows of ids; a sentence
    about what was done. One that is there of the same weights is left as it is."""
    assert loaded.folder is not None
    path, made, why = loaded.folder / FILE, manifest.weights_digest(loaded.folder), "there is no text to compare with"
    if path.exists() and made_of(path) == made:
        return f"{FILE} is there already"
    some = texts(loaded.model, rows)
    for bits in BITS if some else ():
        try:
            with replacing(path) as new:
                smooth = {} if isinstance(loaded.model, Transformer) else smoothing(backbone_of(loaded.model), some)
                write(new, backbone_of(loaded.model), bits=bits, smooth=smooth, made_of=made)
                return f"{FILE} is the model in {bits} bits: {alike(loaded.model, Native(new), some)}"
        except DiffersError as error:
            why = str(error)
    remove(path)  # one of other weights would only be refused
    return f"there is no {FILE}: {why}; qkv quantize compares more text"


def texts(model: Model, rows: Iterable[Sequence[int]]) -> list[list[int]]:
    """Beginnings of rows, or several parts of running text, that the model can read and go on from."""
    most, found = min(TOKENS, max(1, int(backbone_of(model).config.max_length) // 2)), list[list[int]]()
    for row in islice(rows, COMPARED):
        ids = list(row[: most * COMPARED])
        if isinstance(model, Transformer):
            ids = ids[:-1] if ids[-1:] == [EOS] else ids
            found += [ids[:most]] * bool(ids)
        else:
            found += [ids[i : i + most] for i in range(0, len(ids), most)]
    return found[:COMPARED]


def alike(model: Model, native: Native, rows: list[list[int]]) -> str:
    """What `qkv quantize` measures, of a few texts, in words; refused where that would refuse it."""
    if isinstance(model, Transformer):
        limits, how = [min(WRITTEN, model.room(len(ids))) for ids in rows], Search(beam=1)
        ours, theirs = (
            [found[0].tokens for found in engine.decode(rows, limits, how)]
            for engine in (Plain(model), NativeWriter.of(model, native))
        )
        figures = {"same_tokens": tokens_agree(theirs, ours)}
    else:
        figures = likeness(model, native_reader(model, native), rows)
        if isinstance(model, GPT2):
            figures["same_tokens"] = same_next(Plain(model), NativeWriter.of(model, native), rows)
    said = ", ".join(f"{figures[name]:.1%} {what}" for name, (_, what) in LEAST.items() if name in figures)
    said = f"of {len(rows)} texts, {said}"
    if any(figures[name] < least for name, (least, _) in LEAST.items() if name in figures):
        raise DiffersError(f"in {native.bits} bits {said}, which is too little")
    return said
