"""The command line: one function for each command; each parses, calls and prints."""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.table import Table

import qkv
from qkv import demo as demonstration
from qkv import folder
from qkv.attention import ATTENTIONS
from qkv.decoding import Translated, Translator
from qkv.errors import InputError
from qkv.evaluation import score as measure
from qkv.files import replacing
from qkv.models import MODELS, PRESETS, TransformerConfig, count_parameters
from qkv.objectives import OBJECTIVES, Translation
from qkv.positions import POSITIONS
from qkv.text import languages, read_pairs
from qkv.text.doctor import Report, examine
from qkv.text.lines import read_lines
from qkv.training import SCHEDULES, DataConfig, TrainingConfig
from qkv.training.averaging import mean
from qkv.training.checkpoint import existing
from qkv.training.display import Display
from qkv.training.recipes import recipes
from qkv.training.run import check_out

ABOUT = """Train a Transformer on your own sentence pairs, translate with it, look inside it.

For example:
  qkv demo                                three minutes, English words to sounds
  qkv train pairs.tmx --from en --to de   learn from a translation memory
  qkv train train.en train.de --valid val.en val.de --out model
  qkv translate "Two dogs play in the snow." --model model
  qkv score --model model test.en test.de
"""
# Plain text keeps the lines of the examples; "Examples:" would be read as a section of a docstring, and left out.
app = App(name="qkv", version=qkv.__version__, help=ABOUT, help_format="plaintext")
out = Console(highlight=False, soft_wrap=True)
MULTIPLE = Parameter(consume_multiple=True, negative=())
PLAIN = Parameter(negative=())
SECTIONS = ("--model", "--data", "--objective", "--training")
CHUNK = 256  # lines translated at a time, so that long files show progress and need little memory


def flags(config: type[Any], **more: Any) -> Any:
    """The flags of a settings dataclass: only those that are given reach the command, as a tree."""
    fields = {
        field.name: Annotated[field.type, Parameter(help=field.metadata.get("about", ""))]
        for field in dataclasses.fields(config)
        if not dataclasses.is_dataclass(field.type)
    }
    make: Any = TypedDict
    return make(f"{config.__name__}Flags", {**fields, **more}, total=False)


if TYPE_CHECKING:
    ModelFlags = dict[str, Any]
    DataFlags = dict[str, Any]
    ObjectiveFlags = dict[str, Any]
    TrainingFlags = dict[str, Any]
else:
    PRESET = Annotated[str, Parameter(help=f"sizes to begin with: {', '.join(PRESETS)}")]
    ModelFlags = flags(TransformerConfig, preset=PRESET)
    DataFlags, ObjectiveFlags, TrainingFlags = flags(DataConfig), flags(Translation), flags(TrainingConfig)


@app.command
def train(
    *files: Path,
    from_: Annotated[str, Parameter(name="--from", help="source language, e.g. en")] = "",
    to: Annotated[str, Parameter(help="target language, e.g. de")] = "",
    valid: Annotated[list[Path] | None, MULTIPLE] = None,
    test: Annotated[list[Path] | None, MULTIPLE] = None,
    out: Path = Path("model"),
    recipe: str | None = None,
    minutes: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    restart: Annotated[bool, PLAIN] = False,
    model: ModelFlags | None = None,
    data: DataFlags | None = None,
    objective: ObjectiveFlags | None = None,
    training: TrainingFlags | None = None,
) -> int:
    """Train a translator on files of sentence pairs. The same command again goes on where it stopped.

    For example:
      qkv train pairs.tmx --from en --to de
      qkv train train.en train.de --valid val.en val.de --out model --minutes 30
      qkv train --recipe multi30k-en-de --model.d-model 256

    Parameters
    ----------
    files
        One or more files of pairs (tsv, csv, jsonl, tmx, xliff, po), or a source and a target file; each may be .gz.
    valid
        Files to validate on; without them, pairs are held out.
    test
        Files to keep out of training: pairs whose source is in them are dropped.
    out
        The model folder to write.
    recipe
        A TOML file of settings, or the name of one that `qkv list recipes` shows.
    minutes
        Stop after so much training time.
    epochs
        Stop after so many passes over the data.
    steps
        Stop after so many steps.
    seed
        Decides the order of batches, the first weights and dropout.
    device
        auto, cpu, cuda or mps.
    restart
        Begin anew, even if OUT holds a run.
    """
    given = {"minutes": minutes, "epochs": epochs, "steps": steps, "device": device}
    limits = {name: value for name, value in given.items() if value is not None}
    sections: dict[str, Any] = {
        "model": model or {},
        "data": {**(data or {}), **({"seed": seed} if seed is not None else {})},
        "objective": objective or {},
        "training": {**(training or {}), **limits},
    }
    trained = qkv.train(
        *files, source=from_, target=to, out=out, valid=valid or (), test=test or (), recipe=recipe, restart=restart,
        **{name: tree for name, tree in sections.items() if tree},
    )  # fmt: skip
    return 130 if trained.stopped == "interrupted" else 0


