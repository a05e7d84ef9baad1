"""qkv quantize: the 8-bit form of a model, checked against the model before it is kept."""

import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from qkv.cli.app import PLAIN, out, print_json
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.decoding import Engine, Translator

MOST = 1000  # pairs to check with
CALIBRATED = 256  # sentences that give the ranges
AGREE = 0.8  # the share of tokens that must stay as they are


def quantize_(
    model: Path,
    *,
    valid: Annotated[list[Path], Parameter(consume_multiple=True)] = [],  # noqa: B006 (never changed)
    beam: int = 5,
    bound: float = 0.5,
    json: Annotated[bool, PLAIN] = False,
) -> None:
    """Make a model's 8-bit form, compare it with the model on validation text, and keep it in the model folder.

    It is refused if BLEU falls by more than --bound, or if fewer than 80 % of the tokens stay as they are.

    For example:
      qkv quantize model
      qkv quantize model --valid val.en val.de

    Parameters
    ----------
    model
        The model folder.
    valid
        A source and a target file, or files of pairs; the validation set of the training run if none.
    beam
        Hypotheses kept in beam search when the two are compared; 1 is greedy.
    bound
        The BLEU that 8 bits may cost.
    json
        Print one JSON object.
    """
    from qkv.engines.quantize import FILE, int8_engine, quantize, save, tokens_agree
    from qkv.opening import load_translator

    translator = load_translator(model, own_process=True)
    pairs = pairs_to_compare(translator, model, valid)
    ids = [
        ids
        for ids in translator.tokenizer.encode_batch([source for source, _ in pairs])
        if 0 < len(ids) <= translator.longest
    ]
    if not ids:
        raise InputError(
            f"none of the {len(pairs)} sources has from 1 to {translator.longest} tokens, as the model was trained on; "
            "give --valid shorter sentences"
        )
    kept = quantize(translator.model, ids[:CALIBRATED])
    engines = {"float32": translator.engine, "int8": int8_engine(translator.model, kept)}
    figures, texts = measured(translator, engines, pairs, beam)
    tokens = {name: [translator.tokenizer.encode(text) for text in some] for name, some in texts.items()}
    figures |= {"sentences": len(pairs), "agreement": tokens_agree(tokens["int8"], tokens["float32"])}
    figures["fall"] = figures["float32_bleu"] - figures["int8_bleu"]
    if figures["fall"] > bound or figures["agreement"] < AGREE:
        raise InputError(
            f"8 bits would cost {figures['fall']:.2f} BLEU and keep {figures['agreement']:.0%} of the tokens (at most "
            f"{bound:g} and at least {AGREE:.0%} are allowed), so nothing was written; translate with --engine lean"
        )
    save(model, kept)
    if json:
        print_json(figures)
        return
    print_figures(figures, list(engines), len(pairs))
    out.print(f"{figures['agreement']:.1%} of the tokens are the same; wrote {model / FILE}, use it with --engine int8")


def measured(
    translator: "Translator", engines: "Mapping[str, Engine]", pairs: list[tuple[str, str]], beam: int
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """BLEU, chrF and seconds of each engine on the same pairs, and what each has written."""
    from qkv.evaluation import score

    figures, texts = dict[str, float](), dict[str, list[str]]()
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    for name, engine in engines.items():
        translator.engine, began = engine, time.perf_counter()
        texts[name] = [line.text for line in translator.translate(sources, beam=beam)]
        seconds = time.perf_counter() - began
        found = score(texts[name], references, target_language=translator.about.get("target", ""))
        figures |= {f"{name}_bleu": found.bleu, f"{name}_chrf": found.chrf, f"{name}_seconds": seconds}
    return figures, texts


def print_figures(figures: dict[str, float], names: list[str], sentences: int) -> None:
    width = max(map(len, names)) + 1
    for name in names:
        bleu, chrf, seconds = (figures[f"{name}_{what}"] for what in ("bleu", "chrf", "seconds"))
        out.print(f"{name:<{width}} BLEU {bleu:.2f}   chrF {chrf:.2f}   {seconds:.1f} s for {sentences} sentences")


def pairs_to_compare(translator: "Translator", model: Path, files: list[Path]) -> list[tuple[str, str]]:
    """Of the files, or the validation set of the training run if there are none."""
    from qkv.tasks.translation import validation_pairs
    from qkv.text import read_pairs

    if files:
        about = translator.about
        read = read_pairs(files, source=about.get("source") or None, target=about.get("target") or None)
        found = [(pair.source, pair.target) for pair in islice(read, MOST)]
    else:
        found = validation_pairs(model, MOST)
    if not found:
        what = (
            "there is no sentence pair to compare with" if files else f"{model} has no validation set of a training run"
        )
        raise InputError(f"{what}; give --valid val.en val.de")
    return found
