"""qkv embed: a vector for each text, and which texts are nearest to another."""

import heapq
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from qkv.cli.app import Device, Flag, Model, Output, Reader, Shard, prepare, print_json
from qkv.cli.lines import counting, input_chunks, new_file, part_of
from qkv.device import ENGINE
from qkv.errors import InputError

if TYPE_CHECKING:
    from qkv.engines.embedder import Embedder, Vectors


def embed(
    *text: str, model: Model = Path("model"), output: Output = None, similar: str | None = None, k: int = 10,
    pool: Literal["mean", "first", "last"] | None = None, json: Flag = False, shard: Shard = None,
    device: Device = "cpu", engine: Reader = ENGINE,
) -> None:  # fmt: skip
    """A vector for each text, by a sentence encoder or by any model that reads; or the texts nearest to another.

    For example:
      qkv embed sentences.txt --model folder -o vectors.npy
      qkv embed sentences.txt --model folder --shard 3/8 -o vectors.3.npy
      qkv embed sentences.txt --model folder --similar "A man is playing music."
      cat sentences.txt | qkv embed --model folder --pool mean > vectors.tsv

    Args:
      text: One text or several; or the name of one file with a text on each line; nothing for standard input.
      output: The file to write, float32 vectors as .npy: row i belongs to line i. Without it they are printed, numbers
        with tabs between them.
      similar: A text; print those of the others whose vectors are nearest to its own, with their cosines.
      k: With --similar: how many.
      pool: Whose state stands for a text: the mean of all tokens, the first (cls) or the last; the folder's own choice
        if none.
      json: A JSON object for each text that is printed.
    """
    from qkv.opening import load

    if output is not None and output.suffix != ".npy":
        raise InputError(f"{output} cannot be written: vectors are kept as .npy; give --output a name that ends so")
    if similar is not None and k < 1:
        raise InputError(f"--k {k} asks for no text; give a number from 1")
    if similar is not None and shard:
        raise InputError("--similar is for the nearest of all texts, and --shard for some of them; leave one out")
    if (part := part_of(shard, text, output, model)) is None:
        return
    prepare([model], device, engine)
    embedder: Embedder = load(model, device, task="embed", pool=pool, engine=engine)
    found = embedded(embedder, input_chunks(text, "embedded", "a text", part))
    if output is not None:
        found = kept(found, output, embedder.width)
    if similar is not None:
        for cosine, one in nearest_to(embedder.embed(similar), found, k):
            print_json({"text": one, "cosine": cosine}) if json else print(f"{cosine:.4f}\t{one}")
        return
    for texts, vectors in found:
        if output is None:
            show(texts, vectors, json=json)


def embedded(embedder: "Embedder", chunks: Iterable[list[str]]) -> "Iterator[tuple[list[str], Vectors]]":
    """Some texts and their vectors at a time, with a counter on standard error; at the end, what was cut."""
    done = 0
    with counting("embedding", "texts") as tick:
        for some in chunks:
            yield some, embedder.embed(some)
            done += len(some)
            tick(done)
    if embedder.cut:
        most = embedder.bounds["max_length"]
        print(f"{embedder.cut:,} of {done:,} texts had more than the {most} tokens that are read: cut", file=sys.stderr)


def kept(found: "Iterable[tuple[list[str], Vectors]]", path: Path, width: int) -> "Iterator[tuple[list[str], Vectors]]":
    """The same, written on their way."""
    with matrix(path, width) as (file, count):
        for texts, vectors in found:
            file.write(vectors.tobytes())
            count.append(len(vectors))
            yield texts, vectors


@contextmanager
def matrix(path: Path, width: int) -> "Iterator[tuple[BinaryIO, list[int]]]":
    """A new .npy file of float32 rows (n, width), and a list of how many were written: only at its end is n known.

    numpy leaves room in the header of such a file for its first number to grow.
    """
    from numpy.lib.format import write_array_header_1_0

    count: list[int] = []
    with new_file(path) as new, new.open("wb") as file:

        def head() -> None:
            shape = {"descr": "<f4", "fortran_order": False, "shape": (sum(count), width)}
            write_array_header_1_0(file, shape)

        head()
        begin = file.tell()
        yield file, count
        file.seek(0)
        head()
        assert file.tell() == begin


def nearest_to(query: "Vectors", found: "Iterable[tuple[list[str], Vectors]]", k: int) -> list[tuple[float, str]]:
    """The k texts with the largest cosines, the largest first; of equals the earlier ones. Empty lines are left out."""
    from qkv.engines.embedder import nearness

    best: list[tuple[float, int, str]] = []
    place = 0
    for texts, vectors in found:
        cosines = nearness(vectors, query).tolist()
        some = [(cosine, place - i, one) for i, (cosine, one) in enumerate(zip(cosines, texts, strict=True))]
        place -= len(texts)
        best = heapq.nlargest(k, best + [one for one in some if one[2].strip()])
    return [(cosine, one) for cosine, _, one in best]


def show(texts: list[str], vectors: "Vectors", *, json: bool) -> None:
    for one, vector in zip(texts, vectors.tolist(), strict=True):
        print_json({"text": one, "vector": vector}) if json else print("\t".join(f"{x:.7g}" for x in vector))
