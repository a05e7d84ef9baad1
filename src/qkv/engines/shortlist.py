"""A shortlist: the few target words that a source sentence may become, so that a step need not try the vocabulary."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from qkv.data import Rows, Shard
from qkv.decoding.draws import RowNumber
from qkv.decoding.engine import Engine, Search
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.lexicon import Cells, Ids, Lexicon, Shares, crossed
from qkv.decoding.plain import padded
from qkv.engines.lean import Lean, LeanTransformer
from qkv.engines.native.writer import NativeWriter
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.text.tokenizer import EOS, UNK, Tokenizer
from qkv.weights import read_weights, save_weights

FILE = "shortlist.safetensors"
WITH = "+shortlist"  # what stands after the name of an engine that uses it
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


class Short:
    """A lean Transformer that has the words of some sentences' lists only: its tokens are places in `ids` (U,).

    It is made for one search and is its own state: what the Transformer remembers, and for each sentence at work what
    it may not say, 0 or -inf (n, U).
    """

    def __init__(self, lean: LeanTransformer, shortlist: Shortlist, src: Tensor) -> None:
        self.lean, self.shortlist = lean, shortlist
        self.ids, _ = shortlist.of(src)
        self.vocabulary = cast(Any, lean.vocabulary).rows(self.ids)

    def start(self, given: Tensor) -> tuple[Tensor, "Short"]:
        """The sentences that it was made for, in any order, each as often as one likes."""
        _, may = self.shortlist.of(given)
        first, self.seen = self.lean.start(given)  # <s> is the same number in every list
        self.blocked = torch.zeros(may.shape).masked_fill_(~may, -torch.inf)
        return first, self

    def step(self, tokens: Tensor, state: "Short") -> Tensor:
        """The last token of each hypothesis (N,) -> logits of the next one (N, U)."""
        logits: Tensor = self.vocabulary(self.lean.hidden(self.ids[tokens], self.seen))
        logits.view(len(self.blocked), -1, len(self.ids)).add_(self.blocked[:, None])
        return logits

    def reorder(self, rows: Tensor) -> None:
        kept = (rows // self.seen.width).unique_consecutive()
        if len(kept) < len(self.blocked):
            self.blocked = self.blocked[kept]
        self.seen.reorder(rows)


class Shortlisted(Lean):
    """The searches of a lean engine, each sentence with the words of its own shortlist alone."""

    def __init__(self, engine: Lean, shortlist: Shortlist) -> None:
        self.lean, self.shortlist = cast(LeanTransformer, engine.decoder), shortlist
        super().__init__(cast(Transformer, engine.model), self.lean)
        self.name = f"{engine.name}{WITH}"

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        short = Short(self.lean, self.shortlist.with_(how.prefix), padded(sources))
        how = replace(how, prefix=tuple(torch.searchsorted(short.ids, torch.tensor(how.prefix)).tolist()))
        lean = Lean(cast(Transformer, self.model), short)
        lean.sets_threads = self.sets_threads
        found = lean.decode(sources, limits, how, rows)
        return [[replace(one, tokens=short.ids[one.tokens].tolist()) for one in several] for several in found]


class NativeShortlisted(NativeWriter):
    """The searches of the native engine, each sentence with the words of its own shortlist alone."""

    def __init__(self, engine: NativeWriter, shortlist: Shortlist) -> None:
        super().__init__(engine.model, engine.native, lambda: Shortlisted(cast(Lean, engine.other), shortlist))
        self.shortlist, self.name = shortlist, f"{engine.name}{WITH}"

    def lists(self, sources: list[list[int]], prefix: Sequence[int] = ()) -> list[list[int]]:
        ids, may = self.shortlist.with_(prefix).of(padded(sources))
        return [ids[row].tolist() for row in may]


def shortlisted(engine: Engine, shortlist: Shortlist) -> Engine:
    """The same engine, which tries each sentence's shortlist only."""
    if isinstance(engine, NativeWriter):
        return NativeShortlisted(engine, shortlist)
    return Shortlisted(cast(Lean, engine), shortlist)


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
