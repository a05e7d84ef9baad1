"""qkv translate and qkv score: commands that use a model folder."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.app import PLAIN, out, print_json
from qkv.cli.lines import chunks, input_chunks
from qkv.errors import InputError
from qkv.files import replacing

if TYPE_CHECKING:
    from qkv.decoding import Translated, Translator


def translate(
    *text: str,
    model: Path = Path("model"),
    beam: int = 5,
    n_best: int = 1,
    alpha: float = 1.0,
    sample: Annotated[bool, PLAIN] = False,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    scores: Annotated[bool, PLAIN] = False,
    json: Annotated[bool, PLAIN] = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    kind: Annotated[str | None, Parameter(name="--format")] = None,
    protect: Annotated[list[str] | None, PLAIN] = None,
    whole_lines: Annotated[bool, PLAIN] = False,
    device: str = "cpu",
    engine: str = "lean",
) -> None:
    """Translate text, lines or whole documents: one line out for each line in, and a file of the same format.

    For example:
      qkv translate "Two dogs play in the snow." --model model
      qkv translate news.en --model model -o news.de
      cat news.en | qkv translate --model model --beam 1
      qkv translate messages.po --model model -o messages.de.po
      qkv translate page.html --model model
      cat page.html | qkv translate --format html
      qkv translate "Press Start now." --model model --protect "Start|[A-Z]{2,}"

    Parameters
    ----------
    text
        Sentences, or the name of one file; nothing for standard input. Files of subtitles (.srt, .vtt), .html, .md,
        .po, .xliff, .tmx and .docx keep all that is not language; any other is read line by line.
    model
        The model folder.
    beam
        Hypotheses kept in beam search; 1 is greedy.
    n_best
        Translations for each line, best first, with tabs between them.
    alpha
        Length penalty: 0 for none, larger for longer translations.
    sample
        Draw from the model's distribution instead of searching.
    temperature
        With --sample: below 1 sharper, above 1 flatter.
    top_k
        With --sample: only the k most probable tokens; 0 for all.
    top_p
        With --sample: only the fewest tokens whose probabilities reach p.
    seed
        With --sample: another seed, another translation.
    scores
        Put each translation's score and a tab before it.
    json
        A JSON object for each line: text, score, alternatives, remarks.
    output
        The file to write; standard output if none, or for a document its name with the target language in it.
    kind
        Read the input as a whole: text keeps lines, spaces and placeholders, html keeps tags as well.
    protect
        A regular expression: what matches comes back byte for byte; may be given several times. The input is read as a
        whole, as with --format text. One that takes very long for some texts is your own: prefer simple ones.
    whole_lines
        Do not part a line into its sentences: for models that were trained on lines of several.
    device
        cpu, cuda or mps.
    engine
        What searches: lean, int8 (after qkv quantize), either with +shortlist (after qkv shortlist), ctranslate2,
        ctranslate2-int8, or auto: the fastest here.
    """
    from qkv.cli.documents import check_flags, give_file, give_texts, is_document
    from qkv.documents import compiled
    from qkv.opening import load_translator

    kept = compiled(protect or [])
    translator = load_translator(model, device, engine=engine, own_process=True)
    how: dict[str, Any] = {"beam": beam, "n_best": n_best, "alpha": alpha, "seed": seed}
    how |= {"sampling": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if kind or protect or is_document(text):
        is_whole = bool(kind) or not is_document(text)
        check_flags(n_best, scores, json=json and is_whole)
        how["protect"] = kept
        if is_whole:
            return give_texts(translator, kind or "text", text, output, how)
        return give_file(translator, Path(text[0]), output, how, json=json)
    how["split"] = not whole_lines
    lines = translated(translator, input_chunks(text, "translated", "a sentence"), how)
    write = as_json if json else lambda line: as_text(line, n_best, scores)
    if output is None:
        for line in lines:
            print(write(line), flush=True)
        return
    try:
        with writing(output) as path, path.open("w", encoding="utf-8") as file:
            for line in lines:
                print(write(line), file=file)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror or error}; give --output another place") from None


def writing(path: Path) -> AbstractContextManager[Path]:
    """The whole file or none; but a device or a pipe is written as it is, and never replaced by a file."""
    above = next((folder for folder in path.parents if folder.exists()), Path())
    if path.is_dir() or not above.is_dir():
        taken, kind = (path, "folder") if path.is_dir() else (above.name, "file")
        raise InputError(f"cannot write {path}, since {taken} is a {kind}; give --output the name of a new file")
    return nullcontext(path) if path.exists() and not path.is_file() else replacing(path)


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
    several = [{"text": one.text, "score": one.score} for one in line.alternatives]
    return json.dumps(
        {"text": line.text, "score": line.score, "alternatives": several, "remarks": line.remarks()}, ensure_ascii=False
    )


def score(
    *files: Path,
    model: Path = Path("model"),
    beam: int = 5,
    alpha: float = 1.0,
    lowercase: Annotated[bool, PLAIN] = False,
    as_paper: Annotated[bool, PLAIN] = False,
    confidence: Annotated[bool, PLAIN] = False,
    whole_lines: Annotated[bool, PLAIN] = False,
    json: Annotated[bool, PLAIN] = False,
    device: str = "cpu",
    engine: str = "lean",
) -> None:
    """Translate the source side of test files and measure BLEU and chrF against the target side.

    With a model of another task: accuracy on files of that task; where answers are classes, macro-F1 and the Matthews
    correlation too.

    For example:
      qkv score --model model test.en test.de
      qkv score --model model test.tsv --as-paper --json

    Parameters
    ----------
    files
        A source and a target file, or files of pairs; or files as the model's task reads them.
    model
        The model folder.
    beam
        Hypotheses kept in beam search; 1 is greedy.
    alpha
        Length penalty.
    lowercase
        Compare lower-cased text.
    as_paper
        Lower-cased Moses tokens, as papers on Multi30k print BLEU; not comparable with the default.
    confidence
        Add the 95 % interval by bootstrap.
    whole_lines
        Do not part a line into its sentences: for models that were trained on lines of several.
    json
        Print one JSON object.
    device
        cpu, cuda or mps.
    engine
        What searches: lean, int8 (after qkv quantize), either with +shortlist (after qkv shortlist), ctranslate2,
        ctranslate2-int8, or auto: the fastest here.
    """
    from qkv.evaluation import score as measure
    from qkv.opening import load_translator, task_in_folder
    from qkv.text import read_pairs

    if model.is_dir() and task_in_folder(model) != "translate":
        return score_task(model, files, device, as_json=json)
    translator = load_translator(model, device, engine=engine, own_process=True)
    source, target = translator.about.get("source", ""), translator.about.get("target", "")
    pairs = list(read_pairs(list(files), source=source or None, target=target or None))
    how = {"beam": beam, "alpha": alpha, "split": not whole_lines}
    texts = [line.text for line in translated(translator, chunks(pair.source for pair in pairs), how)]
    result = measure(
        texts, [pair.target for pair in pairs],
        target_language=target, lowercase=lowercase, as_paper=as_paper, confidence=confidence,
    )  # fmt: skip
    if json:
        print_json(dataclasses.asdict(result))
        return
    low, high = result.bleu_interval or (0, 0)
    interval = f" (95 % between {low:.2f} and {high:.2f})" if result.bleu_interval else ""
    out.print(f"BLEU {result.bleu:.2f}{interval}   {result.bleu_signature}")
    out.print(f"chrF {result.chrf:.2f}   {result.chrf_signature}")


def score_task(model: Path, files: tuple[Path, ...], device: str, *, as_json: bool) -> None:
    from qkv.evaluation import in_words
    from qkv.opening import score_files

    result = score_files(model, *files, device=device)
    if as_json:
        print_json(result)
    else:
        out.print(f"{in_words(result)}   of {result['examples']:,} examples")
