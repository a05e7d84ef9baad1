"""qkv train and qkv demo: commands that make a model folder."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from cyclopts import Group, Parameter
from cyclopts.help import DefaultFormatter

from qkv import lifeline
from qkv.cli.app import MULTIPLE, Files, From, Restart, To
from qkv.cli.launch import is_rank, run_ranks
from qkv.contents import Part, Setting, Settings, attribute, settings, table
from qkv.errors import InputError

ALL = "--help-all"
MATTER = ("model.preset", "model.d_model", "data.vocab_size", "training.learning_rate")  # settings that --help has, too


def sections(console: Any, options: Any, panel: Any) -> None:
    """The settings of a section are many: --help leaves them out, and --help-all has them."""
    if ALL in sys.argv:
        DefaultFormatter()(console, options, panel)


def flags(fields: Settings, section: str = "") -> Any:
    """The flags of some settings: only those that are given reach the command, as a tree. But for those that matter
    most, they stand in the section's own part of the help."""
    group = Group(f"{section.capitalize()} (--{section}.*)", help_formatter=sections) if section else None
    kinds = {
        name: Annotated[
            flags(field.kind) if isinstance(field.kind, dict) else field.kind,
            Parameter(help=field.about, group="Parameters" if f"{section}.{name}" in MATTER else group),
        ]
        for name, field in fields.items()
    }
    make: Any = TypedDict
    return make("Flags", kinds, total=False)


def settings_of(parts: dict[str, Part], name: str) -> Settings:
    """The settings that some parts have, each in a class that it calls `name`; where two share one, the first's."""
    classes = dict.fromkeys(found for part in parts.values() if (found := attribute(part, name)))
    return {key: field for place in reversed(classes) for key, field in settings(*place).items()}


if TYPE_CHECKING:
    Task = str
    Architecture = str
    DemoArchitecture = str
    ModelFlags = dict[str, Any]
    DataFlags = dict[str, Any]
    ObjectiveFlags = dict[str, Any]
    TrainingFlags = dict[str, Any]
else:
    TASKS, MODELS = table("qkv.tasks", "TASKS"), table("qkv.models", "MODELS")
    Task, Architecture = Literal[tuple(TASKS)], Literal[tuple(MODELS)]
    DemoArchitecture = Literal[tuple(table("qkv.demo", "SIZES"))]
    places = [place for model in MODELS.values() if (place := attribute(model, "presets"))]
    preset = Setting(Literal[*(preset for place in places for preset in table(*place))], "sizes to begin with")
    ModelFlags = flags({**settings_of(MODELS, "config_class"), "preset": preset}, "model")
    DataFlags = flags(settings_of(TASKS, "data_class"), "data")
    OBJECTIVES = reversed(table("qkv.objectives", "OBJECTIVES").values())  # where two share a setting, the first's
    ObjectiveFlags = flags(
        {k: v for part in OBJECTIVES for k, v in settings(part.module, part.name).items()}, "objective"
    )
    TrainingFlags = flags(settings("qkv.training", "TrainingConfig"), "training")


Workers = Annotated[int | None, Parameter(group=Group("Large corpora", help_formatter=sections))]


def train(
    *files: Path, from_: From = "", to: To = "", valid: Files = None, test: Files = None,
    start: Path | None = None, out: Path = Path("model"), recipe: str | None = None,
    task: Task | None = None, architecture: Architecture | None = None,
    minutes: float | None = None, epochs: float | None = None, steps: int | None = None, seed: int | None = None,
    device: str | None = None, ranks: int = 1, workers: Workers = None, restart: Restart = False,
    model: ModelFlags | None = None, data: DataFlags | None = None, objective: ObjectiveFlags | None = None,
    objective_text: Annotated[str | None, Parameter(show=False)] = None, training: TrainingFlags | None = None,
) -> int:  # fmt: skip
    """Train a translator on files of sentence pairs, a language model on plain text, or a model of another task. The
    same command again goes on where it stopped.

    These are the flags that matter most; qkv train --help-all has every setting, by section.

    For example:
      qkv train pairs.tmx --from en --to de
      qkv train train.en train.de --valid val.en val.de --out model --minutes 30
      qkv train --recipe multi30k-en-de --model.d-model 256
      qkv train pairs.tmx --from en --to de --architecture recurrent
      qkv train book.txt more/*.txt --out lm
      qkv train reviews.tsv --task classify --start lm --out critic
      qkv train pairs.tmx --from en --to de --ranks 2

    Args:
      files: Files of pairs (tsv, csv, jsonl, tmx, xliff, po), or a source and a target file; or plain text for a
        language model; or what the task reads. Each may be .gz.
      valid: Files to validate on; without them, pairs are held out.
      test: Files to keep out of training: examples that are in them are dropped.
      start: A model folder to begin with, in place of random weights: any task on any model that can learn it.
      out: The model folder to write.
      recipe: A TOML file of settings, or the name of one that `qkv list recipes` shows.
      task: What to learn; by the files unless said otherwise. `qkv list tasks` says what each is.
      architecture: What to train; the task's own choice unless said otherwise. `qkv list models` says what each is.
      minutes: Stop after so much training time.
      epochs: Stop after so many passes over the data.
      steps: Stop after so many steps.
      seed: Decides the order of batches, the first weights and dropout.
      device: auto, cpu, cuda or mps.
      ranks: Processes that share each step on this machine.
      workers: Processes that encode a large corpus before training begins; as many as there are cores unless given.
    """
    if ranks < 1:
        raise InputError(f"--ranks is {ranks}; give the number of processes that train together, 1 or more")
    if ranks > 1 and not is_rank():
        return run_ranks(ranks, [sys.executable, "-m", "qkv", *sys.argv[1:]])
    if lifeline.VARIABLE in os.environ:
        lifeline.leave_with_parent()
    from qkv.engines.native.kept import threads
    from qkv.training import train as run
    from qkv.training.given import MOST_WORKERS

    given = {"minutes": minutes, "epochs": epochs, "steps": steps, "device": device}
    limits = {name: value for name, value in given.items() if value is not None}
    asked: dict[str, Any] = {
        "source": from_, "target": to, "architecture": architecture, "model": model,
        "data": {**(data or {}), **({"seed": seed} if seed is not None else {})},
        "objective": objective_text or objective, "training": {**(training or {}), **limits},
    }  # fmt: skip
    trained = run(
        *files, task=task or "", start=start, out=out, valid=valid or (), test=test or (), recipe=recipe,
        restart=restart, workers=min(threads(), MOST_WORKERS) if workers is None else workers,
        **{name: value for name, value in asked.items() if value},
    )  # fmt: skip
    return 130 if trained.stopped == "interrupted" else 0


def demo(
    *, out: Path = Path("qkv-demo"), architecture: DemoArchitecture = "transformer", minutes: float = 3.0,
    say: Annotated[list[str] | None, MULTIPLE] = None, seed: int = 1, restart: Restart = False,
) -> int:  # fmt: skip
    """Train a small model to pronounce English words, measure it, and draw what it looks at.

    For example:
      qkv demo
      qkv demo --minutes 30 --out pronouncer --say Ada Grace
      qkv demo --architecture recurrent --out recurrent

    Args:
      out: The model folder to write.
      architecture: What to train.
      minutes: Training time.
      say: Words to pronounce: your own name, for example.
      seed: Another seed, another model.
    """
    from qkv.demo import run

    return run(out, architecture=architecture, minutes=minutes, words=say or [], seed=seed, restart=restart)
