"""What a model folder holds: all of it but the model is read at once, and the model when somebody asks for it.

Nothing here imports torch. An engine that has a file of its own needs no more than what is read here.
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_type_hints

from qkv import manifest
from qkv.errors import InputError, nearest
from qkv.files import read_json
from qkv.manifest import NATIVE
from qkv.text.frames import FRAMES, Pool
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.models import Model, SequenceToSequence

NOTHING: Mapping[str, Any] = MappingProxyType({})
FILES = (
    "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
)  # fmt: skip  # that a manifest has; weights have a checksum of their own
COUNT = slice(112, 120)  # where the native engine's form says how many weights the model has; see native/file.cpp
VERSION = 1  # of the folder's layout; a folder from a later one is refused
# Models whose config.json tells how much they read and write, and whether they go on from prompts.
TOLD = {"transformer": False, "gpt": True, "gpt2": True}


class About(TypedDict, total=False):
    """What config.json tells beside the model's settings. Keys that are not among these are kept as they are."""

    task: str  # a name in TASKS; a folder without it holds a translator
    source: str
    target: str
    languages: list[str]  # of sentences that none was paired with
    longest_source: int  # tokens of the longest one in training
    origin: str  # the program that a model is from, if not qkv,
    licence: str  # what it says of the licence,
    penalty: float  # and the constant of the length penalty that it ranks by
    whole_lines: bool  # whether a line of several sentences is read as one
    labels: list[str]  # of a classifier or a tagger, by their numbers
    max_length: int  # tokens of a text; what is longer was cut, or read in windows
    pool: Pool  # whose state is the vector of a text,
    normalise: bool  # and whether it is made to have the length 1
    window: int  # tokens that are read at once
    backward: bool  # whether texts are read from their end
    lowercase: bool
    max_words: int  # of a sentence
    max_sentences: int  # of a text
    symmetric: bool  # whether two texts are read in both orders
    stride: int  # tokens by which windows move on
    max_question: int  # tokens of a question
    max_answer: int  # tokens of an answer
    max_target: int  # tokens of a summary
    has_null: bool  # whether there were questions without an answer
    bos: bool  # whether <s> stands before every text that is written on
    documents: str  # what parts those of passages: see RunningTextConfig
    objective: str  # what training asked, where it was not just what the task asks
    heads: dict[str, str]  # on a backbone, each by its name
    entities: list[str]  # of a graph, each by its number,
    relations: list[str]  # and those that they are in
    parts: list[str]  # of a mixture, each with its task: "rte=pair",
    mixture: dict[str, dict[str, Any]]  # and what is remembered of each, by its name


def splits(about: About) -> bool:
    """Whether a translator reads sentence by sentence, as all do but those that have learned from whole lines."""
    return not about.get("whole_lines")


