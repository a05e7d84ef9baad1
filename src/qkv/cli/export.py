"""qkv export: a model folder in another program's format, checked before it is put in its place."""

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.app import Model
from qkv.errors import InputError, nearest

if TYPE_CHECKING:
    from qkv.decoding import Engine, Search, Translator
    from qkv.engines.agreement import Agreement, Decode
    from qkv.folder import Loaded

SENTENCES = 100  # of the validation set, to check with
TIE = 1e-3  # log p: a hundred times what float32 sums differ by in another order
CLOSE = 1e-4  # of the states of tokens: a hundred times what float32 sums differ by,
ROUNDED = 0.2  # and what rounded weights may cost
UNCHECKED = "it was not checked, since transformers is not installed; pip install transformers"
ROUGH = 0.05  # the mean that rounded weights may cost: log p of a token, or score of a sentence


def export(
    model: Model, folder: Path | None = None, *, to: str, quantization: str = "", check: Path | None = None
) -> None:
    """Write a model in another program's format, and check that it says what qkv does.

    For example:
      qkv export model --to ctranslate2 model-ct2 --quantization int8
      qkv export model --to onnx model-onnx
      qkv export model --to huggingface model-hf --check test.en
      qkv export bert --to huggingface bert-hf
      qkv export critic --to onnx critic-onnx
      qkv export model --to int8 model-small

    Args:
      folder: The folder to write; inside the model folder, under the format's name, if none.
      to: ctranslate2, onnx or huggingface; or int8, our own folder with the 8-bit form alone.
      quantization: With ctranslate2: int8, int16, float16, bfloat16 or a mixture such as int8_float16.
      check: Sentences to check with, one on a line; some of the validation set, or random ones, if none.
    """
    from qkv.convert import EXPORTS, exporting
    from qkv.decoding import Search
    from qkv.engines.agreement import agreement
    from qkv.opening import load_translator, may_translate

    target = folder or model / to
    if target.resolve() == model.resolve():
        raise InputError(f"{target} is the model folder itself; name another folder")
    if to not in (known := (*EXPORTS, "int8")):
        raise InputError(f"unknown format {to!r}; {nearest(to, known)}")
    if to == "int8":
        return export_form(model, target, quantization, check)
    if not may_translate(model):
        return export_family(model, target, to, quantization, check)
    translator = load_translator(model, engine="float32")
    kinds, sources = sources_to_check(translator, model, check)
    given = (translator.model, translator.tokenizer, translator.about, quantization)
    alpha = 0.0 if to == "huggingface" else 1.0  # generate ranks by log p / length^p, which is ours with neither
    with exporting(to, model, target, *given) as written:
        theirs = DECODERS[to](written, translator)
        for how in [Search(beam=beam, alpha=alpha) for beam in (1, 5)]:
            if theirs is not None:
                found = agreement(translator.model, sources, theirs, how)
                print(f"{found} ({kinds})")
                refuse(found, quantization)
    print(f"wrote {target}")
    if theirs is None:
        print(UNCHECKED, file=sys.stderr)


def export_form(model: Path, target: Path, quantization: str, check: Path | None) -> None:
    """A model folder that translates or writes on without its weights, with which its form was compared."""
    from qkv import manifest
    from qkv.decoding.alignment import FILE as ALIGNMENT
    from qkv.engines.native.kept import FILE, native_file
    from qkv.engines.shortlist import FILE as SHORTLIST
    from qkv.files import replacing
    from qkv.folder import look
    from qkv.folder.loaded import FILES

    if quantization:
        raise InputError(f"quantization={quantization!r} is for ctranslate2 alone, not for int8; leave it out")
    if check is not None:
        raise InputError(f"the form in 8 bits is compared when it is made; give {check} to qkv quantize --valid")
    if not look(model).context:
        raise InputError(f"{model} is neither a Transformer that translates nor a GPT-2; copy its folder as it is")
    native_file(model)  # or it is refused
    if target.exists():
        raise InputError(f"{target} exists, so it is not overwritten; name a new folder")
    names = [name for name in (*FILES, FILE, ALIGNMENT, SHORTLIST) if (model / name).exists()]
    with replacing(target) as temporary:
        temporary.mkdir()
        for name in names:
            shutil.copyfile(model / name, temporary / name)
        manifest.seal(temporary, [name for name in FILES if name in names])  # the form has a checksum of its own
    size = sum((target / name).stat().st_size for name in names)
    print(f"wrote {target}: {size / 1e6:.1f} MB")


