"""qkv translate, qkv score and qkv align: commands that use a translator."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from cyclopts import Parameter

from qkv.cli.app import (
    Beam,
    Device,
    Engine,
    Flag,
    Json,
    Model,
    OnePart,
    Output,
    Several,
    WholeLines,
    print_json,
    read_pairs_for,
)
from qkv.cli.lines import chunks, input_chunks, new_file
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.decoding import Translated, Translator


def translate(
    *text: str, model: Model = Path("model"), beam: Beam = 5, n_best: int = 1, alpha: float = 1.0,
    sample: Flag = False, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0,
    scores: Flag = False, json: Flag = False, output: Output = None,
    kind: Annotated[str | None, Parameter(name="--format")] = None, protect: Several = None,
    whole_lines: WholeLines = False, device: Device = "cpu", engine: Engine = "lean",
) -> None:  # fmt: skip
    """Translate text, lines or whole documents: one line out for each line in, and a file of the same format.

    For example:
      qkv translate "Two dogs play in the snow." --model model
      qkv translate news.en --model model -o news.de
      cat news.en | qkv translate --model model --beam 1
      qkv translate messages.po --model model -o messages.de.po
      qkv translate page.html --model model
      cat page.html | qkv translate --format html
      qkv translate "Press Start now." --model model --protect "Start|[A-Z]{2,}"

    Args:
      text: Sentences, or the name of one file; nothing for standard input. Files of subtitles (.srt, .vtt), .html, .md,
        .po, .xliff, .tmx and .docx keep all that is not language; any other is read line by line.
      n_best: Translations for each line, best first, with tabs between them.
      alpha: Length penalty: 0 for none, larger for longer translations.
      sample: Draw from the model's distribution instead of searching.
      temperature: With --sample: below 1 sharper, above 1 flatter.
      top_k: With --sample: only the k most probable tokens; 0 for all.
      top_p: With --sample: only the fewest tokens whose probabilities reach p.
      seed: With --sample: another seed, another translation.
      scores: Put each translation's score and a tab before it.
      json: A JSON object for each line: text, score, alternatives, remarks.
      output: The file to write; standard output if none, or for a document its name with the target language in it.
      kind: Read the input as a whole: text keeps lines, spaces and placeholders, html keeps tags as well.
      protect: A regular expression: what matches comes back byte for byte; may be given several times. The input is
        read as a whole, as with --format text. One that takes very long for some texts is your own: prefer simple ones.
    """
    from qkv.cli.documents import give_file, give_texts, is_document
    from qkv.documents import compiled
    from qkv.opening import load_translator

    kept = compiled(protect or [])
    translator = load_translator(model, device, engine=engine, own_process=True)
    how: dict[str, Any] = {"beam": beam, "n_best": n_best, "alpha": alpha, "seed": seed}
    how |= {"sampling": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if kind or protect or is_document(text):
        is_whole = bool(kind) or not is_document(text)
        if n_best > 1 or scores:
            raise InputError("--n-best and --scores are for lines, and a document has one translation; leave them out")
        if json and is_whole:
            without = "not for a text with --format or --protect"
            raise InputError(f"--json is for lines and for files of a format, {without}; leave it out")
        how["protect"] = kept
        if is_whole:
            return give_texts(translator, kind or "text", text, output, how)
        return give_file(translator, Path(text[0]), output, how, json=json)
    how["split"] = not whole_lines
    lines = translated(translator, input_chunks(text, "translated", "a sentence"), how)
    write = as_json if json else lambda line: as_text(line, n_best, scores)
    with nullcontext(sys.stdout) if output is None else writing(output) as file:
        for line in lines:
            print(write(line), file=file, flush=output is None)


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """The whole file or none; but a device or a pipe is written as it is, and never replaced by a file."""
    with new_file(path) as new, new.open("w", encoding="utf-8") as file:
        yield file


def translated(translator: "Translator", lines: Iterable[list[str]], how: dict[str, Any]) -> "Iterator[Translated]":
    """In chunks, with a counter on standard error for long inputs, and remarks about lines that were not plain."""
    from qkv.training.display import Display

    done = 0
    with Display(quiet=not sys.stderr.isatty()).counting("translating", None, "lines") as tick:
        for some in lines:
            for line in translator.translate(some, **how):
                done += 1
                for remark in line.remarks():
                    print(f"line {done} {remark}", file=sys.stderr)
                yield line
            tick(done)


def as_text(line: "Translated", n_best: int, scores: bool) -> str:
    several = line.alternatives[:n_best]
    return "\t".join(f"{one.score:.4f}\t{one.text}" if scores else one.text for one in several)


def as_json(line: "Translated") -> str:
    several = [one._asdict() for one in line.alternatives]
    tree = {"text": line.text, "score": line.score, "alternatives": several, "remarks": line.remarks()}
    return json.dumps(tree, ensure_ascii=False)


def score(
    *files: Path, model: Model = Path("model"), beam: Beam = 5, alpha: float = 1.0, lowercase: Flag = False,
    as_paper: Flag = False, confidence: Flag = False, whole_lines: WholeLines = False, json: Json = False,
    device: Device = "cpu", engine: Engine = "lean", by: str = "", part: OnePart = "",
) -> None:  # fmt: skip
    """Translate the source side of test files and measure BLEU and chrF against the target side.

    With a model of another task: the figures of that task on files as it reads them; accuracy, for example, and where
    answers are classes, macro-F1 and the Matthews correlation.

    For example:
      qkv score --model model test.en test.de
      qkv score --model model test.tsv --as-paper --json
      qkv score --model bert wiki.txt --by "masked_lm(unit='span')"

    Args:
      files: A source and a target file, or files of pairs; or files as the model's task reads them.
      alpha: Length penalty.
      lowercase: Compare lower-cased text.
      as_paper: Lower-cased Moses tokens, as papers on Multi30k print BLEU; not comparable with the default.
      confidence: Add the 95 % interval by bootstrap.
      by: Another objective to measure by, for a model that was pre-trained: whole spans in place of single pieces.
    """
    from qkv.evaluation import in_words
    from qkv.evaluation import score as measure
    from qkv.opening import load_translator, score_files, task_in_folder

    if model.is_dir() and "bleu" not in task_in_folder(model).figures:
        figures = score_files(model, *files, device=device, by=by, part=part)
        return print_json(figures) if json else print(f"{in_words(figures)}   of {figures['examples']:,} examples")
    if part:
        raise InputError(f"{model} translates, which has no parts; leave --part out")
    translator = load_translator(model, device, engine=engine, own_process=True)
    pairs = list(read_pairs_for(translator, files))
    how = {"beam": beam, "alpha": alpha, "split": not whole_lines}
    texts = [line.text for line in translated(translator, chunks(pair.source for pair in pairs), how)]
    target, references = str(translator.about.get("target", "")), [pair.target for pair in pairs]
    result = measure(
        texts, references, target_language=target, lowercase=lowercase, as_paper=as_paper, confidence=confidence
    )
    if json:
        return print_json(dataclasses.asdict(result))
    low, high = result.bleu_interval or (0, 0)
    interval = f" (95 % between {low:.2f} and {high:.2f})" if result.bleu_interval else ""
    print(f"BLEU {result.bleu:.2f}{interval}   {result.bleu_signature}")
    print(f"chrF {result.chrf:.2f}   {result.chrf_signature}")


def align(
    *files: Path, model: Model = Path("model"), tune: Flag = False, layer: int | None = None, threshold: float = 0.0,
    json: Flag = False, device: Device = "cpu",
) -> None:  # fmt: skip
    """Print word alignments of sentence pairs, one line for each pair: 0-0 1-2 links source word 1 to target word 2.

    Words are what spaces part, counted from 0. First choose the layer that suits the model, once, with --tune.

    For example:
      qkv align --model model --tune val.en val.de
      qkv align --model model news.en news.de > news.align

    Args:
      files: A source and a target file, or files of pairs.
      tune: Choose the decoder layer whose links agree best with which words stand together in these pairs, and keep it
        in the model folder as alignment.json; a few hundred pairs are enough.
      layer: Another decoder layer, counted from 1.
      threshold: Leave a target word without a link if less than this share of its attention goes to any one source
        word.
      json: With --tune: print what was chosen as JSON; else a list of links for each pair.
    """
    from qkv.decoding.alignment import align as find_links
    from qkv.decoding.alignment import best_layer, save_readout, to_pharaoh
    from qkv.opening import load_translator

    translator = load_translator(model, device)
    pairs = [(pair.source, pair.target) for pair in read_pairs_for(translator, files)]
    if tune:
        chosen = best_layer(translator, pairs)
        save_readout(model, chosen)
        row = "reads" if chosen.shift else "predicts"
        facts = f"layer {chosen.layer}, the row that {row} a word; agreement {chosen.agreement:.3f}"
        print_json(vars(chosen)) if json else print(f"{model}: {facts}")
        return
    for some in chunks(pairs):
        for links in find_links(translator, some, layer=layer, threshold=threshold):
            print_json(links) if json else print(to_pharaoh(links))