class Loaded:
    """What a model folder holds; what it does not hold yet, `build` makes when it is first asked for."""

    def __init__(
        self, model: "Model | None", tokenizer: Tokenizer, about: About, folder: Path | None = None,
        *, build: "Callable[[], Model] | None" = None, architecture: str = "", settings: Mapping[str, Any] = NOTHING,
        device: str = "", heads: Mapping[str, str] = NOTHING,
    ) -> None:  # fmt: skip
        """`architecture`, its `settings` and the `heads` on it are as config.json tells them, of a model that is not
        built yet."""
        self.tokenizer, self.about, self.folder, self.build = tokenizer, about, folder, build
        self.architecture, self.settings, self.heads, self._device = architecture, settings, heads, device
        if model is not None:
            self.model = model

    @cached_property
    def model(self) -> "Model":
        assert self.build is not None
        return self.build()

    @property
    def device(self) -> str:
        """The kind of device that the model is on, or will be."""
        return self._device.partition(":")[0] or next(self.model.parameters()).device.type

    @property
    def is_built(self) -> bool:
        return "model" in vars(self)

    @property
    def has_prompts(self) -> bool:
        """Of a model that config.json tells of: whether it goes on from prompts, and does not translate."""
        return TOLD[self.architecture]

    @property
    def context(self) -> int:
        """The tokens that it reads or writes, where config.json tells that; else 0."""
        return self.size if self.architecture in TOLD and not self.heads else 0

    @property
    def size(self) -> int:
        """The tokens that it reads at once, if config.json tells that."""
        size = self.settings.get("max_length")
        return size if type(size) is int else 0

    @property
    def tells(self) -> bool:
        """Whether the folder tells all that must be known to read with it, or to write."""
        return bool(self.context or (self.architecture in FRAMES and self.size))

    def parameters(self) -> int:
        """How many weights there are, as their file says."""
        assert self.folder is not None
        if not (path := self.folder / "model.safetensors").exists():
            with (self.folder / NATIVE).open("rb") as file:
                return int.from_bytes(file.read(COUNT.stop)[COUNT], "little")
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return sum(prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")

    @property
    def max_length(self) -> int:
        return self.context or int(self.model.config.max_length)

    @property
    def longest_source(self) -> int:
        """Of a model that translates: what it can read and still write on; see `SequenceToSequence`."""
        return self.context - 1 if self.context else cast("SequenceToSequence", self.model).longest_source

    def room(self, source: int) -> int:
        """Likewise: what it can write, the end included, after a source of that length."""
        return self.context - 1 if self.context else cast("SequenceToSequence", self.model).room(source)


class RunFolder:
    """Where a training run keeps things: all of it in `training`, inside the model folder that it writes."""

    def __init__(self, out: Path) -> None:
        self.out = Path(out)
        self.place = self.out / "training"
        self.recipe = self.place / "recipe.toml"
        self.corpus = self.place / "data"
        self.checkpoints = self.place / "checkpoints"
        self.log = self.place / "log.jsonl"
        self.curves = self.place / "curves.png"
        self.baselines = self.place / "baselines.json"
        self.results = self.out / "results.json"


def load(folder: Path, device: str = "cpu") -> Loaded:
    """Model and tokenizer, checked against each other; nothing in the folder is ever executed.

    A folder that transformers saved is read too, if its family is one of convert.FAMILIES; and a translator of Argos,
    of CTranslate2 or of Marian, see convert.packages.
    """
    found = look(folder, device)
    found.model  # noqa: B018  # built here, or refused
    return found


def look(folder: Path, device: str = "cpu") -> Loaded:
    """The same, but for the model, which is read and checked when it is first asked for."""
    folder = Path(folder)
    if may_be_theirs(folder):
        from qkv.folder.building import load_package

        if (package := load_package(folder, device)) is not None:
            return package
    if not folder.is_dir():
        raise InputError(f"no model folder at {folder}; give the folder that `qkv train --out` wrote")
    about = read_config(folder)
    if not str(about["model_type"]).startswith("qkv-"):
        from qkv.folder.building import load_theirs

        if (theirs := load_theirs(folder, about, device)) is not None:
            return theirs
    if not (folder / manifest.NAME).exists():
        print(f"{folder}: {manifest.UNKNOWN}; {manifest.cure(folder)} writes one", file=sys.stderr)
    name = str(about.pop("model_type")).removeprefix("qkv-")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if about.pop("tokenizer", None) != tokenizer.fingerprint:
        raise InputError(
            f"{folder}/tokenizer.json is not the one this model was trained with; copy the whole model folder again"
        )
    settings, heads = about.pop(name), dict[str, str]()

    def build() -> "Model":
        from qkv.folder.building import built

        return built(folder, name, settings, tokenizer, heads, device)

    sizes = settings if isinstance(settings, dict) else {}
    if type(size := sizes.get("vocab_size")) is int and size != len(tokenizer):
        raise InputError(
            f"{folder}: the vocabulary has {len(tokenizer)} entries but the model expects {size}; "
            "copy the whole model folder again"
        )
    heads |= described(about, folder).pop("heads", {})
    return Loaded(
        None, tokenizer, cast(About, about), folder, build=build, architecture=name, settings=sizes, device=device,
        heads=heads,
    )  # fmt: skip


def may_be_theirs(path: Path) -> bool:
    """Whether a translator of another program is to be looked for there: none of them has safetensors."""
    if not path.is_dir():
        return path.is_file()
    return not (path / "model.safetensors").exists() and any((*path.glob("*.bin"), *path.glob("model/model.bin")))


def read_config(folder: Path) -> dict[str, Any]:
    if may_be_theirs(folder):
        from qkv.convert import find_package

        if find_package(folder) is not None:
            return {"task": "translate"}
    path = folder / "config.json"
    if not path.exists():
        raise InputError(
            f"{folder} has no config.json, so it is not a model folder (or its training has not saved yet)"
        )
    try:
        about: dict[str, Any] = read_json(path)
        name = str(about["model_type"]).removeprefix("qkv-")
        if name == about["model_type"]:
            from qkv.convert import FAMILIES, their_task

            if name in FAMILIES:
                return {**about, "task": their_task(folder, about)}
            if "qkv_version" not in about:
                raise InputError(f"{path}: qkv reads no model of the type {name!r}; {nearest(name, FAMILIES)}")
        version = int(about.pop("qkv_version"))
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise InputError(f"{path} is damaged or not from qkv; copy the whole model folder again") from None
    if version > VERSION:
        raise InputError(f"{path} was written by a later qkv (layout {version}, this one reads {VERSION}); update qkv")
    if imports := about.pop("imports", {}):
        from qkv import parts

        parts.check_needed(imports, str(folder))
    if name not in TOLD or name not in about:
        from qkv import contents

        if name not in (known := contents.names("qkv.models", "MODELS")) or name not in about:
            raise InputError(f"{path}: unknown model {name!r}; {nearest(name, known)}")
    return about


def described(tree: Any, folder: Path) -> About:
    """What else config.json tells, whose values must be of the types that they should be."""
    kinds = get_type_hints(About)
    for name in filter(kinds.__contains__, tree):
        if type(tree[name]) is kinds[name]:  # a text, a number: most are, and pydantic takes longer than all else here
            continue
        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(kinds[name]).validate_python(tree[name], strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise InputError(f"{folder}/config.json: {name}: {reason} (given: {tree[name]!r})") from None
    return cast(About, tree)


def in_brief(opened: Any, engine: str) -> str:
    """What was loaded, in a line: its task, its languages, its size and what computes."""
    about, loaded = opened.about, getattr(opened, "loaded", None)
    if loaded is not None and not loaded.is_built and loaded.tells:  # the folder tells enough
        architecture, count = loaded.architecture, loaded.parameters()
    else:
        from qkv.folder.building import origin
        from qkv.models import count_parameters

        architecture, count = origin(opened.model)[0], count_parameters(opened.model)
    languages = " -> ".join(filter(None, (about.get("source"), about.get("target"))))
    sizes = f"{architecture} of {count:,} parameters"
    told = [f"task {about.get('task', 'translate')}", languages, sizes, f"engine {engine}"]
    place = f" from {opened.folder}" if opened.folder else ""
    return f"<{type(opened).__name__}{place}: {', '.join(filter(None, told))}>"