@app.command
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
    device: str = "cpu",
) -> None:
    """Translate text, a file, or lines from standard input: one line out for each line in.

    For example:
      qkv translate "Two dogs play in the snow." --model model
      qkv translate news.en --model model -o news.de
      cat news.en | qkv translate --model model --beam 1

    Parameters
    ----------
    text
        Sentences, or the name of one file; nothing for standard input.
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
        The file to write; standard output if none.
    device
        cpu, cuda or mps.
    """
    translator = Translator.load(model, device)
    how: dict[str, Any] = {"beam": beam, "n_best": n_best, "alpha": alpha, "seed": seed}
    how |= {"sampling": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    lines = input_lines(text)
    write = as_json if json else lambda line: as_text(line, n_best, scores)
    if output is None:
        for line in translated(translator, lines, how):
            print(write(line), flush=True)
        return
    try:
        with writing(output) as path, path.open("w", encoding="utf-8") as file:
            for line in translated(translator, lines, how):
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


def input_lines(text: tuple[str, ...]) -> Iterator[str]:
    if len(text) == 1 and Path(text[0]).is_file():
        return read_lines(Path(text[0]))
    for one in text:
        if Path(one).suffix and not re.search(r"\s", one):  # a file's name, by the look of it
            print(f"{one!r} was not read as a file, it is translated as text", file=sys.stderr)
    if text:
        return iter(text)
    if sys.stdin.isatty():
        print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
    return standard_input()


def standard_input() -> Iterator[str]:
    for number, data in enumerate(sys.stdin.buffer, start=1):
        try:
            line = data.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"line {number}, byte {error.start + 1} (0x{data[error.start]:02x})"
            raise InputError(f"standard input is not UTF-8 in {place}; convert it to UTF-8 text") from None
        yield (line.removeprefix("\ufeff") if number == 1 else line).removesuffix("\n").removesuffix("\r")


def translated(translator: Translator, lines: Iterator[str], how: dict[str, Any]) -> Iterator[Translated]:
    """In chunks, with a counter on standard error for long inputs, and remarks about lines that were not plain."""
    chunk = 1 if sys.stdin.isatty() else CHUNK
    done, waiting = 0, True
    with Display(quiet=not sys.stderr.isatty()).counting("translating", None, "lines") as tick:
        while waiting:
            some = [line for _, line in zip(range(chunk), lines, strict=False)]
            waiting = len(some) == chunk
            for line in translator.translate(some, **how) if some else []:
                done += 1
                for remark in line.remarks():
                    print(f"line {done} {remark}", file=sys.stderr)
                yield line
            tick(done)


def as_text(line: Translated, n_best: int, scores: bool) -> str:
    several = line.alternatives[:n_best]
    return "\t".join(f"{one.score:.4f}\t{one.text}" if scores else one.text for one in several)


def as_json(line: Translated) -> str:
    several = [{"text": one.text, "score": one.score} for one in line.alternatives]
    return json.dumps(
        {"text": line.text, "score": line.score, "alternatives": several, "remarks": line.remarks()}, ensure_ascii=False
    )


@app.command
def score(
    *files: Path,
    model: Path = Path("model"),
    beam: int = 5,
    alpha: float = 1.0,
    lowercase: Annotated[bool, PLAIN] = False,
    as_paper: Annotated[bool, PLAIN] = False,
    confidence: Annotated[bool, PLAIN] = False,
    json: Annotated[bool, PLAIN] = False,
    device: str = "cpu",
) -> None:
    """Translate the source side of test files and measure BLEU and chrF against the target side.

    For example:
      qkv score --model model test.en test.de
      qkv score --model model test.tsv --as-paper --json

    Parameters
    ----------
    files
        A source and a target file, or files of pairs.
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
    json
        Print one JSON object.
    device
        cpu, cuda or mps.
    """
    translator = Translator.load(model, device)
    source, target = (str(translator.about.get(name, "")) for name in ("source", "target"))
    pairs = list(read_pairs(list(files), source=source or None, target=target or None))
    how = {"beam": beam, "alpha": alpha}
    texts = [line.text for line in translated(translator, iter([pair.source for pair in pairs]), how)]
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


def print_json(data: Any) -> None:
    print(json.dumps(data, ensure_ascii=False))


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "positions": lambda: first_lines(POSITIONS),
    "attention": lambda: first_lines(ATTENTIONS),
    "models": lambda: first_lines(MODELS),
    "objectives": lambda: first_lines(OBJECTIVES),
    "schedules": lambda: first_lines(SCHEDULES),
    "recipes": lambda: {name: about for name, (_, about) in recipes().items()},
}