def export_family(model: Path, target: Path, to: str, quantization: str, check: Path | None) -> None:
    """A model that does not translate: checked by what it makes of each token of some texts."""
    from qkv import folder
    from qkv.cli.apart import APART
    from qkv.convert import exporting
    from qkv.text.lines import read_lines
    from qkv.text.tokenizer import UNK

    loaded = folder.load(model)
    with exporting(to, model, target, loaded.model, loaded.tokenizer, loaded.about, quantization) as written:
        rng, size = random.Random(1), len(loaded.tokenizer)
        rows = [rng.choices(range(UNK + 1, size), k=rng.randint(1, 20)) for _ in range(SENTENCES // 4)]
        texts = [line for line in read_lines(check) if line] if check else loaded.tokenizer.decode_batch(rows)
        found = APART[to](written, loaded, texts)
        if found is not None:
            print(f"{len(texts)} texts: states of tokens differ by at most {found:.1e}")
            is_rounded = quantization not in ("", "float32")
            if not found <= (ROUNDED if is_rounded else CLOSE):
                what = "choose a finer quantization" if is_rounded else "please report this"
                raise InputError(f"the export does not say what qkv does and was removed; {what}")
    print(f"wrote {target}")
    if left := left_out(loaded, to):
        print(f"left out, since {'transformers' if to == 'huggingface' else to} has no place for it: {', '.join(left)}")
    if found is None:
        print(UNCHECKED, file=sys.stderr)


def left_out(loaded: "Loaded", to: str) -> list[str]:
    """What a format does not hold of a model that does not translate."""
    from qkv.convert import family_of, heads_held
    from qkv.convert.plain import HEADLESS
    from qkv.layers import Prediction

    heads, family = getattr(loaded.model, "head_texts", {}).keys(), family_of(loaded.model)
    if to == "huggingface":
        return sorted(heads - heads_held(loaded.model, family)) if family else []
    left = sorted(heads) if loaded.about.get("task", "") in HEADLESS else []
    predicts = any(isinstance(part, Prediction) for part in loaded.model.modules())
    return [*left, *(["what predicts words"] if to == "ctranslate2" and predicts else [])]


def sources_to_check(translator: "Translator", model: Path, check: Path | None) -> tuple[str, list[list[int]]]:
    """Ids of sentences, and what they are; those too long for the model are left out."""
    from qkv.tasks.translation import validation_pairs
    from qkv.text.lines import read_lines
    from qkv.text.normalise import normalise
    from qkv.text.tokenizer import UNK

    tokenizer = translator.tokenizer
    if check is not None:
        kinds, lines = f"of {check}", [line for text in read_lines(check) if (line := normalise(text))]
    else:
        kinds, lines = "of the validation set", [source for source, _ in validation_pairs(model, SENTENCES)]
    found = [tokenizer.encode(line) for line in lines]
    if check is None and not lines:
        kinds, rng = "of random tokens", random.Random(1)
        found = [rng.choices(range(UNK + 1, len(tokenizer)), k=rng.randint(1, 20)) for _ in range(SENTENCES // 4)]
    fitting = [ids for ids in found if 0 < len(ids) <= translator.longest]
    if not fitting:
        raise InputError(f"there is no sentence to check with in {check or model}; give a file of them with --check")
    return kinds, fitting


def refuse(found: "Agreement", quantization: str) -> None:
    if not found.sentences:
        raise InputError(
            "the export was removed, since the model ends none of the sentences to check with by itself; "
            "give sentences that it can translate with --check"
        )
    is_rounded = quantization not in ("", "float32")
    if found.mean > ROUGH if is_rounded else found.worst > TIE:
        what = "choose a finer quantization" if is_rounded else "please report this, with the model's config.json"
        raise InputError(f"the export does not translate as qkv does ({found}) and was removed; {what}")


# -- how each format translates --------------------------------------------------------------------------------------


def best(engine: "Engine") -> "Decode":
    """The best that one of our own engines finds."""
    return lambda sources, limits, how: [some[0].tokens for some in engine.decode(sources, limits, how)]


def by_ctranslate2(folder: Path, translator: "Translator") -> "Decode":
    from qkv.engines.ctranslate2 import CTranslate2

    return best(CTranslate2(folder, translator.model, translator.tokenizer))


def by_onnx(folder: Path, translator: "Translator") -> "Decode":
    from qkv.convert import OnnxModel
    from qkv.decoding import Plain

    return best(Plain(translator.model, OnnxModel(folder)))


def by_transformers(folder: Path, _: "Translator") -> "Decode | None":
    """None where transformers is not installed."""
    import torch

    from qkv.cli.apart import their_library
    from qkv.decoding import padded
    from qkv.text.tokenizer import EOS

    transformers = their_library()
    if transformers is None:
        return None
    theirs: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)

    def decode(sources: list[list[int]], limits: list[int], how: "Search") -> list[list[int]]:
        src = padded(sources)
        with torch.inference_mode():
            rows = theirs.generate(
                input_ids=src, attention_mask=(src != 0).long(), num_beams=how.beam, do_sample=False,
                max_new_tokens=max(limits), length_penalty=0.0, early_stopping=how.beam > 1,
            ).tolist()  # fmt: skip
        return [row[1 : row.index(EOS)] if EOS in row else row[1:] for row in rows]

    return decode


DECODERS: "dict[str, Callable[[Path, Translator], Decode | None]]" = {
    "ctranslate2": by_ctranslate2,
    "onnx": by_onnx,
    "huggingface": by_transformers,
}
