"""qkv quantize and qkv shortlist: faster forms of a model, each compared with the model before it is kept."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.app import Json, Model, print_json, read_pairs_for
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.data import RowsOnDisk
    from qkv.decoding import Engine, Translator
    from qkv.engines.shortlist import Shortlist
    from qkv.folder import Loaded

MOST = 1000  # pairs to check with
CALIBRATED = 256  # texts that say how wide the channels are
Pairs = list[tuple[str, str]]
Figures = dict[str, float]
Corpora = Annotated[Sequence[Path], Parameter(consume_multiple=True)]


def quantize_(model: Model, *, valid: Corpora = (), beam: int = 5, bound: float = 0.5, json: Json = False) -> None:
    """Make a model's 8-bit form, compare it with the model on validation text, and keep it in the model folder.

    A translator's is refused if BLEU falls by more than --bound, or if fewer than 80 % of the tokens stay as they are;
    that of a language model by the latter; that of any other model that reads if the cosine of its vectors with those
    of the model is below 0.99, or a classifier's if it gives another label to more than one text in a hundred.

    For example:
      qkv quantize model
      qkv quantize model --valid val.en val.de
      qkv quantize bert --valid sentences.txt

    Args:
      valid: A source and a target file, or files of pairs; for another model than a translator, texts, one on each
        line. The validation set of the training run if none.
      beam: Hypotheses kept in beam search when the two are compared; 1 is greedy.
      bound: The BLEU that 8 bits may cost.
    """
    from qkv.convert import digest
    from qkv.convert.native import can_write, has_native_form, write
    from qkv.engines.forming import AGREE
    from qkv.engines.native.library import Native
    from qkv.engines.native.reader import FILE
    from qkv.engines.native.writer import NativeWriter
    from qkv.engines.quantize import tokens_agree
    from qkv.files import remove, replacing
    from qkv.folder.loaded import may_be_theirs
    from qkv.opening import load_translator, may_translate

    if (model / FILE).exists() and not (may_be_theirs(model) or any(model.glob("*.safetensors"))):
        raise InputError(
            f"{model} has its 8 bits alone, with no weights to compare them with; give the folder it is from"
        )
    if not may_translate(model):
        return quantize_reader_(model, valid, json=json)
    translator = load_translator(model, engine="float32")
    if has_native_form(translator.model) and not can_write(translator.model):
        kind = type(translator.model).__name__
        raise InputError(f"{model} holds a {kind}, which 8 bits can read with and not write; use --engine plain")
    pairs = pairs_to_compare(translator, model, valid)
    with replacing(model / FILE) as new:
        write(new, translator.model, made_of=digest(model))
        engines = {"float32": translator.engine, "int8": NativeWriter.of(translator.model, Native(new))}
        figures, texts = measured(translator, engines, pairs, beam)
        tokens = {name: [translator.tokenizer.encode(text) for text in some] for name, some in texts.items()}
        share = tokens_agree(tokens["int8"], tokens["float32"])
        fall = figures["float32_bleu"] - figures["int8_bleu"]
        figures |= {"sentences": len(pairs), "agreement": share, "fall": fall}
        if fall > bound or share < AGREE:
            remove(model / FILE)  # which a run may have left there, by fewer sentences; the weights are elsewhere
            raise InputError(
                f"8 bits would cost {fall:.2f} BLEU and keep {share:.0%} of the tokens (at most {bound:g} and at least "
                f"{AGREE:.0%} are allowed), so there is no {FILE}; translate with --engine float32"
            )
    if json:
        return print_json(figures)
    print_figures(figures, engines)
    print(f"{share:.1%} of the tokens are the same; wrote {model / FILE}, use it with --engine int8")


def quantize_reader_(model: Path, valid: Sequence[Path], *, json: bool) -> None:
    """Of a model that reads texts, or goes on from them."""
    from qkv import folder
    from qkv.convert import digest
    from qkv.convert.native import stacks_of, write
    from qkv.decoding import Plain
    from qkv.engines.forming import AGREE, ALIKE, SAME
    from qkv.engines.likeness import likeness, same_next
    from qkv.engines.native.library import Native
    from qkv.engines.native.reader import FILE, native_reader
    from qkv.engines.native.writer import NativeWriter
    from qkv.engines.quantize import smoothing
    from qkv.files import remove, replacing
    from qkv.models import GPT2, Headed

    loaded = folder.load(model)
    read: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    stacks_of(read)  # or it is refused
    rows = rows_to_compare(loaded, model, valid)
    figures: Figures = {"texts": len(rows)}
    with replacing(model / FILE) as new:
        write(new, read, smooth=smoothing(read, rows[:CALIBRATED]), made_of=digest(model))
        figures |= likeness(loaded.model, native_reader(loaded.model, Native(new)), rows)
        least = {"cosine": ALIKE, **({"same_labels": SAME} if "same_labels" in figures else {})}
        if isinstance(loaded.model, GPT2):  # it writes, too
            written = NativeWriter.of(loaded.model, Native(new))
            figures["same_tokens"] = same_next(Plain(loaded.model), written, rows)
            least |= {"same_tokens": AGREE}
        said = told(figures)
        if any(figures[name] < bound for name, bound in least.items()):
            bounds = " and ".join(f"{bound:g}" for bound in least.values())
            remove(model / FILE)
            raise InputError(
                f"with 8 bits {said} (at least {bounds} is asked for), so there is no {FILE}; use another engine"
            )
    if json:
        return print_json(figures)
    print(f"{said}, of {len(rows)} texts; wrote {model / FILE}, use it with --engine int8")


def told(figures: Figures) -> str:
    said = f"the cosine with the model's vectors is {figures['cosine']:.4f}, {figures['lowest_cosine']:.4f} at least"
    shares = {"same_labels": "labels", "same_tokens": "next tokens"}
    more = [f"{figures[name]:.1%} of the {what} are the same" for name, what in shares.items() if name in figures]
    return "; ".join([said, *more])


def rows_to_compare(loaded: "Loaded", model: Path, files: Sequence[Path]) -> list[list[int]]:
    """The ids of some texts: the lines of files, or the validation set of the run if there are none."""
    from qkv.data import each_row
    from qkv.folder import RunFolder
    from qkv.models import GPT2, Headed
    from qkv.tasks import Corpus
    from qkv.text.lines import read_lines

    read: Any = loaded.model.backbone if isinstance(loaded.model, Headed) else loaded.model
    place = RunFolder(model).corpus
    most = int(read.config.max_length) // (2 if isinstance(read, GPT2) else 1)  # one that writes goes on from them
    if files:
        lines = islice((line for file in files for line in read_lines(file) if line.strip()), MOST)
        rows = loaded.tokenizer.encode_batch(list(lines))
        if not isinstance(loaded.model, GPT2):
            rows = [read.frame.join(loaded.tokenizer, [row], most)[0] for row in rows]
    else:
        rows = [row[0] for row in islice(each_row(Corpus.open(place).valid), MOST)] if place.exists() else []
    found = [row[i : i + most] for row in rows for i in range(0, len(row), most)][:MOST]  # running text is one row
    if not found:
        what = "no text was found to compare with" if files else f"{model} has no validation set of a training run"
        raise InputError(f"{what}; give --valid sentences.txt")
    return found


def shortlist_(
    model: Model,
    *,
    train: Corpora = (),
    valid: Corpora = (),
    frequent: int = 600,
    each: int = 50,
    beam: int = 5,
    bound: float = 0.5,
    json: Json = False,
) -> None:
    """Learn which words each source word may become, so that translating tries these few and not the vocabulary.

    It is compared with the whole vocabulary on validation text, and refused if BLEU falls by more than --bound. Then
    `qkv translate --engine float32+shortlist` uses it.

    For example:
      qkv shortlist model
      qkv shortlist model --train train.en train.de --valid val.en val.de

    Args:
      train: A source and a target file, or files of pairs, to learn from; the data of the training run if none.
      valid: A source and a target file, or files of pairs, to compare with; the validation set of the run if none.
      frequent: The commonest words, which every sentence may use.
      each: Other words, the likeliest, for each source word.
      beam: Hypotheses kept in beam search when the two are compared; 1 is greedy.
      bound: The BLEU that a shortlist may cost.
    """
    from qkv.engines import WITH
    from qkv.engines.native.kept import has_fast_bytes, native_file
    from qkv.engines.native.writer import NativeWriter
    from qkv.engines.shortlist import FILE, Shortlisted, check_engine, make_shortlist, save
    from qkv.opening import load_translator

    translator = load_translator(model, engine="float32")
    tokenizer, kinds = translator.tokenizer, {"float32": check_engine(translator.engine)}
    pairs = pairs_to_compare(translator, model, valid)
    with training_data(translator, model, train) as corpus:
        made = make_shortlist(corpus, len(tokenizer), frequent=frequent, each=each)
    if has_fast_bytes(model):
        kinds["int8"] = NativeWriter.of(translator.model, native_file(model))
    engines: dict[str, Engine] = {}
    for name, engine in kinds.items():
        engines |= {name: engine, name + WITH: Shortlisted(engine, made)}
    figures, _ = measured(translator, engines, pairs, beam)
    figures |= {"sentences": len(pairs), **sizes(made, *map(tokenizer.encode_batch, zip(*pairs, strict=True)))}
    fall = figures["fall"] = max(figures[f"{name}_bleu"] - figures[f"{name}{WITH}_bleu"] for name in kinds)
    if fall > bound:
        raise InputError(
            f"the shortlist would cost {fall:.2f} BLEU (at most {bound:g} is allowed), so nothing was "
            "written; give more words with --frequent and --each"
        )
    save(model, made, tokenizer)
    if json:
        return print_json(figures)
    print_figures(figures, engines)
    words, covered = figures["words"], figures["covered"]
    print(f"a sentence may use {words:.0f} of {len(tokenizer)} words, {covered:.1%} of its reference among them")
    print(f"BLEU falls by {fall:.2f} at most")
    print(f"wrote {model / FILE}, use it with --engine float32{WITH}" + f" or int8{WITH}" * ("int8" in kinds))


def pairs_to_compare(translator: "Translator", model: Path, files: Sequence[Path]) -> Pairs:
    """Of the files, or the validation set of the training run if there are none."""
    from qkv.tasks.translation import validation_pairs

    if files:
        found = [(pair.source, pair.target) for pair in islice(read_pairs_for(translator, files), MOST)]
    else:
        found = validation_pairs(model, MOST)
    if not found:
        none = "there is no sentence pair to compare with"
        what = none if files else f"{model} has no validation set of a training run"
        raise InputError(f"{what}; give --valid val.en val.de")
    return found


def measured(
    translator: "Translator", engines: "Mapping[str, Engine]", pairs: Pairs, beam: int
) -> tuple[Figures, dict[str, list[str]]]:
    """BLEU, chrF and seconds of each engine on the same pairs, and what each has written."""
    from qkv.evaluation import score

    figures, texts = Figures(), dict[str, list[str]]()
    sources, references = map(list, zip(*pairs, strict=True))
    for name, engine in engines.items():
        translator.engine, began = engine, time.perf_counter()
        texts[name] = [line.text for line in translator.translate(sources, beam=beam)]
        seconds = time.perf_counter() - began
        found = score(texts[name], references, target_language=translator.about.get("target", ""))
        figures |= {f"{name}_bleu": found.bleu, f"{name}_chrf": found.chrf, f"{name}_seconds": seconds}
    return figures, texts


def print_figures(figures: Figures, engines: "Mapping[str, Engine]") -> None:
    width, sentences = max(map(len, engines)) + 1, figures["sentences"]
    for name in engines:
        bleu, chrf, seconds = (figures[f"{name}_{what}"] for what in ("bleu", "chrf", "seconds"))
        print(f"{name:<{width}} BLEU {bleu:.2f}   chrF {chrf:.2f}   {seconds:.1f} s for {sentences} sentences")


@contextmanager
def training_data(translator: "Translator", model: Path, files: Sequence[Path]) -> "Iterator[RowsOnDisk]":
    from qkv.data import RowsOnDisk, write_rows
    from qkv.folder import RunFolder
    from qkv.tasks.translation import PairsConfig, Translate

    tokenizer, kept = translator.tokenizer, RunFolder(model).corpus / "train"
    if not files:
        if not kept.exists():
            raise InputError(f"{model} has no data of a training run; give --train train.en train.de")
        yield RowsOnDisk.open(kept, tokenizer.fingerprint)
        return
    longest = translator.model.config.max_length
    rows = Translate(PairsConfig()).rows(read_pairs_for(translator, files), tokenizer, {})
    with tempfile.TemporaryDirectory() as place:
        write_rows(Path(place) / "train", rows, columns=2, vocab_size=len(tokenizer), fingerprint=tokenizer.fingerprint,
                   count=1, longest=(longest + 1, longest + 2), unique=True)  # fmt: skip
        yield RowsOnDisk.open(Path(place) / "train", tokenizer.fingerprint)


def sizes(made: "Shortlist", sources: list[list[int]], targets: list[list[int]]) -> Figures:
    """The mean number of words that a sentence may use, and the share of the references' words that are among them."""
    from qkv.decoding import padded

    allowed = [set(made.of(padded([source]))[0].tolist()) for source in sources]
    hits = [word in known for known, target in zip(allowed, targets, strict=True) for word in target]
    return {"words": sum(map(len, allowed)) / len(sources), "covered": sum(hits) / max(1, len(hits))}
