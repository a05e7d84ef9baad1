"""The text that benchmarks train and translate: Multi30k where it is, else made-up sentences of the same lengths."""

import itertools
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from qkv.data import Batch, Buckets, RowsOnDisk, write_rows
from qkv.tasks.translation import PairsConfig, Translate
from qkv.text import read_labelled, read_pairs
from qkv.text.examples import Pair
from qkv.text.tokenizer import BOS, EOS, UNK, Tokenizer

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).resolve().parents[1] / "../shared/data"))
VOCABULARY, BATCH_TOKENS = 8000, 4096
# Lengths of Multi30k (29,000 pairs en-de, one BPE vocabulary of 8,000): source tokens, and target tokens for each
# source token. The two are all but independent (correlation -0.08), so that they can be drawn one by one.
PERCENT = [0, 1, 5, 25, 50, 75, 95, 99, 100]
SOURCE_TOKENS = [4, 7, 8, 11, 14, 17, 23, 29, 48]
TARGET_RATIO = [0.19, 0.67, 0.77, 0.91, 1.0, 1.15, 1.38, 1.62, 2.4]
SYLLABLES = ["ka", "lo", "mi", "ren", "tus", "ve", "shi", "dor", "pa", "nel", "go", "bri"]

Pairs = list[tuple[str, str]]


def multi30k() -> tuple[Pairs, str]:
    """The real pairs if they are there, else made-up ones of the same lengths; and which of the two."""
    files = [DATA / "multi30k/train.en.gz", DATA / "multi30k/train.de.gz"]
    if all(path.exists() for path in files):
        return [pair[:2] for pair in read_pairs(files, source="en", target="de")], "Multi30k en-de"
    return list(generated(29_000)), "generated text with the lengths of Multi30k"


def sentences() -> tuple[list[str], str]:
    """Those of SST-2 if they are there, phrases among them; else captions of Multi30k; and which of the two."""
    file = DATA / "glue/SST-2/train.tsv.gz"
    if file.exists():
        return [example.text for example in read_labelled([file])], "SST-2"
    pairs, name = multi30k()
    return [source for source, _ in pairs], name


def generated(count: int) -> Iterator[tuple[str, str]]:
    """Sentences of 1,728 made-up words: few enough for each to become one token, so that words are tokens."""
    rng = random.Random(1)
    words = ["".join(parts) for parts in itertools.product(SYLLABLES, repeat=3)]
    sources = np.interp([100 * rng.random() for _ in range(count)], PERCENT, SOURCE_TOKENS)
    ratios = np.interp([100 * rng.random() for _ in range(count)], PERCENT, TARGET_RATIO)
    for source, ratio in zip(sources, ratios, strict=True):
        yield tuple(" ".join(rng.choices(words, k=max(1, round(n)))) for n in (source, source * ratio))  # type: ignore[misc]


def written(folder: Path, pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer, *, count: int) -> RowsOnDisk:
    """At most `count` pairs as the rows that training reads."""
    task = Translate(PairsConfig())
    rows = task.rows((Pair(*pair, "") for pair in pairs), tokenizer, {})
    write_rows(
        folder, rows, columns=task.columns, vocab_size=len(tokenizer), fingerprint=tokenizer.fingerprint, count=count,
        longest=task.longest, unique=task.unique,
    )  # fmt: skip
    return RowsOnDisk.open(folder, tokenizer.fingerprint)


def batched(pairs: Pairs, folder: Path) -> Buckets:
    """Batches as training makes them."""
    tokenizer = Tokenizer.train((text for pair in pairs for text in pair), vocab_size=VOCABULARY)
    rows = written(folder / "rows", pairs, tokenizer, count=len(pairs))
    return Buckets(rows, tokens=BATCH_TOKENS, seed=1, sizes=Translate.sizes)


def even_batch(tokens: int, length: int, vocabulary: int) -> Batch:
    """About `tokens` random tokens in pairs of one length: no padding, so that only the length changes."""
    rows = max(1, tokens // length)
    rng = torch.Generator().manual_seed(length)
    src, tgt = (torch.randint(UNK + 1, vocabulary, (rows, length), generator=rng) for _ in range(2))
    src[:, -1] = tgt[:, -1] = EOS
    columns = src, torch.cat((torch.full((rows, 1), BOS), tgt), dim=1)
    return Batch(columns, torch.tensor([[length, length + 1]] * rows), np.zeros((rows, 2), dtype=np.int64))


def whole_vocabulary(size: int = VOCABULARY, specials: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer with exactly `size` entries, of random letters: their pairs are so many that none is left over."""
    rng = random.Random(1)
    words = ("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(4 * size))
    tokenizer = Tokenizer.train(words, vocab_size=size, specials=specials)
    if len(tokenizer) != size:
        raise SystemExit(f"the tokenizer has {len(tokenizer)} entries, not {size}")
    return tokenizer
