"""qkv train and qkv demo: commands that make a model folder."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from cyclopts import Parameter

from qkv import demo as demonstration
from qkv.cli.app import MULTIPLE, PLAIN, app, print_json
from qkv.errors import InputError
from qkv.models import MODELS
from qkv.objectives import OBJECTIVES
from qkv.opening import load
from qkv.tasks import TASKS
from qkv.training import TrainingConfig
from qkv.training import train as run_training


def flags(*configs: type[Any], **more: Any) -> Any:
    """The flags of settings dataclasses: only those that are given reach the command, as a tree."""
    fields = {
        field.name: Annotated[
            flags(field.type) if isinstance(field.type, type) and dataclasses.is_dataclass(field.type) else field.type,
            Parameter(help=field.metadata.get("about", "")),
        ]
        for config in reversed(configs)
        for field in dataclasses.fields(config)
    }
    make: Any = TypedDict
    return make(f"{configs[0].__name__}Flags", {**fields, **more}, total=False)


if TYPE_CHECKING:
    ModelFlags = dict[str, Any]
    DataFlags = dict[str, Any]
    ObjectiveFlags = dict[str, Any]
    TrainingFlags = dict[str, Any]
else:
    presets = dict.fromkeys(preset for model in MODELS.values() for preset in model.presets)
    PRESET = Annotated[str, Parameter(help=f"sizes to begin with: {', '.join(presets)}")]
    ModelFlags = flags(*(model.config_class for model in MODELS.values()), preset=PRESET)
    DataFlags = flags(*(task.data_class for task in TASKS.values()))
    ObjectiveFlags = flags(*OBJECTIVES.values())
    TrainingFlags = flags(TrainingConfig)


@app.command
def train(
    *files: Path,
    from_: Annotated[str, Parameter(name="--from", help="source language, e.g. en")] = "",
    to: Annotated[str, Parameter(help="target language, e.g. de")] = "",
    valid: Annotated[list[Path] | None, MULTIPLE] = None,
    test: Annotated[list[Path] | None, MULTIPLE] = None,
    out: Path = Path("model"),
    recipe: str | None = None,
    task: str = "",
    minutes: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    restart: Annotated[bool, PLAIN] = False,
    architecture: Annotated[str | None, Parameter(show=False)] = None,
    model: ModelFlags | None = None,
    data: DataFlags | None = None,
    objective: ObjectiveFlags | None = None,
    training: TrainingFlags | None = None,
) -> int:
    """Train a translator on files of sentence pairs, or a model of another task. The same command again goes on where
    it stopped.

    For example:
      qkv train pairs.tmx --from en --to de
      qkv train train.en train.de --valid val.en val.de --out model --minutes 30
      qkv train --recipe multi30k-en-de --model.d-model 256
      qkv train pairs.tmx --from en --to de --model recurrent
      qkv train --task classify train.tsv --valid valid.tsv --out model

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
    task
        What to learn, by a name that `qkv list tasks` shows; translate unless said otherwise.
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
        Begin anew, even if OUT holds a run or a model.
    """
    given = {"minutes": minutes, "epochs": epochs, "steps": steps, "device": device}
    limits = {name: value for name, value in given.items() if value is not None}
    sections: dict[str, Any] = {
        "architecture": architecture,
        "model": model or {},
        "data": {**(data or {}), **({"seed": seed} if seed is not None else {})},
        "objective": objective or {},
        "training": {**(training or {}), **limits},
    }
    languages = {"source": from_, "target": to}
    trained = run_training(
        *files, task=task, out=out, valid=valid or (), test=test or (), recipe=recipe, restart=restart,
        **{name: value for name, value in {**languages, **sections}.items() if value},
    )  # fmt: skip
    return 130 if trained.stopped == "interrupted" else 0


@app.command
def predict(*text: str, model: Path = Path("model"), json: Annotated[bool, PLAIN] = False, device: str = "cpu") -> None:
    """What a model that was trained with --task says to a text.

    For example:
      qkv predict "A film that nobody should miss." --model model

    Parameters
    ----------
    text
        One text or several.
    model
        The model folder.
    json
        A JSON object for each text, with the probability of every label.
    device
        cpu, cuda or mps.
    """
    if not text:
        raise InputError('no text was given; for example: qkv predict "a text" --model model')
    for answer in load(model, device).predict(text):
        if json:
            print_json(answer)
        else:
            print("\t".join(str(value) for value in answer.values() if not isinstance(value, dict)))


@app.command
def demo(
    *,
    out: Path = Path("qkv-demo"),
    model: str = "transformer",
    minutes: float = 3.0,
    say: Annotated[list[str] | None, MULTIPLE] = None,
    seed: int = 1,
    restart: Annotated[bool, PLAIN] = False,
) -> int:
    """Train a small model to pronounce English words, measure it, and draw what it looks at.

    For example:
      qkv demo
      qkv demo --minutes 30 --out pronouncer --say Ada Grace
      qkv demo --model recurrent --out recurrent

    Parameters
    ----------
    out
        The model folder to write.
    model
        transformer, recurrent or convolutional.
    minutes
        Training time.
    say
        Words to pronounce: your own name, for example.
    seed
        Another seed, another model.
    restart
        Begin anew, even if OUT holds a run or a model.
    """
    return demonstration.run(out, model=model, minutes=minutes, words=say or [], seed=seed, restart=restart)
