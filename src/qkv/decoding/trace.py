"""One sentence, translated, with every step of the search: what a page shows of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from qkv.config import check_keys
from qkv.decoding.alignment import Links, memory_layers, readout_of, strongest, word_attention
from qkv.decoding.constraints import FORBIDDEN
from qkv.decoding.engine import Search
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.decoding.plain import Plain, padded
from qkv.decoding.searcher import Searched
from qkv.decoding.translator import Scored, Translated, Translator
from qkv.errors import InputError
from qkv.models import Model, SequenceToSequence, Writes
from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences
from qkv.text.tokenizer import EOS, Tokenizer

Round = list[tuple[list[int], float, int]]  # one call of `step`: the tokens, log p and parent of what it goes on from


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
    check_keys(Search, how, "search")
    line, search = normalise(text), Search(**how)
    if not line:
        raise InputError("there is no text to look at; give a sentence")
    check_fits(translator, line)
    model, tokenizer = cast(SequenceToSequence, translator.model), translator.tokenizer
    watched, is_beam, (src,) = Watched(model), search.beam > 1 and not search.sampling, translator.sources([line])
    twin = Translator(model, tokenizer, translator.about, Plain(cast(Model, watched)))
    every = replace(search, n_best=search.beam) if is_beam else search  # all that it finds, beyond the n best
    found, looped = twin.search([src], translator.limits([src]), every, rows=[(0, 0)])[0]
    translated = twin.join(1, [[Searched(found[: search.n_best], looped)]])
    tgt = found[0].tokens
    words = [words_in(tokenizer, ids) for ids in (src, tgt)]
    sides = [[[ids[i] for i in word.tokens] for word in some] for ids, some in zip((src, tgt), words, strict=True)]
    links: Links = []
    if memory_layers(model):
        (weights,) = word_attention(translator, [sides[0]], [sides[1]], readout_of(translator))
        links = strongest(weights)
    scores = log_probabilities(model, src, tgt).gather(1, torch.tensor([[*tgt, EOS]]).T)[:, 0]
    return Trace(
        line, translated, src, tgt, [*tokenizer.pieces(src), "</s>"], [*tokenizer.pieces(tgt), "</s>"],
        scores.tolist(), words[0], words[1], links,
        list(steps_of(watched.rounds, found, tokenizer, search.alpha if is_beam else 0.0)),
    )  # fmt: skip


def check_fits(translator: Translator, line: str) -> None:
    """Refuse what would be translated in parts: nothing can be looked into but one sentence."""
    if (count := len(split_sentences(line))) > 1:
        raise InputError(f"the text has {count} sentences, each translated by itself; look at one of them at a time")
    if not translator.fits(line):
        raise InputError(
            f"the text has {len(translator.sources([line])[0])} tokens and would be translated in parts, since the "
            f"model takes {translator.longest}; look at one sentence at a time"
        )


@torch.inference_mode()
def log_probabilities(model: Model, src: list[int], tgt: list[int]) -> Tensor:
    """log p (T + 1, V) of each token after those of tgt before it, and of the end, as every search has it."""
    writer = cast(Writes, model)
    first, state = writer.start(padded([src], next(model.parameters()).device))
    tokens = [first, *first.new_tensor(tgt)[:, None]]
    logits = torch.cat([writer.step(token, state) for token in tokens]).float().cpu()
    logits[:, FORBIDDEN] = -torch.inf
    return logits.log_softmax(dim=-1)


def words_in(tokenizer: Tokenizer, ids: list[int]) -> list[Word]:
    """The words that spaces part; a token that begins with a space begins a word."""
    groups: list[list[int]] = []
    for number, piece in enumerate(tokenizer.pieces(ids)):
        if piece.startswith("▁") or not groups:
            groups.append([])
        groups[-1].append(number)
    texts = tokenizer.decode_batch([[ids[i] for i in group] for group in groups])
    return [Word(text.strip(), group) for text, group in zip(texts, groups, strict=True)]


# -- watching a search -----------------------------------------------------------------------------------------------


class Watched:
    """A model between a search and the real one, and its state: it writes down what the search goes on from."""

    def __init__(self, model: SequenceToSequence) -> None:
        self.model, self.config, self.rounds = model, model.config, list[Round]()

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.model.parameters()

    def start(self, given: Tensor) -> tuple[Tensor, "Watched"]:
        first, self.inner = self.model.start(given)
        self.rounds = []  # of the last search: a sentence that looped is searched twice
        self.parents = torch.arange(len(first))
        return first, self

    def step(self, tokens: Tensor, state: "Watched") -> Tensor:
        if self.rounds:
            pairs = zip(self.parents.tolist(), tokens.tolist(), strict=True)
            self.rounds.append([self.continued(parent, token) for parent, token in pairs])
        else:
            self.rounds.append([([], 0.0, row) for row in range(len(tokens))])
        logits = self.model.step(tokens, self.inner)
        log_p = logits.float().clone().index_fill_(1, FORBIDDEN.to(logits.device), -torch.inf).log_softmax(dim=-1)
        self.log_p, self.parents = log_p.cpu(), torch.arange(len(tokens))
        return logits

    def continued(self, parent: int, token: int) -> tuple[list[int], float, int]:
        tokens, total, _ = self.rounds[-1][parent]
        return [*tokens, token], total + float(self.log_p[parent, token]), parent

    def reorder(self, rows: Tensor) -> None:
        self.inner.reorder(rows)
        self.parents = self.parents[rows.cpu()]


def steps_of(rounds: list[Round], found: list[Hypothesis], tokenizer: Tokenizer, alpha: float) -> Iterator[SearchStep]:
    """The live hypotheses after each step, and those of `found` that ended in it."""
    longest = max(len(hypothesis.tokens) for hypothesis in found) + 1
    for length in range(1, max(longest, len(rounds) - 1) + 1):
        penalty, rows = length_penalty(length, alpha), rounds[length] if length < len(rounds) else []
        live = [Live(tokenizer.pieces(ids), total / penalty, at) for ids, total, at in rows if total > -torch.inf]
        ended = [hypothesis for hypothesis in found if len(hypothesis.tokens) + 1 == length]
        texts = tokenizer.decode_batch([hypothesis.tokens for hypothesis in ended])
        yield SearchStep(live, [Scored(text, one.score) for text, one in zip(texts, ended, strict=True)])
