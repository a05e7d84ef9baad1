"""qkv shortlist: the words that each source word may become, checked against the whole vocabulary before it is kept."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from qkv.cli.app import PLAIN, out, print_json
from qkv.cli.quantize import measured, pairs_to_compare, print_figures
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.data import RowsOnDisk
    from qkv.decoding import Engine, Translator
    from qkv.engines.lean_engine import Lean
    from qkv.engines.shortlist import Shortlist


def shortlist_(
    model: Path,
    *,
    train: Annotated[list[Path], Parameter(consume_multiple=True)] = [],  # noqa: B006 (never changed)
    valid: Annotated[list[Path], Parameter(consume_multiple=True)] = [],  # noqa: B006
    frequent: int = 600,
    each: int = 50,
    beam: int = 5,
    bound: float = 0.5,
    json: Annotated[bool, PLAIN] = False,
) -> None:
    """Learn which words each source word may become, so that translating tries these few and not the vocabulary.

    It is compared with the whole vocabulary on validation text, and refused if BLEU falls by more than --bound. Then
    `qkv translate --engine lean+shortlist` uses it.

    For example:
      qkv shortlist model
      qkv shortlist model --train train.en train.de --valid val.en val.de

    Parameters
    ----------
    model
        The model folder.
    train
        A source and a target file, or files of pairs, to learn from; the data of the training run if none.
    valid
        A source and a target file, or files of pairs, to compare with; the validation set of the run if none.
    frequent
        The commonest words, which every sentence may use.
    each
        Other words, the likeliest, for each source word.
    beam
        Hypotheses kept in beam search when the two are compared; 1 is greedy.
    bound
        The BLEU that a shortlist may cost.
    json
        Print one JSON object.
    """
    from qkv.engines.lean_engine import Lean
    from qkv.engines.quantize import FILE as QUANTISED
    from qkv.engines.quantize import open_int8, standard
    from qkv.engines.shortlist import FILE, WITH, Shortlisted, make_shortlist, save
    from qkv.folder import Loaded
    from qkv.opening import load_translator

    translator = load_translator(model, own_process=True)
    plain, tokenizer = standard(translator.model), translator.tokenizer
    pairs = pairs_to_compare(translator, model, valid)
    with training_data(translator, model, train) as corpus:
        made = make_shortlist(corpus, len(tokenizer), frequent=frequent, each=each)
    kinds = {"lean": Lean(plain)}
    if (model / QUANTISED).exists():
        kinds["int8"] = cast("Lean", open_int8(model, Loaded(plain, tokenizer, translator.about), "cpu"))
    engines: dict[str, Engine] = {}
    for name, engine in kinds.items():
        engines |= {name: engine, name + WITH: Shortlisted(engine, made)}
    figures, _ = measured(translator, engines, pairs, beam)
    figures |= {"sentences": len(pairs), **sizes(made, tokenizer.encode_batch([source for source, _ in pairs]),
                                                 tokenizer.encode_batch([target for _, target in pairs]))}  # fmt: skip
    figures["fall"] = max(figures[f"{name}_bleu"] - figures[f"{name}{WITH}_bleu"] for name in kinds)
    if figures["fall"] > bound:
        raise InputError(
            f"the shortlist would cost {figures['fall']:.2f} BLEU (at most {bound:g} is allowed), so nothing was "
            "written; give more words with --frequent and --each"
        )
    save(model, made, tokenizer)
    if json:
        print_json(figures)
        return
    print_figures(figures, list(engines), len(pairs))
    words, covered = figures["words"], figures["covered"]
    out.print(f"a sentence may use {words:.0f} of {len(tokenizer)} words, {covered:.1%} of its reference among them")
    out.print(f"BLEU falls by {figures['fall']:.2f} at most")
    out.print(f"wrote {model / FILE}, use it with --engine lean{WITH}" + f" or int8{WITH}" * ("int8" in kinds))


@contextmanager
def training_data(translator: "Translator", model: Path, files: list[Path]) -> "Iterator[RowsOnDisk]":
    from qkv.data import RowsOnDisk, write_rows
    from qkv.folder import RunFolder
    from qkv.tasks.translation import PairsConfig, Translate
    from qkv.text import read_pairs

    tokenizer, kept = translator.tokenizer, RunFolder(model).corpus / "train"
    if not files:
        if not kept.exists():
            raise InputError(f"{model} has no data of a training run; give --train train.en train.de")
        yield RowsOnDisk.open(kept, tokenizer.fingerprint)
        return
    source, target = translator.about.get("source") or None, translator.about.get("target") or None
    longest = translator.model.config.max_length
    rows = Translate(PairsConfig()).rows(read_pairs(files, source=source, target=target), tokenizer, {})
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place) / "train", rows, columns=2, vocab_size=len(tokenizer), fingerprint=tokenizer.fingerprint,
                   count=1, longest=(longest + 1, longest + 2), unique=True)  # fmt: skip
        yield RowsOnDisk.open(Path(place) / "train", tokenizer.fingerprint)


def sizes(made: "Shortlist", sources: list[list[int]], targets: list[list[int]]) -> dict[str, float]:
    """The mean number of words that a sentence may use, and the share of the references' words that are among them."""
    from qkv.decoding import padded

    words, hits, total = 0, 0, 0
    for source, target in zip(sources, targets, strict=True):
        ids, _ = made.of(padded([source]))
        words += len(ids)
        known = set(ids.tolist())
        hits += sum(word in known for word in target)
        total += len(target)
    return {"words": words / len(sources), "covered": hits / max(1, total)}
