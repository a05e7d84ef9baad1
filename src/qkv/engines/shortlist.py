"""A shortlist: the few target words that a source sentence may become, so that a step need not try the vocabulary."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from qkv.data import Rows, Shard
from qkv.decoding.engine import Engine
from qkv.decoding.lexicon import Cells, Ids, Lexicon, Shares, crossed
from qkv.decoding.plain import padded
from qkv.engines import WITH
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.text.tokenizer import EOS, UNK, Tokenizer
from qkv.weights import read_weights, save_weights

FILE = "shortlist.safetensors"
FREQUENT, EACH = 600, 50  # they cost at most 0.1 BLEU on Multi30k's validation set; see docs/decoding.md
ROUNDS = 3  # of expectation and maximisation: two more covered 0.1 % more words of that set at most
CELLS = 2**22  # pairs of words that are counted at a time
MOST = 2**26  # ... and in all; shards are random samples, so that the first of them will do


@dataclass(frozen=True)
class Shortlist:
    """Jean et al. 2015, under "Decoding": the frequent target words, and the likeliest ones for each source word."""

    frequent: Tensor  # (K,): ids that every sentence may use, special ones among them
    starts: Tensor  # (V + 1,)
    ids: Tensor  # ids[starts[s] : starts[s + 1]] are what source word s may become

    def with_(self, words: Sequence[int]) -> "Shortlist":
        """The same, with some words that every sentence may use."""
        return replace(self, frequent=torch.cat((self.frequent, torch.tensor(words, dtype=torch.long))))

    def of(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """The ids that some sentence of src (B, S) may use (U,), in order; and whether each sentence may (B, U).

        What stands in a source may be copied. Special ids come first, so that they are what they were.
        """
        sentence, place = (src > UNK).nonzero(as_tuple=True)  # (N,)
        word = src[sentence, place]
        counts = self.starts[word + 1] - self.starts[word]
        first = self.starts[word] - counts.cumsum(0) + counts  # of each word's ids, less those of the words before it
        listed = self.ids[first.repeat_interleave(counts) + torch.arange(int(counts.sum()))]
        may = torch.zeros(len(src), len(self.starts) - 1, dtype=torch.bool)  # (B, V)
        may[:, self.frequent] = True
        may[sentence.repeat_interleave(counts), listed] = True
        may[sentence, word] = True
        ids = may.any(dim=0).nonzero()[:, 0]
        return ids, may[:, ids]


# -- decoding --------------------------------------------------------------------------------------------------------


class Shortlisted(NativeWriter):
    """The searches of the native engine, each sentence with the words of its own shortlist alone; a source that has no
    place in its file is translated with all words."""

    def __init__(self, engine: NativeWriter, shortlist: Shortlist) -> None:
        ends, workers = engine.source_end, engine.workers
        super().__init__(engine.loaded, engine.native, has_prompts=False, source_end=ends, workers=workers)
        self.shortlist, self.name = shortlist, f"{engine.name}{WITH}"

    def lists(self, sources: list[list[int]], prefix: Sequence[int] = ()) -> list[list[int]]:
        ids, may = self.shortlist.with_(prefix).of(padded(sources))
        return [ids[row].tolist() for row in may]


def check_engine(engine: Engine) -> NativeWriter:
    """The engine, if it can try some words only."""
    if not isinstance(engine, NativeWriter) or engine.has_prompts:
        raise InputError(
            f"engine {engine.name} has no shortlist; use float32{WITH} or int8{WITH}, with a Transformer of scaled dot "
            "products and sinusoidal, learned or no positions, on a CPU for which the native engine is built"
        )
    return engine


def with_shortlist(engine: Engine, loaded: Loaded) -> Shortlisted:
    """The same engine, which tries each sentence's shortlist only: that of the folder."""
    return Shortlisted(check_engine(engine), load(loaded.folder or Path(), loaded.tokenizer))


# -- making one ------------------------------------------------------------------------------------------------------


def make_shortlist(corpus: Rows, vocab_size: int, *, frequent: int = FREQUENT, each: int = EACH) -> Shortlist:
    """The `frequent` commonest target words of some training data, and `each` others for each source word.

    Which ones a source word becomes is learned by Brown et al. 1993, model 1. The end of a source stands for the empty
    word of that paper.
    """
    if frequent < 1 or each < 0:
        raise InputError(f"frequent={frequent} and each={each}: give 1 or more frequent words and 0 or more for each")
    counts = np.zeros(vocab_size)
    for source, target, _ in cells(corpus):
        counts += np.bincount(target[source == EOS], minlength=vocab_size)  # a pair has one end: each word once
    common = np.union1d(np.arange(UNK + 1), np.argsort(-counts, kind="stable")[:frequent])
    source, target, p = lexicon(corpus, vocab_size)
    rare = ~np.isin(target, common) & (source > UNK)
    source, target, p = source[rare], target[rare], p[rare]
    order = np.lexsort((-p, source))
    source, target = source[order], target[order]
    rank = np.arange(len(source)) - np.searchsorted(source, source)
    source, target = source[rank < each], target[rank < each]
    starts = np.searchsorted(source, np.arange(vocab_size + 1))
    return Shortlist(*(torch.from_numpy(part.astype(np.int64)) for part in (common, starts, target)))


def lexicon(corpus: Rows, vocab_size: int) -> tuple[Ids, Ids, Shares]:
    """Source and target word of all that stand together in some pair, and t(target | source)."""
    found = Lexicon.learn(partial(cells, corpus), vocab_size, ROUNDS)
    return found.keys // vocab_size, found.keys % vocab_size, found.t


def cells(corpus: Rows) -> Iterator[Cells]:
    """Each source word of each pair (its end too) with each target word: their ids, and the number of the latter.

    They come some at a time, so that memory stays flat; the numbers count from 0 each time.
    """
    left = MOST
    for number in range(corpus.shards):
        shard = corpus.shard(number)  # of rows (x1 .. xn </s>, <s> y1 .. ym </s>): of a target, its words alone
        shard = Shard(shard.ids, shard.starts + np.array([0, 1]), shard.lengths - np.array([0, 2]))
        sizes = shard.lengths.prod(axis=1)
        ends = sizes.cumsum()
        rows = np.flatnonzero(ends <= left)
        for some in np.split(rows, np.flatnonzero(np.diff(ends[rows] // CELLS)) + 1):
            if sizes[some].sum():
                yield crossed(shard, some)
        left -= int(sizes.sum())
        if left <= 0:
            return


# -- the file --------------------------------------------------------------------------------------------------------


def save(folder: Path, shortlist: Shortlist, tokenizer: Tokenizer) -> None:
    save_weights(folder / FILE, vars(shortlist), tokenizer=tokenizer.fingerprint)


def load(folder: Path, tokenizer: Tokenizer) -> Shortlist:
    """What `save` wrote, if it is of the vocabulary that the folder has now."""
    path, again = folder / FILE, f"make it with: qkv shortlist {folder}"
    if not path.exists():
        raise InputError(f"{folder} has no {FILE}; {again}")
    try:
        tensors, header = read_weights(path)
        found = Shortlist(*(tensors[name] for name in ("frequent", "starts", "ids")))
    except (SafetensorError, OSError, KeyError) as error:
        raise InputError(f"{path} is damaged ({error}); {again}") from None
    if header.get("tokenizer") != tokenizer.fingerprint:
        raise InputError(f"{path} was made for another vocabulary; {again}")
    return found
