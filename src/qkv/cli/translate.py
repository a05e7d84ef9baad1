"""qkv translate, qkv score and qkv align: commands that use a translator."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.app import (
    PLAIN,
    Beam,
    Device,
    Engine,
    Flag,
    From,
    Json,
    Model,
    NoSplit,
    OnePart,
    Output,
    Several,
    Shard,
    To,
    prepare,
    print_json,
    read_pairs_for,
)
from qkv.cli.lines import Remarks, beside, chunks, counting, input_chunks, is_path, part_of, printing_to
from qkv.device import ENGINE
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.decoding import Translated, Translator
    from qkv.evaluation import Rouge
    from qkv.text import Pair


def translate(
    *text: str, model: Model | None = None, from_: From = "", to: To = "", beam: Beam = 5, n_best: int = 1,
    alpha: float = 1.0, sample: Flag = False, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
    seed: int = 0, scores: Flag = False, json: Flag = False, output: Output = None,
    kind: Annotated[str | None, Parameter(name="--format")] = None, protect: Several = None,
    memory: Annotated[list[Path] | None, PLAIN] = None, final: Flag = False,
    no_split: NoSplit = False, shard: Shard = None, device: Device = "cpu", engine: Engine = ENGINE,
) -> None:  # fmt: skip
    """Translate text, lines or whole documents: one line out for each line in, and a file of the same format.

    For example:
      qkv translate "Where is the station?" --to de
      qkv translate "Two dogs play in the snow." --model model
      qkv translate news.en --model model -o news.de
      cat news.en | qkv translate --model model --beam 1
      qkv translate news.en --model model --shard 3/8 -o news.de.3
      qkv translate messages.po --model model -o messages.de.po
      qkv translate messages.po --model model --memory old.tmx
      qkv translate page.html --model model
      cat page.html | qkv translate --format html
      qkv translate "Press Start now." --model model --protect "Start|[A-Z]{2,}"

    Args:
      text: Sentences, or the name of one file; nothing for standard input. Files of subtitles (.srt, .vtt), .html, .md,
        .po, .xliff, .tmx, .docx, .json, .arb, .yaml, .properties and .strings keep all that is not language; plain text
        (.txt, .en, no ending) is read line by line.
      model: The model folder, or the name of a translator that comes with qkv (qkv list translators). Unless given, the
        first that translates between --from and --to, of the folder `model` and those; with neither, `model`.
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
      memory: With a document: a file of pairs (.tmx, .po, .tsv ...) whose translations are used where a text stands in
        it word for word; may be given several times.
      final: With a document: do not mark translations as a machine's, which .po, .xliff and .tmx have a place for.
    """
    from qkv.cli.chosen import check_languages, chosen
    from qkv.opening import load_translator

    is_whole, kept = True, None
    if kind or protect or is_path(text):  # what is no file has no format, and its lines need none of this
        from qkv.cli.documents import check_lines, give_file, give_texts, is_document
        from qkv.documents import compiled

        kept, is_whole = compiled(protect or []), bool(kind) or not is_document(text)  # or lines
    if shard and (kind or protect or not is_whole):
        raise InputError("--shard is for the lines of plain text, and a document is translated whole; leave it out")
    model = model or chosen(text, from_, to)
    if (part := part_of(shard, text, output, model)) is None:
        return
    prepare([model], device, engine)
    translator = load_translator(model, device, engine=engine)
    check_languages(translator, model, from_, to)
    how: dict[str, Any] = {"beam": beam, "n_best": n_best, "alpha": alpha, "seed": seed}
    how |= {"sampling": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    how |= {"split": False} if no_split else {}
    if is_whole and (memory or final):
        raise InputError("--memory and --final are for files of a format, such as .po and .html; leave them out")
    if kind or protect or not is_whole:
        if n_best > 1 or scores:
            raise InputError("--n-best and --scores are for lines, and a document has one translation; leave them out")
        if json and is_whole:
            without = "not for a text with --format or --protect"
            raise InputError(f"--json is for lines and for files of a format, {without}; leave it out")
        how["protect"] = kept
        if is_whole:
            return give_texts(translator, kind or "text", text, output, how)
        how |= {"memory": memory or [], "final": final}
        return give_file(translator, Path(text[0]), output, how, json=json)
    if is_path(text):
        check_lines(text, translator.about.get("source", ""))
    given = input_chunks(lines_of(text), "translated", "a sentence", part)
    lines = translated(translator, given, how, beside(output), done=part.lines)
    write = as_json if json else lambda line: as_text(line, n_best, scores)
    with printing_to(output):
        for line in lines:
            print(write(line), flush=output is None)


def lines_of(text: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments may be of several lines; a file's name is none of them."""
    return text if is_path(text) else tuple(line for one in text for line in one.removesuffix("\n").split("\n"))


