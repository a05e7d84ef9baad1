"""Word alignments out of attention: which source word each target word comes from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qkv import manifest
from qkv.config import from_tree
from qkv.decoding.searcher import CELLS, by_length
from qkv.decoding.translator import Links, Translator
from qkv.errors import InputError
from qkv.files import read_json, write_json
from qkv.text.tokenizer import BOS

FILE = "alignment.json"  # where a model folder keeps the read-out that suits it
ROUNDS = 5  # of expectation and maximisation, as in Brown et al. 1993
Words = list[list[int]]  # the token ids of each word
OVER_SOURCE = "memory_attention"  # what models call it
Weights = NDArray[np.float32]


@runtime_checkable
class Looks(Protocol):
    """An engine that knows itself where its decoder looks."""

    def has_room(self, sources: list[list[int]], limits: list[int]) -> bool:
        """Whether it can read these, and write so many tokens."""

    @property
    def memory_layers(self) -> int:
        """Layers of the decoder that attend to the source."""

    def attention(self, sources: list[list[int]], targets: list[list[int]], layer: int) -> list[Weights]:
        """By each head of a layer, counted from 0: (H, T + 1, S + 1) for each pair of ids, whose ends count."""


@dataclass(frozen=True, kw_only=True)
class Readout:
    """Garg et al. 2019, section 3.2, Chen et al. 2020, section 3: one decoder layer's attention, mean over heads.

    Upper layers look at the source of the word that they are about to write, so a word's row is the one that predicts
    it. Low layers look at the source of the word that they have just read: its row is one step later (SHIFT-ATT).
    """

    layer: int  # counted from 1
    shift: bool  # True: the row that has the word as its input; False: the row that predicts it
    agreement: float = 0.0  # with a lexical model, see `best_layer`


def align(
    translator: Translator, pairs: list[tuple[str, str]],
    *, layer: int | None = None, shift: bool | None = None, threshold: float = 0.0,
) -> list[Links]:  # fmt: skip
    """For each pair (source, target), the links between its words, which are what spaces part: [(0, 0), (1, 2)].

    Each target word is linked to the source word that it looks at most, if at least `threshold` of its attention goes
    there. `layer` and `shift` are the model folder's own (`qkv align --tune`) unless given.
    """
    own = readout_of(translator)
    if layer is not None and layer != own.layer:
        own = Readout(layer=layer, shift=False)
    chosen = Readout(layer=own.layer, shift=own.shift if shift is None else shift)
    sources, targets = (words_of(translator, [pair[side] for pair in pairs]) for side in (0, 1))
    return [strongest(weights, threshold) for weights in word_attention(translator, sources, targets, chosen)]


def strongest(weights: Weights, threshold: float = 0.0) -> Links:
    """Attention between words (T, S) -> the best source word of each target word."""
    if not weights.size:
        return []
    found = zip(weights.argmax(axis=1).tolist(), range(len(weights)), weights.max(axis=1).tolist(), strict=True)
    return sorted((s, t) for s, t, weight in found if weight >= threshold and weight)


def words_of(translator: Translator, texts: Sequence[str]) -> list[Words]:
    """The ids of each word of each text; put together they are the ids of the text with single spaces."""
    return [translator.tokenizer.encode_batch(text.split()) for text in texts]


def word_attention(
    translator: Translator, sources: list[Words], targets: list[Words], readout: Readout
) -> list[Weights]:
    """How much of each target word's attention goes to each source word, (T, S) for each pair."""
    both = both_readings(translator, sources, targets, [check_layer(translator, readout.layer)])
    return [one[int(readout.shift), 0] for one in both]


