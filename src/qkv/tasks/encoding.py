"""Examples become rows of ids, some at a time; those of a large corpus by several processes.

`main` is one of these: it reads what to do as a line of JSON, then lines of examples, and answers each with a line of
JSON and the bytes of their rows. It ends when nobody writes to it any more, or reads what it says.
"""

import gc
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from qkv import parts
from qkv.config import Tree, from_tree, to_tree
from qkv.data import PackedRows, id_type, pack
from qkv.errors import InputError
from qkv.folder import About
from qkv.tasks.spool import Spooled
from qkv.text.adopted import kind_of
from qkv.text.tokenizer import Tokenizer

MAIN = "from qkv.tasks.encoding import main; main()"
AHEAD = 3  # chunks that each process has been given, or has answered and nobody has taken yet


def encoded(
    task: Any, chunks: Iterable[Spooled], tokenizer: Tokenizer, facts: About, workers: int = 1
) -> Iterator[PackedRows]:
    """The rows of each chunk, in their order; what the task has counted in them is in its `counts`."""
    if workers == 1:
        dtype = id_type(len(tokenizer))
        for chunk in chunks:
            yield pack([*task.rows(chunk.examples(), tokenizer, facts)], dtype, task.columns, task.longest)
        return
    with ExitStack() as stack:
        pool, free = stack.enter_context(ThreadPoolExecutor(workers)), SimpleQueue[Encoder]()
        for _ in range(workers):
            free.put(stack.enter_context(Encoder(task, tokenizer, facts)))

        def ask(chunk: Spooled) -> tuple[PackedRows, Tree]:
            encoder = free.get()
            try:
                return encoder.ask(chunk)
            finally:
                free.put(encoder)

        waiting = deque[Future[tuple[PackedRows, Tree]]]()

        def taken() -> PackedRows:
            packed, counts = waiting.popleft().result()
            for name, tally in task.tallies().items():
                tally.update(counts[name])
            return packed

        for chunk in chunks:
            waiting.append(pool.submit(ask, chunk))
            if len(waiting) >= AHEAD * workers:
                yield taken()
        while waiting:
            yield taken()


class Encoder:
    """A process that encodes what it is given."""

    def __init__(self, task: Any, tokenizer: Tokenizer, facts: About) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *map(str, parts.IMPORTED)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C comes to whoever asks it, and it ends with them
            env={**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.to, self.back = self.process.stdin, self.process.stdout
        self.columns, self.dtype = task.columns, id_type(len(tokenizer))
        spec = {"task": task.name, "model": task.model.__name__, "data": to_tree(task.data), "facts": facts}
        self.say(json.dumps({**spec, "tokenizer": tokenizer.to_str()}).encode() + b"\n")

    def __enter__(self) -> "Encoder":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError), self.process:  # whose pipes are closed, and which is waited for
            self.process.kill()

    def say(self, line: bytes) -> None:
        self.to.write(line)
        self.to.flush()

    def ask(self, chunk: Spooled) -> tuple[PackedRows, Tree]:
        try:
            self.say(json.dumps([*chunk.without]).encode() + b"\n" + chunk.line)
            head = json.loads(self.back.readline())
        except (OSError, ValueError):
            raise InputError(
                "a process that encodes the corpus has ended, perhaps for want of memory; the same command again "
                "goes on, with --workers 1 without such processes"
            ) from None
        if "error" in head:
            raise InputError(head["error"])
        ids, lengths, marks = (np.frombuffer(self.back.read(size), np.uint8) for size in head["sizes"])
        shaped = lengths.view("<u4").reshape(-1, self.columns), marks.reshape(head["rows"], -1)
        return PackedRows(ids.view(self.dtype), *shaped, head["too_long"]), head["counts"]


def answer(given: IO[bytes], out: IO[bytes]) -> None:
    """What an Encoder's process does."""
    from qkv.models import MODELS
    from qkv.tasks import TASKS

    lines = takewhile(lambda line: line.endswith(b"\n"), given)  # half a line is of one who is gone
    if (first := next(lines, None)) is None:
        return
    spec = json.loads(first)
    kind, model = TASKS[spec["task"]], next(one for one in MODELS.values() if one.__name__ == spec["model"])
    task = kind(from_tree(kind.data_class, spec["data"], "data"), model)
    sub_words = kind_of(json.loads(spec["tokenizer"]))
    assert sub_words is not None
    tokenizer = Tokenizer(spec["tokenizer"], sub_words)
    for without, line in zip(lines, lines, strict=False):
        chunk = Spooled(kind.example_class, line, without=json.loads(without))
        for tally in task.tallies().values():
            tally.clear()
        try:
            packed = next(encoded(task, [chunk], tokenizer, spec["facts"]))
        except InputError as error:
            out.write(json.dumps({"error": str(error)}).encode() + b"\n")
            out.flush()
            continue
        arrays = [packed.ids.tobytes(), packed.lengths.tobytes(), packed.marks.tobytes()]
        head = {"sizes": [*map(len, arrays)], "rows": len(packed.lengths), "too_long": packed.too_long}
        out.write(json.dumps({**head, "counts": task.tallies()}).encode() + b"\n" + b"".join(arrays))
        out.flush()


def main() -> None:
    gc.disable()  # it would look through the rows of every chunk again and again, a third of the time
    for path in sys.argv[1:]:
        parts.import_file(Path(path))
    with suppress(BrokenPipeError):
        answer(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # whoever asked may be gone: there is nobody to flush to