def translated(
    translator: "Translator", lines: Iterable[list[str]], how: dict[str, Any], remarks_file: Path | None = None,
    *, done: int = 0,
) -> "Iterator[Translated]":  # fmt: skip
    """In chunks, with a counter on standard error for long inputs, and remarks about lines that were not plain; `done`
    lines stand before them."""
    remarks = Remarks(remarks_file)
    with counting("translating", "lines") as tick:
        for some in lines:
            for line in translator.translate(some, first=done, **how):
                done += 1
                for remark in line.remarks():
                    remarks.add(f"line {done} {remark}")
                yield line
            tick(done)
    remarks.close()


def as_text(line: "Translated", n_best: int, scores: bool) -> str:
    several = line.alternatives[:n_best]
    return "\t".join(f"{one.score:.4f}\t{one.text}" if scores else one.text for one in several)


def as_json(line: "Translated") -> str:
    several = [one._asdict() for one in line.alternatives]
    tree = {"text": line.text, "score": line.score, "alternatives": several, "remarks": line.remarks()}
    return json.dumps(tree, ensure_ascii=False)


def score(
    *files: Path, model: Model = Path("model"), beam: Beam = 5, alpha: float = 1.0, lowercase: Flag = False,
    as_paper: Flag = False, confidence: Flag = False, rouge: Flag = False, no_split: NoSplit = False,
    json: Json = False, device: Device = "cpu", engine: Engine = ENGINE, by: str = "",
    part: OnePart = "", beside: Path | None = None,
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
      rouge: Add ROUGE-1, ROUGE-2 and ROUGE-L, which summaries are measured by; of several targets of a source the best
        counts.
      beside: Of a classifier, a second one whose probabilities are averaged with its own.
      by: Another objective to measure by, for a model that was pre-trained: whole spans in place of single pieces.
    """
    from qkv.evaluation import in_words
    from qkv.evaluation import score as measure
    from qkv.opening import has_bleu, load_translator, score_files

    prepare([model], device, engine)
    if model.is_dir() and not has_bleu(model):
        figures = score_files(model, *files, device=device, by=by, part=part, beside=beside)
        return print_json(figures) if json else print(f"{in_words(figures)}   of {figures['examples']:,} examples")
    if part:
        raise InputError(f"{model} translates, which has no parts; leave --part out")
    if beside is not None:
        raise InputError("--beside is for classifiers, whose probabilities are averaged; leave it out")
    translator = load_translator(model, device, engine=engine)
    pairs = list(read_pairs_for(translator, files))
    how = {"beam": beam, "alpha": alpha, **({"split": False} if no_split else {})}
    texts = [line.text for line in translated(translator, chunks(pair.source for pair in pairs), how)]
    target, references = str(translator.about.get("target", "")), [pair.target for pair in pairs]
    result = measure(
        texts, references, target_language=target, lowercase=lowercase, as_paper=as_paper, confidence=confidence
    )
    overlap = of_summaries(pairs, texts)._asdict() if rouge else {}
    if json:
        return print_json({**dataclasses.asdict(result), **overlap})
    low, high = result.bleu_interval or (0, 0)
    interval = f" (95 % between {low:.2f} and {high:.2f})" if result.bleu_interval else ""
    print(f"BLEU {result.bleu:.2f}{interval}   {result.bleu_signature}")
    print(f"chrF {result.chrf:.2f}   {result.chrf_signature}")
    for name, value in overlap.items():
        print(f"{name.upper().replace('_', '-')} {value:.2f}")


def of_summaries(pairs: "list[Pair]", texts: list[str]) -> "Rouge":
    """Each source once, with all its targets."""
    from qkv.evaluation import rouge

    written = {pair.source: text for pair, text in zip(pairs, texts, strict=True)}
    targets: dict[str, list[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, []).append(pair.target)
    return rouge(list(written.values()), list(targets.values()))


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