def both_readings(
    translator: Translator, sources: list[Words], targets: list[Words], layers: list[int]
) -> list[Weights]:
    """For each pair (2, layers, T, S) between words: the rows that predict a word, and the rows that read it."""
    src, tgt = ([list(chain.from_iterable(words)) for words in side] for side in (sources, targets))
    longest = translator.loaded.max_length
    for ids in (*src, *tgt):
        if len(ids) + 1 > longest:
            begins = translator.tokenizer.decode(ids)[:40]
            raise InputError(
                f"the sentence {begins!r}... has {len(ids) + 1} tokens, the model takes {longest}; align shorter ones"
            )
    found = [np.zeros((2, len(layers), len(t), len(s)), np.float32) for s, t in zip(sources, targets, strict=True)]
    work = [i for i in range(len(src)) if src[i] and tgt[i]]
    maps = attention(translator, [src[i] for i in work], [tgt[i] for i in work], layers) if work else []
    for i, weights in zip(work, maps, strict=True):
        n, sizes = len(tgt[i]), ([len(word) for word in targets[i]], [len(word) for word in sources[i]])
        found[i] = np.stack([merged(weights[:, shift : n + shift], *sizes) for shift in (0, 1)])
    return found


def attention(translator: Translator, src: list[list[int]], tgt: list[list[int]], layers: list[int]) -> list[Weights]:
    """The mean over heads of each layer's weights, (layers, T + 1, S + 1) for each pair of ids."""
    engine = translator.engine
    if not isinstance(engine, Looks) or not engine.has_room(src, [len(ids) + 1 for ids in tgt]):
        return model_attention(translator.model, src, tgt, layers)
    several = [engine.attention(src, tgt, layer) for layer in layers]
    return [np.stack([weights.mean(axis=0) for weights in one]) for one in zip(*several, strict=True)]


def model_attention(model: Any, src: list[list[int]], tgt: list[list[int]], layers: list[int]) -> list[Weights]:
    """... of a model in torch, while it writes the targets."""
    import torch

    from qkv.attention import recording
    from qkv.decoding.plain import padded

    device, found = next(model.parameters()).device, dict[int, Weights]()
    for batch in by_length([max(len(s), len(t)) + 1 for s, t in zip(src, tgt, strict=True)], CELLS):
        inputs = padded([tgt[i] for i in batch], device).roll(1, dims=1)  # (B, T): the end makes room for <s>
        inputs[:, 0] = BOS
        with recording(model, OVER_SOURCE) as seen, torch.inference_mode():
            model(padded([src[i] for i in batch], device), inputs)
        heads = [torch.cat(calls, dim=2).mean(dim=1) for calls in seen.calls.values()]
        maps = torch.stack(heads)[layers].float().cpu().numpy()  # (layers, B, T, S)
        found |= {i: maps[:, row, : len(tgt[i]) + 1, : len(src[i]) + 1] for row, i in enumerate(batch)}
    return [found[i] for i in range(len(src))]


def merged(weights: Weights, rows: list[int], columns: list[int]) -> Weights:
    """Between sub-words (L, t, s) -> between words: a word looks as its parts do on average, at all of a word."""
    by_source = np.split(weights[:, :, : sum(columns)], np.cumsum(columns)[:-1], axis=2)  # without </s>
    by_word = np.stack([part.sum(axis=2) for part in by_source], axis=2)  # (L, t, S)
    by_target = np.split(by_word, np.cumsum(rows)[:-1], axis=1)
    return np.stack([part.sum(axis=1) / max(1, part.shape[1]) for part in by_target], axis=1)


def memory_layers(model: Any) -> int:
    """How many layers of the decoder attend to the source."""
    from qkv.attention import Soft

    if getattr(getattr(model, "config", None), "attention", "") == "none":
        return 0
    return sum(isinstance(part, Soft) and OVER_SOURCE in name.split(".") for name, part in model.named_modules())


def count_layers(translator: Translator) -> int:
    """The same, of a model that has some."""
    engine = translator.engine
    if not (count := engine.memory_layers if isinstance(engine, Looks) else memory_layers(translator.model)):
        raise InputError(
            f"this {type(translator.model).__name__.lower()} model has no attention over the source, which alignments "
            "are read from; use a model with attention"
        )
    return count