@app.command(name="list")
def list_(what: Literal["positions", "attention", "models", "objectives", "schedules", "recipes"]) -> None:
    """What can be chosen by name in a recipe or a flag.

    For example:
      qkv list positions
      qkv list recipes
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, about in LISTS[what]().items():
        table.add_row(name, about)
    out.print(table)


def first_lines(parts: dict[str, Any]) -> dict[str, str]:
    return {name: (part.__doc__ or "").strip().split("\n")[0] for name, part in parts.items()}


@app.command
def info(model: Path = Path("model"), *, json: Annotated[bool, PLAIN] = False) -> None:
    """What a model folder holds.

    For example:
      qkv info model
    """
    loaded = folder.load(model)
    facts = {
        "folder": str(model),
        "model": type(loaded.model).__name__.lower(),
        "parameters": count_parameters(loaded.model),
        **loaded.about,
        **dataclasses.asdict(loaded.model.config),
        "checkpoints": len(existing(model / "training" / "checkpoints")),
    }
    if json:
        print_json(facts)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    out.print(table)


@app.command
def average(*folders: Path, out: Path, last: int = 5) -> None:
    """Average the weights of several model folders, or of the last checkpoints of one run.

    For example:
      qkv average model --last 3 --out averaged
      qkv average run1 run2 run3 --out averaged

    Parameters
    ----------
    folders
        Model folders or checkpoints of one model; or one run folder.
    out
        The model folder to write.
    last
        Of one run folder: how many of its newest checkpoints.
    """
    if last < 1:
        raise InputError(f"--last is {last}, but at least one checkpoint must be averaged; give 1 or more")
    check_out(out)
    several = list(folders)
    if len(several) == 1:
        several = existing(several[0] / "training" / "checkpoints")[-last:]
        if not several:
            raise InputError(f"{folders[0]} has no checkpoints to average; name several model folders")
    if not several:
        raise InputError("nothing to average; name several model folders, or one run folder")
    loaded = [folder.load(path) for path in several]
    first = loaded[0]
    for path, other in zip(several, loaded, strict=True):
        if other.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise InputError(f"{path} has another vocabulary than {several[0]}; average folders of one run only")
    folder.fill(first.model, mean([folder.weights(one.model) for one in loaded], several), several[0])
    folder.save(out, first.model, first.tokenizer, first.about)
    print(f"{out}: the mean of {len(several)} sets of weights ({', '.join(path.name for path in several)})")


@app.command
def check(
    *files: Path,
    from_: Annotated[str, Parameter(name="--from", help="source language, e.g. en")] = "",
    to: Annotated[str, Parameter(help="target language, e.g. de")] = "",
) -> None:
    """Read files of pairs as training would, and tell what it would find and drop.

    For example:
      qkv check pairs.tmx --from en --to de
    """
    guess = languages(list(files))
    report, rules, seen, twice = Report(), DataConfig().doctor, set(), 0
    read = read_pairs(list(files), source=from_ or guess[0], target=to or guess[1], skipped=report.skipped)
    for pair in examine(read, rules, report):
        key = hash((pair.source, pair.target))
        twice += key in seen
        seen.add(key)
    report.duplicates = twice
    print(f"{report.read:,} pairs read, {report.kept - twice:,} good")
    for line in report.lines():
        print(line)


@app.command
def demo(
    *,
    out: Path = Path("qkv-demo"),
    minutes: float = 3.0,
    say: Annotated[list[str] | None, MULTIPLE] = None,
    seed: int = 1,
    restart: Annotated[bool, PLAIN] = False,
) -> int:
    """Train a small Transformer to pronounce English words, measure it, and draw what it looks at.

    For example:
      qkv demo
      qkv demo --minutes 30 --out pronouncer --say Ada Grace

    Parameters
    ----------
    out
        The model folder to write.
    minutes
        Training time.
    say
        Words to pronounce: your own name, for example.
    seed
        Another seed, another model.
    restart
        Begin anew, even if OUT holds a run.
    """
    return demonstration.run(out, minutes=minutes, words=say or [], seed=seed, restart=restart)


def main() -> None:
    """Run a command; whatever a person did wrong ends in one sentence and a non-zero exit."""
    try:
        check_sections(sys.argv[1:])
        code = app(sys.argv[1:], result_action="return_value", exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        code = fail(" ".join(str(error).split()), 2)
    except InputError as error:
        code = fail(str(error))
    except KeyboardInterrupt:
        code = fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except UnicodeDecodeError as error:
        code = fail(f"the input is not UTF-8 text (byte {error.start}: {error.reason}); convert it to UTF-8")
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        code = fail(f"{name}{error.strerror or error}; check the path, its permissions and the space that is left")
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        code = fail("not enough memory; use a smaller --data.batch-tokens, --beam or model")
    raise SystemExit(code if isinstance(code, int) else 0)


def check_sections(arguments: list[str]) -> None:
    """`train --model x` would be read as the first setting of that section."""
    for argument in arguments[1:] if arguments[:1] == ["train"] else []:
        name = argument.partition("=")[0]
        if name in SECTIONS:
            raise InputError(
                f"{name} is a section of settings; name one of them, for example --model.d-model 256, "
                "or give --out to name the model folder"
            )


def fail(sentence: str, code: int = 1) -> int:
    print(f"qkv: {sentence}", file=sys.stderr)
    return code
