"""One sentence, translated, with every step of the search: what a page shows of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from qkv.decoding.alignment import Links, has_memory_attention, readout_of, strongest, word_attention
from qkv.decoding.constraints import NEVER
from qkv.decoding.engine import Plain, Search, padded
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.decoding.sampling import RowNumber
from qkv.decoding.translator import Scored, Translated, Translator
from qkv.errors import InputError
from qkv.models import EncoderDecoder, Model
from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences
from qkv.text.tokenizer import BOS, EOS, Tokenizer


class Live(NamedTuple):
    """A hypothesis that goes on: its tokens, its score so far, and which one of the step before it continues."""

    tokens: list[str]
    score: float
    parent: int


class SearchStep(NamedTuple):
    """What one step of a search left: the hypotheses that go on, best first, and those that ended in it."""

    live: list[Live]
    finished: list[Scored]


class Word(NamedTuple):
    """A word, and the numbers of the tokens that spell it."""

    text: str
    tokens: list[int]


@dataclass(frozen=True)
class Trace:
    """How one sentence was translated."""

    text: str
    translated: Translated
    source_ids: list[int]  # without </s>
    target_ids: list[int]
    source_tokens: list[str]  # as a person reads them, </s> at last
    target_tokens: list[str]
    token_scores: list[float]  # log p of each target token and of the end
    source_words: list[Word]
    target_words: list[Word]
    alignment: Links = field(default_factory=list)  # of words; empty for a model without attention over the source
    steps: list[SearchStep] = field(default_factory=list)


def trace(translator: Translator, text: str, **how: Any) -> Trace:
    """Translate one sentence and tell how; `how` are the fields of Search: beam=5, n_best=3 ...

    The search is the reference engine's, watched from outside: nothing in it is slower when nobody watches.
    """
    line = normalise(text)
    if not line:
        raise InputError("there is no text to look at; give a sentence")
    check_fits(translator, line)
    watched = Watched(cast(EncoderDecoder, translator.model))
    engine = Watching(watched)
    twin = Translator(translator.model, translator.tokenizer, translator.about, engine)
    translated = twin.translate(line, **how)
    src, tgt = translator.tokenizer.encode(line), engine.found[0].tokens
    source_words, target_words = words_in(translator.tokenizer, src), words_in(translator.tokenizer, tgt)
    pieces = translator.tokenizer.pieces
    return Trace(
        line, translated, src, tgt, [*pieces(src), "</s>"], [*pieces(tgt), "</s>"],
        token_scores(translator, src, tgt), source_words, target_words,
        links_of(translator, (src, source_words), (tgt, target_words)),
        list(steps_of(watched.rounds, engine.found, translator.tokenizer, engine.alpha)),
    )  # fmt: skip


def check_fits(translator: Translator, line: str) -> None:
    """Refuse what would be translated in parts: nothing can be looked into but one sentence."""
    if (count := len(split_sentences(line))) > 1:
        raise InputError(f"the text has {count} sentences, each translated by itself; look at one of them at a time")
    if not translator.fits(line):
        raise InputError(
            f"the text has {len(translator.tokenizer.encode(line))} tokens and would be translated in parts, since the "
            f"model takes {translator.longest}; look at one sentence at a time"
        )


@torch.inference_mode()
def token_scores(translator: Translator, src: list[int], tgt: list[int]) -> list[float]:
    """log p of each token of tgt and of its end, as every search has it."""
    device = next(translator.model.parameters()).device
    logits = translator.model(padded([src], device), torch.tensor([[BOS, *tgt]], device=device)).logits[0].float()
    logits[:, NEVER] = -torch.inf
    written = torch.tensor([[*tgt, EOS]], device=device).T  # (T, 1)
    scores: list[float] = logits.log_softmax(dim=-1).gather(1, written)[:, 0].tolist()
    return scores


def words_in(tokenizer: Tokenizer, ids: list[int]) -> list[Word]:
    """The words that spaces part; a token that begins with a space begins a word."""
    groups: list[list[int]] = []
    for number, piece in enumerate(tokenizer.pieces(ids)):
        if piece.startswith("▁") or not groups:
            groups.append([])
        groups[-1].append(number)
    texts = tokenizer.decode_batch([[ids[i] for i in group] for group in groups])
    return [Word(text.strip(), group) for text, group in zip(texts, groups, strict=True)]


def links_of(
    translator: Translator, source: tuple[list[int], list[Word]], target: tuple[list[int], list[Word]]
) -> Links:
    if not has_memory_attention(translator.model):
        return []
    sides = [[[ids[i] for i in word.tokens] for word in words] for ids, words in (source, target)]
    (weights,) = word_attention(translator, [sides[0]], [sides[1]], readout_of(translator))
    return strongest(weights)


# -- watching a search -----------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """One call of `step`: the hypotheses that it reads, with their log p, and the rows that they came from."""

    tokens: list[list[int]]
    totals: list[float]
    parents: list[int]


class Reordered:
    """A model's state that remembers how its rows were last put in order."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows: list[int] | None = None

    def reorder(self, rows: Tensor) -> None:
        before = self.rows
        self.rows = [before[row] for row in rows.tolist()] if before is not None else rows.tolist()
        self.inner.reorder(rows)