def check_layer(translator: Translator, layer: int) -> int:
    """The number of a layer that exists, counted from 0."""
    layers = count_layers(translator)
    if not 1 <= layer <= layers:
        raise InputError(f"there is no layer {layer} in this decoder; give 1 to {layers}")
    return layer - 1


# -- which layer -----------------------------------------------------------------------------------------------------


def readout_of(translator: Translator) -> Readout:
    """What the model folder's alignment.json says; else the last layer but one (Garg et al. 2019, section 5.1)."""
    path = translator.folder / FILE if translator.folder else None
    if path is None or not path.exists():
        return Readout(layer=max(1, count_layers(translator) - 1), shift=False)
    try:
        return from_tree(Readout, read_json(path), str(path))
    except (ValueError, OSError):
        raise InputError(f"{path} is damaged; write it again with qkv align --tune") from None


def save_readout(folder: Path, readout: Readout) -> None:
    write_json(folder / FILE, asdict(readout))
    manifest.seal(folder, [FILE])


def best_layer(translator: Translator, pairs: list[tuple[str, str]]) -> Readout:
    """The layer and the row whose links agree best with a lexical model of the pairs; no gold links are needed.

    The lexical model is Brown et al. 1993, model 1, learned from these pairs alone: its posterior says how probable it
    is, by what words stand together elsewhere, that a target word comes from a source word. The agreement of a read-out
    is the mean posterior of its links: 1 if the lexical model would bet everything on them.
    """
    words = [(source.lower().split(), target.lower().split()) for source, target in pairs]
    if not any(source and target for source, target in words):
        raise InputError("there is no pair with words on both sides to choose a layer by; give some hundred pairs")
    posteriors = lexical_posteriors(words)
    layers = list(range(count_layers(translator)))
    sources, targets = (words_of(translator, [pair[side] for pair in pairs]) for side in (0, 1))
    totals, count = np.zeros((2, len(layers))), 0
    for weights, posterior in zip(both_readings(translator, sources, targets, layers), posteriors, strict=True):
        if weights.size:
            where = weights.argmax(axis=-1)[..., None]  # (2, layers, T, 1)
            totals += np.take_along_axis(np.broadcast_to(posterior, weights.shape), where, axis=-1).sum(axis=(2, 3))
            count += len(posterior)
    shift, layer = divmod(int(totals.argmax()), len(layers))
    return Readout(layer=layer + 1, shift=bool(shift), agreement=round(float(totals.max()) / count, 4))


def lexical_posteriors(pairs: list[tuple[list[str], list[str]]]) -> list[NDArray[np.float64]]:
    """p(target word j comes from source word i | pair) by IBM model 1, (T, S) for each pair: rows sum to 1."""
    from qkv.data import RowsInMemory
    from qkv.decoding.lexicon import Lexicon, crossed

    words = {word: number for number, word in enumerate({word for pair in pairs for side in pair for word in side})}
    shard = RowsInMemory([[[words[word] for word in side] for side in pair] for pair in pairs]).shard(0)
    cells = crossed(shard, np.arange(len(pairs)))
    # Of the last round, what is asked for is the expectation.
    shares = Lexicon.learn(lambda: [cells], len(words), ROUNDS - 1).shares(cells)
    several = np.split(shares, shard.lengths.prod(axis=1).cumsum()[:-1])
    return [share.reshape(len(target), len(source)) for share, (source, target) in zip(several, pairs, strict=True)]


# -- measures and files ----------------------------------------------------------------------------------------------


def alignment_error_rate(found: Links, sure: Links, possible: Links | None = None) -> float:
    """Och and Ney 2003, Eq. 1: AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), where the sure links are possible, too."""
    a, s = set(found), set(sure)
    p = s | set(possible or [])
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s)) if a or s else 0.0


def to_pharaoh(links: Links) -> str:
    """The line that other tools read: 0-0 1-2."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))
