"""What a program gives to `train`: files, examples in memory, limits and settings, sorted out and checked."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from qkv.config import Tree
from qkv.errors import InputError
from qkv.tasks import TASKS
from qkv.tasks.corpus import Part, are_files, is_given

NAMES: Any = str | os.PathLike  # of a file
Section = Mapping[str, Any]  # of settings, as a recipe has it
MOST_WORKERS = 256


class AlsoGiven(TypedDict, total=False):
    """Examples under the name of their shape, each a list, a generator, a DataFrame or a Hugging Face dataset; and
    settings that few runs need."""

    pairs: Iterable[Any]
    monolingual: Iterable[Any]
    summaries: Iterable[Any]
    texts: Iterable[Any]
    labelled: Iterable[Any]
    labelled_pairs: Iterable[Any]
    rated_pairs: Iterable[Any]
    tagged: Iterable[Any]
    spans: Iterable[Any]
    choices: Iterable[Any]
    questions: Iterable[Any]
    sentences: Iterable[Any]
    mixture: Iterable[Any]
    links: Iterable[Any]
    train: Sequence[str | Path]  # files, where a recipe names them
    corpus: str  # a folder of rows that is already prepared
    published: str
    measured_by: str


def sorted_out(files: Sequence[Any], task: str, valid: Any, test: Any, given: Tree) -> tuple[Tree, dict[str, Part]]:
    """The settings that are given, with the names of all files and of the task; and the examples in memory."""
    check_files("the training data", files)
    is_one = isinstance(valid, NAMES)
    valid, test = ([one] if isinstance(one, NAMES) else one for one in (valid, test))
    shapes = {kind.shape: name for name, kind in reversed(TASKS.items())}  # of several tasks the first
    memory: dict[str, Part] = {}
    for shape in [name for name in given if name in shapes]:
        memory["train"], task = examples(shape, given.pop(shape)), task or shapes[shape]
        named_by = Path if shape == "texts" and not is_one else NAMES  # a text is a string itself
        if is_given(valid) and not are_files(valid, named_by):
            memory["valid"], valid = examples("valid", valid), ()
    check_files("valid", valid)
    check_files("test", test)
    lists = {"train": files, "valid": valid, "test": test}
    named: Tree = {name: [str(path) for path in several] for name, several in lists.items() if several}
    return {**given, **named, **({"task": task} if task else {})}, memory


def examples(name: str, given: Any) -> Any:
    """Several examples; of what is none, the right way to give it is said."""
    if isinstance(given, NAMES | bytes):
        raise InputError(f"{name} is {str(given)[:60]!r}, which is one text and no list; give a file without {name}=")
    if not isinstance(given, Iterable):
        raise InputError(f"{name} is {given!r:.60}; give a list of examples, a generator or a table")
    return given


def check_files(what: str, given: Any) -> None:
    """Names of files are texts or paths."""
    if not isinstance(given, list | tuple):
        raise InputError(
            f"{what} is a value of {type(given).__name__}; give names of files, or examples by shape: pairs="
        )
    for one in given:
        if not isinstance(one, NAMES):
            raise InputError(
                f"a {type(one).__name__} stands where the name of a file was expected ({what}); examples in memory "
                f"are given by their shape: pairs=, texts=, labelled= ..."
            )


def with_limits(training: Section | None, **limits: float | None) -> Tree:
    """The section [training] with the limits that are given beside it."""
    if not isinstance(training or {}, Mapping):
        raise InputError(f"training is {training!r:.60}; give a dict of settings, training={{'learning_rate': 0.001}}")
    return {**(training or {}), **{name: value for name, value in limits.items() if value is not None}}


def check_call(out: Any, on_event: Any, workers: Any) -> None:
    """Where to write is a name, who listens can be called, and processes are a number."""
    if not isinstance(out, NAMES):
        raise InputError(f"out is {out!r:.60}; give the name of a folder, out='model'")
    if on_event is not None and not callable(on_event):
        raise InputError(f"on_event is {on_event!r:.60}; give a function of one record, which may return True to stop")
    if not isinstance(workers, int) or not 1 <= workers <= MOST_WORKERS:
        raise InputError(
            f"workers is {workers!r:.60}; give the number of processes that encode a corpus, 1 to {MOST_WORKERS}"
        )
