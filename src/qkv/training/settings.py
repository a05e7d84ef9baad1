"""The settings of one training run: what recipes, flags and the run folder hold."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from qkv.config import Tree, build, check_keys, from_tree, setting
from qkv.errors import InputError, nearest
from qkv.models import MODELS, Model, TransformerConfig
from qkv.objectives import OBJECTIVES, Translation
from qkv.text.doctor import Rules
from qkv.training.averaging import AVERAGES
from qkv.training.schedules import SCHEDULES

MOST_SUBWORDS = 10_000_000  # of far more of them, the library that learns them dies
LIMITS = ("steps", "epochs", "minutes", "patience")
NOT_NEGATIVE = (*LIMITS, "validate_every", "bleu_sentences", "checkpoint_minutes", "checkpoint_steps", "threads",
                "clip", "weight_decay", "epsilon")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """How any text becomes ids and batches."""

    tokenizer: str = setting("bpe", "how sub-words are learned: bpe or unigram; or the path of a tokenizer.json to use")
    vocab_size: int = setting(8000, "size of the joint vocabulary to learn")
    held_out: int = setting(1000, "pairs kept for validation when no --valid is given (at most one in ten)")
    batch_tokens: int = setting(4096, "a batch holds at most this many tokens of the longer side, padding counted")
    seed: int = setting(1, "decides the order of batches, the first weights and dropout")

    def __post_init__(self) -> None:
        if self.vocab_size > MOST_SUBWORDS:
            raise ValueError(f"vocab_size must be at most {MOST_SUBWORDS:,}, not {self.vocab_size}")
        if self.batch_tokens < 1 or not 1 <= self.held_out <= 10_000:
            raise ValueError("batch_tokens must be at least 1, held_out from 1 to 10,000")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a number from 0, not {self.seed}")


@dataclass(frozen=True, kw_only=True)
class DataConfig(TextConfig):
    """How sentence pairs become ids and batches."""

    max_length: int = setting(200, "pairs with more tokens than this on a side are left out, and counted")
    doctor: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How weights are learned, and when to stop."""

    optimizer: Literal["adamw", "adam", "muon"] = setting(
        "adamw",
        "adam, adamw (its weight decay is apart from the gradient), or muon (matrices move by orthogonal steps)",
    )
    learning_rate: float = setting(1e-3, "the highest learning rate, multiplied by the schedule")
    schedule: str = setting(
        "inverse_square_root", "inverse_square_root, linear, cosine, constant or noam, e.g. cosine(warmup=400)"
    )
    beta1: float = setting(0.9, "Adam's memory of the gradient")
    beta2: float = setting(0.98, "Adam's memory of its square")
    epsilon: float = setting(1e-9, "Adam's guard against division by zero")
    weight_decay: float = setting(0.0, "weight decay")
    clip: float = setting(1.0, "longest gradient; 0 for no limit")
    accumulate: int = setting(1, "batches for one step of the optimiser")
    average: str = setting("running", "weights that are validated and kept: running(decay=..), last(n=5) or none")
    best_by: Literal["loss", "bleu", "accuracy"] = setting(
        "loss", "the validation figure that decides which weights are kept"
    )
    patience: int = setting(10, "stop after this many validations without a better one; 0 for never")
    steps: int = setting(0, "stop after this many steps; 0 for no limit")
    epochs: float = setting(0.0, "stop after this many passes over the data; 0 for no limit")
    minutes: float = setting(0.0, "stop after this much training time; 0 for no limit")
    validate_every: int = setting(0, "steps between validations; 0 for once an epoch")
    bleu_sentences: int = setting(200, "validation sentences that are translated to measure BLEU; 0 for none")
    checkpoint_minutes: float = setting(2.0, "time between checkpoints; one is also written at each validation")
    checkpoint_steps: int = setting(0, "steps between checkpoints, beside those by time; 0 for none")
    keep: int = setting(3, "checkpoints to keep")
    device: str = setting("auto", "auto, cpu, cuda, mps")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "auto takes bfloat16 where the device computes in it"
    )
    recompute: bool = setting(False, "compute each block twice to keep less of it: less memory, a third more time")
    threads: int = setting(0, "CPU threads; 0 for torch's own choice: OMP_NUM_THREADS, or one for each core")

    def __post_init__(self) -> None:
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0:  # so that nan is refused too
                raise ValueError(f"{name} cannot be negative, but it is {getattr(self, name)}")
        if self.accumulate < 1 or self.keep < 1:
            raise ValueError("accumulate and keep must be at least 1")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, not {self.learning_rate}")
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"beta1 and beta2 must be at least 0 and below 1, not {self.beta1} and {self.beta2}")
        if self.best_by == "bleu" and not self.bleu_sentences:
            raise ValueError("best_by is bleu, but bleu_sentences is 0, so that BLEU is never measured; raise it")
        build(SCHEDULES, self.schedule)
        build(AVERAGES, self.average)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run, whole. What is not given is chosen for the corpus and the machine (training.choose)."""

    published: str = ""  # the published figure that a recipe is measured against
    task: Literal["translate"] = "translate"  # other tasks have settings of their own: tasks.settings
    source: str = ""
    target: str = ""
    train: list[str]
    valid: list[str] = field(default_factory=list)
    test: list[str] = field(default_factory=list)
    architecture: str = "transformer"
    objective_name: str = "translation"
    data: DataConfig = field(default_factory=DataConfig)
    model: Any = field(default_factory=TransformerConfig)  # settings of the architecture's own class
    objective: Translation = field(default_factory=Translation)
    training: TrainingConfig = field(default_factory=TrainingConfig)


def check(tree: Mapping[str, Any], where: str) -> None:
    """Refuse an unknown key at once, before any data is read."""
    for section in ("data", "model", "objective", "training"):
        if not isinstance(tree.get(section, {}), Mapping):
            raise InputError(f"{where}: {section} is {tree[section]!r}; it must be a table of settings")
    translators = {name: model for name, model in MODELS.items() if model.task == "translate"}
    for key, table in (("architecture", translators), ("objective_name", OBJECTIVES)):
        name = str(tree.get(key, next(iter(table))))
        if name not in table:
            raise InputError(f"{where}: unknown {key} {name!r}; {nearest(name, table)}")
    check_keys(Settings, {key: value for key, value in tree.items() if key != "model"}, where)
    check_keys(architecture(tree).config_class, spelled_out(tree, where), where, "model.")


def complete(tree: Mapping[str, Any], where: str) -> Settings:
    """Settings from plain data; `model.preset` names the sizes that other keys of [model] change."""
    check(tree, where)
    model = from_tree(architecture(tree).config_class, spelled_out(tree, where), where, "model.")
    rest = {key: value for key, value in tree.items() if key != "model"}
    settings = replace(from_tree(Settings, rest, where), model=model)
    check_best_by(settings.training, ("loss", "bleu"), "a translator", where)
    return settings


def check_best_by(c: TrainingConfig, figures: tuple[str, str], whose: str, where: str) -> None:
    """Refuse to choose the best weights by a figure that their validation does not have."""
    if c.best_by not in figures:
        known = " and ".join(figures)
        raise InputError(f"{where}: training.best_by is {c.best_by}, but {whose} has {known}; give one of them")


def architecture(tree: Mapping[str, Any]) -> type[Model]:
    return MODELS[str(tree.get("architecture", next(iter(MODELS))))]


def spelled_out(tree: Mapping[str, Any], where: str) -> Tree:
    """The keys of [model], with those of its preset."""
    model, presets = dict(tree.get("model", {})), architecture(tree).presets
    if "preset" not in model:
        return model
    preset = model.pop("preset")
    if not isinstance(preset, str) or preset not in presets:
        raise InputError(f"{where}: unknown preset {preset!r}; {nearest(str(preset), presets)}")
    return {**presets[preset], **model}


def paths(names: list[str]) -> list[Path]:
    """Names from a recipe as paths; $QKV_DATA is the folder of that variable, or ../shared/data."""
    data = os.environ.get("QKV_DATA", "../shared/data")
    found = [Path(name.replace("$QKV_DATA", data)).expanduser() for name in names]
    for path in found:
        if path.exists() and not path.is_file() and not path.is_dir():  # of a folder, its reader says more
            raise InputError(
                f"{path} is a pipe or a device, and training reads its files more than once; write it to a file first"
            )
    return found
