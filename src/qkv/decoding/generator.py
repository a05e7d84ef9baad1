"""A generator: a language model, loaded, that goes on from a text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack, overload

from qkv.config import check_keys
from qkv.decoding.engine import Search, Searching, Streams
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.searcher import Opened
from qkv.decoding.translator import Scored
from qkv.errors import InputError
from qkv.evaluation.perplexity import Likelihood
from qkv.text.several import several
from qkv.text.tokenizer import BOS, EOS

DRAWS = ("temperature", "top_k", "top_p")  # each of them asks for sampling
HALF = "\ufffd"  # what the bytes of a character are read as that is not complete
MOST = 10**6  # tokens that are written after a text


@dataclass(frozen=True)
class Generated:
    """What a model wrote after a prompt. As a str it is the whole text: the prompt and what follows.

    >>> found = lm.generate("Once upon", tokens=20)
    >>> print(found, found.continuation, found.score, found.ended)
    """

    prompt: str
    continuation: str
    score: float  # log p of what was written; of a beam, divided by the length penalty
    tokens: int  # that were written
    alternatives: list[Scored] = field(default_factory=list)  # the n best continuations, this one first
    ended: bool = False  # the model ended the text by itself
    slid: bool = False  # the text outgrew the context, so that the model forgot its beginning

    @property
    def text(self) -> str:
        return self.prompt + self.continuation

    def __str__(self) -> str:
        return self.text

    def remarks(self) -> list[str]:
        """What a person should know about this text."""
        return ["is longer than the model's context: while it was written, its beginning was forgotten"] * self.slid


class Increment(NamedTuple):
    """What was written of one of several texts since its last piece, never half a character."""

    row: int  # which text
    text: str
    tokens: int  # that were written of it so far
    generated: Generated | None = None  # all of it, with its last piece


class TextStream(Iterator[str]):
    """The pieces of a continuation as they are written; then `generated` is all of it."""

    def __init__(self, prompt: str, pieces: Iterator[Increment]) -> None:
        self.prompt, self.pieces = prompt, pieces
        self.generated: Generated | None = None

    def __next__(self) -> str:
        piece = next(self.pieces)
        self.generated = piece.generated
        return piece.text


def after(said: str, text: str) -> str:
    """What a text has after what was said of it; bytes that are no text may have spoiled the end of that."""
    if text.startswith(said):
        return text[len(said) :]
    return text[next(i for i, letter in enumerate(said) if text[i : i + 1] != letter) :]


class Generator(Opened):
    """What `qkv.load` gives for a language model; a text is the same whatever others are generated beside it.

    >>> lm = qkv.load("lm")
    >>> print(lm.generate("Once upon a time", tokens=60, temperature=0.8))
    >>> lm.score("Once upon a time there was a king.").perplexity
    """

    engine: Streams

    @property
    def context(self) -> int:
        return self.loaded.max_length

    @property
    def before(self) -> list[int]:
        """What the model was taught to read before every text, if anything: Llama's <s>."""
        return [BOS] if self.about.get("bos") else []

    # -- writing ---------------------------------------------------------------------------------------------------

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, texts: str, *, tokens: int = ..., stop: bool = ..., first: int = ..., **how: Unpack[Searching]
    ) -> Generated: ...
    @overload
    def generate(
        self, texts: Iterable[str], *, tokens: int = ..., stop: bool = ..., first: int = ..., **how: Unpack[Searching]
    ) -> list[Generated]: ...
    def generate(
        self,
        texts: str | Iterable[str],
        *,
        tokens: int = 60,
        stop: bool = True,
        first: int = 0,
        **how: Unpack[Searching],
    ) -> Generated | list[Generated]:
        """Go on from a text, or from each of several, by at most `tokens` tokens.

        `how` are the fields of Search. Greedy unless asked otherwise: a temperature, top_k or top_p asks for draws, a
        beam for a beam search. With stop=False, the model may not end a text. An empty text begins a new one. What is
        drawn for a text follows from its number: the place in `texts`, of which `first` others stand before them.
        """
        prompts, search = several(texts), search_for(tokens, stop, dict(how))
        given, limits = [self.ids(prompt) for prompt in prompts], [tokens] * len(prompts)
        sizes = [len(ids) + tokens for ids in given]
        rows = [(first + i,) for i in range(len(given))]
        found = self.search(given, limits, search, rows=rows, sizes=sizes)
        whole = zip(prompts, given, found, strict=True)
        done = [self.generated(prompt, ids, some.hypotheses) for prompt, ids, some in whole]
        return done[0] if isinstance(texts, str) else done

    def stream(
        self, text: str, *, tokens: int = 60, stop: bool = True, first: int = 0, **how: Unpack[Searching]
    ) -> TextStream:
        """The same, piece by piece as it is written.

        >>> for piece in lm.stream("Once upon a time"):
        ...     print(piece, end="", flush=True)
        """
        search = search_for(tokens, stop, dict(how))
        if search.beam > 1 or search.n_best > 1:
            raise InputError(
                f"beam={search.beam} and n_best={search.n_best} give several texts at once, and a stream is one; "
                "leave them out, or use generate"
            )
        return TextStream(text, self.pieces([text], tokens, search, first=first))

    def pieces(
        self, prompts: Sequence[str | list[int]], tokens: int, search: Search, *, first: int = 0
    ) -> Iterator[Increment]:
        """What `generate` writes, greedy or drawn, after texts or their ids, as it is written: row i is of the prompt
        i // n_best. They may be some of several prompts, from number `first` on."""
        given, n = [self.ids(prompt) for prompt in prompts], search.n_best
        texts = [one if isinstance(one, str) else self.tokenizer.decode(one) for one in prompts]
        written: list[list[int]] = [[] for _ in range(n * len(given))]
        said = [""] * len(written)
        numbers = [(first + i,) for i in range(len(given))]
        for step in self.engine.stream(given, [tokens] * len(given), search, numbers):
            for row, token in zip(step.rows.tolist(), step.tokens.tolist(), strict=True):
                ids, done = given[row // n], step.done.get(row)
                if done:
                    whole = self.generated(texts[row // n], ids, [done])
                    yield Increment(first * n + row, after(said[row], whole.continuation), whole.tokens, whole)
                    continue
                written[row].append(token)
                if not (text := self.continuation(ids, written[row])).endswith(HALF):
                    yield Increment(first * n + row, after(said[row], text), len(written[row]))
                    said[row] = text

    def ids(self, prompt: str | list[int]) -> list[int]:
        """What stands before what is written, at least the end of the text before."""
        if self.about.get("backward"):
            raise InputError(
                "this model reads texts from their end to their beginning, so that it cannot go on from one; "
                "ask how probable it finds a text, or train one without data.backward"
            )
        if not isinstance(prompt, str):
            return prompt or self.before or [EOS]
        return [*self.before, *self.tokenizer.encode(prompt)] or [EOS]

    def generated(self, prompt: str, ids: list[int], found: list[Hypothesis]) -> Generated:
        ranked = [Scored(self.continuation(ids, one.tokens), one.score) for one in found]
        best = found[0]
        read = len(ids) + len(best.tokens) - (not best.ended)  # the last token of one that is cut is not
        return Generated(prompt, ranked[0].text, best.score, len(best.tokens), ranked, best.ended, read > self.context)

    def continuation(self, ids: list[int], tokens: list[int]) -> str:
        """The text of some tokens after others; a space between them is part of it."""
        before, whole, alone = self.tokenizer.decode_batch([ids, ids + tokens, tokens])
        return whole[len(before) :] if whole.startswith(before) else alone

    # -- reading ---------------------------------------------------------------------------------------------------

    @overload
    def score(self, texts: str) -> Likelihood: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Iterable[str]) -> list[Likelihood]: ...
    def score(self, texts: str | Iterable[str]) -> Likelihood | list[Likelihood]:
        """How probable the model finds a text, or each of several; what is longer than the context, in windows."""
        every = several(texts)
        rows = self.tokenizer.encode_batch(every)
        rows = [ids[::-1] for ids in rows] if self.about.get("backward") else rows
        if not all(rows):
            raise InputError("an empty text has no probability to be measured; give texts of at least a character")
        sizes = [(len(ids), len(text.split()), len(text)) for ids, text in zip(rows, every, strict=True)]
        found = [Likelihood(total, *size) for total, size in zip(self.nats(rows), sizes, strict=True)]
        return found[0] if isinstance(texts, str) else found

    def nats(self, rows: list[list[int]]) -> list[float]:
        """-log p of each row of tokens; the first is foretold from <s>, or from the end of the text before."""
        from qkv.decoding.likelihoods import nats

        [first] = self.before or [EOS]
        return nats(self.model, rows, first)


def search_for(tokens: int, stop: bool, how: dict[str, Any]) -> Search:
    """How to write, checked."""
    check_keys(Search, how, "generate")
    if tokens < 1:
        raise InputError(f"tokens must be at least 1, not {tokens}")
    if tokens > MOST:
        raise InputError(f"tokens must be at most {MOST:,}, not {tokens:,}")
    asked = {"beam": 1, "sampling": any(name in how for name in DRAWS), **how, "ends": "cut" if stop else "never"}
    search = Search(**asked)
    if search.sampling and search.beam > 1:
        raise InputError(f"beam={search.beam} searches, and a temperature, top_k or top_p draws; give one of them")
    return search
