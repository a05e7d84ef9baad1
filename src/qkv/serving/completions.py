"""OpenAI's completions: what a language model writes after prompts, told at once or as it is written."""

import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qkv.config import from_tree
from qkv.decoding.generator import Increment
from qkv.errors import InputError
from qkv.serving.answers import items_of
from qkv.serving.events import Events, stream
from qkv.serving.libre import check_size
from qkv.serving.models import Served
from qkv.serving.service import Visit
from qkv.serving.writing import searched, written

TEMPERATURE, TOKENS = 1.0, 16  # OpenAI's defaults
STOPS = 4  # texts that may end an answer, as there
DONE = "[DONE]"
Texts = str | list[str] | list[int] | list[list[int]]  # ids are those of the model's own tokenizer
Tree = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What a stream tells beside the texts."""

    include_usage: bool | None = False
    include_obfuscation: bool | None = False


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What POST /v1/completions reads; null is the same as nothing."""

    model: str
    prompt: Texts | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    suffix: str | None = None
    user: str | None = None
    api_key: str | None = None

    def __post_init__(self) -> None:
        for name in ("frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "suffix"):
            if getattr(self, name) not in (None, 0, {}, "") or (name == "logprobs" and self.logprobs is not None):
                raise ValueError(f"{name} is something that this server cannot do; leave it out")
        if self.best_of not in (None, self.n or 1):
            raise ValueError("best_of is something that this server cannot do; leave it out, or make it equal to n")
        if any(not one for one in self.stops) or len(self.stops) > STOPS:
            raise ValueError(f"stop has up to {STOPS} texts, none of them empty")

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Completed:
    """One text of an answer. It is told up to the first stop, and what may be the beginning of one is kept back."""

    def __init__(self, stops: list[str]) -> None:
        self.stops, self.text, self.told, self.tokens = stops, "", 0, 0
        self.finish: str | None = None  # why it ended

    def add(self, piece: Increment) -> str:
        """What can be told once this was written, too."""
        self.text, self.tokens = self.text + piece.text, piece.tokens
        ends = [at for stop in self.stops if (at := self.text.find(stop)) >= 0]
        until = min(ends, default=len(self.text))
        if ends or piece.generated:
            self.finish = "stop" if ends or (piece.generated and piece.generated.ended) else "length"
        else:
            kept = (n for stop in self.stops for n in range(len(stop)) if self.text.endswith(stop[:n]))
            until -= max(kept, default=0)
        text, self.told = self.text[self.told : until], until
        return text


class Completing:
    """The texts of one request, as they are written, and how many tokens they took."""

    def __init__(self, asked: Visit, wish: Completion) -> None:
        self.asked, self.wish = asked, wish
        self.served = asked.service.models.able("generate", wish.model)
        self.prompts = given(asked, "" if wish.prompt is None else wish.prompt, self.served)
        self.tokens, self.n = TOKENS if wish.max_tokens is None else wish.max_tokens, 1 if wish.n is None else wish.n
        temperature = TEMPERATURE if wish.temperature is None else wish.temperature
        if not temperature and self.n > 1:
            raise InputError(f"n is {self.n}, but with a temperature of 0 all texts are the same; ask for one")
        seed = secrets.randbits(32) if wish.seed is None else wish.seed
        draws = {"temperature": temperature, "top_p": wish.top_p, "seed": seed} if temperature else {}
        self.search = searched(asked.service.limits, self.tokens, False, {"n_best": self.n, **draws})
        self.sizes = [len(self.served.model.ids(prompt)) for prompt in self.prompts]
        if max(self.sizes) + self.tokens > (context := self.served.model.context):
            raise InputError(
                f"this model's context is {context} tokens, but the prompt has {max(self.sizes)} and max_tokens is "
                f"{self.tokens}; ask for less"
            )
        self.choices = [Completed(wish.stops) for _ in range(self.n * len(self.prompts))]
        self.head: Tree = {
            "id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()),
            "model": self.served.name,
        }  # fmt: skip

    def told(self) -> Iterator[Tree]:
        """What can be told of a choice, again and again; at first with the prompt, where that is wanted."""
        enough, echoes = set[int](), dict[int, str]()
        if self.wish.echo:
            echoes = {row: text_of(self.prompts[row // self.n], self.served) for row in range(len(self.choices))}
        for piece in written(self.asked, self.served, self.prompts, self.tokens, self.search, enough):
            row, choice = piece.row, self.choices[piece.row]
            if row in enough:
                continue
            text = echoes.pop(row, "") + choice.add(piece)
            if choice.finish:
                enough.add(row)
            yield {"index": row, "text": text, "logprobs": None, "finish_reason": choice.finish}

    def usage(self) -> dict[str, int]:
        return used(sum(self.sizes), sum(choice.tokens for choice in self.choices))

    def whole(self) -> Tree:
        rows: list[list[Tree]] = [[] for _ in self.choices]
        for one in self.told():
            rows[one["index"]].append(one)
        choices = [some[-1] | {"text": "".join(one["text"] for one in some)} for some in rows]
        return self.head | {"choices": choices, "usage": self.usage()}

    def chunks(self) -> Iterator[Tree]:
        with_usage = bool(self.wish.stream_options and self.wish.stream_options.include_usage)
        for one in self.told():
            if one["text"] or one["finish_reason"]:
                yield self.head | {"choices": [one]} | ({"usage": None} if with_usage else {})
        if with_usage:
            yield self.head | {"choices": [], "usage": self.usage()}


def completions(asked: Visit) -> Tree | Events:
    completing = Completing(asked, from_tree(Completion, asked.values, "request"))
    return stream(asked, completing.chunks(), DONE) if completing.wish.stream else completing.whole()


def given(asked: Visit, texts: Texts, served: Served) -> list[Any]:
    """Texts and lists of ids, within the server's limits; ids must be the model's."""
    if texts == []:
        raise InputError("a list without a text was given; give at least one")
    several = [texts] if not isinstance(texts, list) or (texts and isinstance(texts[0], int)) else texts
    rows, size = [one for one in several if isinstance(one, list)], len(served.model.tokenizer)
    for token in (token for row in rows for token in row):
        if not 0 <= token < size:
            raise InputError(f"there is no token {token}; {served.name} has {size}, counted from 0")
    check_size(asked, sum(map(len, rows)))
    return items_of(asked, several, served)


def text_of(prompt: str | list[int], served: Served) -> str:
    return prompt if isinstance(prompt, str) else served.model.tokenizer.decode(prompt)


def used(prompt: int, completion: int | None = None) -> dict[str, int]:
    written = {} if completion is None else {"completion_tokens": completion}
    return {"prompt_tokens": prompt, **written, "total_tokens": prompt + (completion or 0)}