class Watched:
    """A model between a search and the real one, which writes down what the search asks for."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model, self.config = model, model.config
        self.rounds: list[Round] = []
        self.log_p = torch.empty(0)

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.model.parameters()

    def start(self, given: Tensor) -> tuple[Tensor, Reordered]:
        self.rounds = []  # of the last search: a sentence that looped is searched twice
        first, state = self.model.start(given)
        return first, Reordered(state)

    def step(self, tokens: Tensor, state: Reordered) -> Tensor:
        last = tokens.tolist()
        if not self.rounds:
            self.rounds.append(Round([[] for _ in last], [0.0] * len(last), [0] * len(last)))
        else:
            before, rows = self.rounds[-1], state.rows or list(range(len(last)))
            totals = [before.totals[row] + float(self.log_p[row, token]) for row, token in zip(rows, last, strict=True)]
            written = [[*before.tokens[row], token] for row, token in zip(rows, last, strict=True)]
            self.rounds.append(Round(written, totals, rows))
        state.rows = None
        logits = self.model.step(tokens, state.inner)
        self.log_p = logits.float().clone().index_fill_(1, NEVER.to(logits.device), -torch.inf)
        self.log_p = self.log_p.log_softmax(dim=-1).cpu()
        return logits


class Watching(Plain):
    """The reference engine on a watched model; it keeps all that it found, beyond the n best."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(cast(Model, watched))
        self.found: list[Hypothesis] = []
        self.alpha = 0.0

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        is_beam = how.beam > 1 and not how.sampling
        results = super().decode(sources, limits, replace(how, n_best=how.beam) if is_beam else how, rows)
        self.found, self.alpha = results[0], how.alpha if is_beam else 0.0
        return [some[: how.n_best] for some in results]


def steps_of(rounds: list[Round], found: list[Hypothesis], tokenizer: Tokenizer, alpha: float) -> Iterator[SearchStep]:
    """The live hypotheses after each step, and those of `found` that ended in it."""
    longest = max(len(hypothesis.tokens) for hypothesis in found) + 1
    for length in range(1, max(longest, len(rounds) - 1) + 1):
        ended = [hypothesis for hypothesis in found if len(hypothesis.tokens) + 1 == length]
        texts = tokenizer.decode_batch([hypothesis.tokens for hypothesis in ended])
        finished = [Scored(text, hypothesis.score) for text, hypothesis in zip(texts, ended, strict=True)]
        yield SearchStep(live_of(rounds, length, tokenizer, alpha), finished)


def live_of(rounds: list[Round], length: int, tokenizer: Tokenizer, alpha: float) -> list[Live]:
    if length >= len(rounds):
        return []
    now, penalty = rounds[length], length_penalty(length, alpha)
    rows = zip(now.tokens, now.totals, now.parents, strict=True)
    return [Live(tokenizer.pieces(ids), total / penalty, parent) for ids, total, parent in rows if total > -torch.inf]
