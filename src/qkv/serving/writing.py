"""What a language model writes after a text: /api/generate, at once or as it is written."""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from qkv.config import from_tree
from qkv.decoding import Search
from qkv.decoding.generator import Generated, Increment, search_for
from qkv.decoding.translator import Scored
from qkv.errors import InputError
from qkv.serving.answers import items_of
from qkv.serving.events import GIVES, Events, stream
from qkv.serving.limits import Limits
from qkv.serving.models import Served
from qkv.serving.queued import check_search
from qkv.serving.service import Endpoint, Visit


@dataclass(frozen=True, kw_only=True)
class GenerateTexts:
    """What POST /api/generate reads: texts to go on from, and how, as `qkv generate` has it."""

    q: str | list[str] = ""
    model: str | None = None
    tokens: int = 60
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    beam: int | None = None
    n_best: int | None = None
    endless: bool = False
    stream: bool = False
    api_key: str | None = None


def searched(limits: Limits, tokens: int, endless: bool, how: dict[str, Any]) -> Search:
    """How to write, refused if it asks for more than the server gives."""
    if tokens > limits.tokens:
        raise InputError(f"{tokens} tokens are more than this server's {limits.tokens}; ask for less")
    search = search_for(tokens, not endless, {name: value for name, value in how.items() if value is not None})
    return check_search(limits, vars(search))


def generate(asked: Visit) -> dict[str, Any] | Events:
    wish = from_tree(GenerateTexts, asked.values, "request")
    served = asked.service.models.able("generate", wish.model)
    prompts, names = items_of(asked, wish.q, served), ("temperature", "top_k", "top_p", "seed", "beam", "n_best")
    search = searched(asked.service.limits, wish.tokens, wish.endless, {name: getattr(wish, name) for name in names})
    if wish.stream:
        if search.beam > 1:
            raise InputError("a beam search knows its text at the end only; leave out beam or stream")
        return stream(asked, (as_event(piece) for piece in written(asked, served, prompts, wish.tokens, search)))
    if search.beam > 1:
        how = {"tokens": wish.tokens, "stop": not wish.endless, "beam": search.beam, "n_best": search.n_best}
        line = asked.model(served)
        found = [line.alone(partial(served.model.generate, prompt, **how)) for prompt in prompts]
        asked.service.metrics.tokens.labels(served.name).inc(sum(one.tokens for one in found))
    else:
        pieces = written(asked, served, prompts, wish.tokens, search)
        done = {piece.row: piece.generated for piece in pieces if piece.generated}
        rows, n = [done[row] for row in sorted(done)], search.n_best
        found = [best_of(rows[i : i + n]) for i in range(0, len(rows), n)]
    return {"model": served.name, "texts": [as_tree(one) for one in found]}


def written(
    asked: Visit, served: Served, prompts: list[Any], tokens: int, search: Search, enough: Container[int] = ()
) -> Iterator[Increment]:
    """The pieces of all texts, whose tokens are counted; no more is wanted of a row that is in `enough`."""
    count, before = asked.service.metrics.tokens.labels(served.name), Counter[int]()
    for piece in asked.model(served).write(prompts, tokens, search, enough):
        count.inc(piece.tokens - before[piece.row])
        before[piece.row] = piece.tokens
        yield piece


def best_of(texts: list[Generated]) -> Generated:
    """The best text of a prompt, with all of them as alternatives: what `Generator.generate` gives."""
    ranked = sorted(texts, key=lambda one: -one.score)
    return replace(ranked[0], alternatives=[Scored(one.continuation, one.score) for one in ranked])


def as_tree(one: Generated) -> dict[str, Any]:
    tree = asdict(one) | {"text": one.text, "remarks": one.remarks()}
    return tree | {"alternatives": [other._asdict() for other in one.alternatives]}


def as_event(piece: Increment) -> dict[str, Any]:
    """The last one of a text has all of it."""
    told = {"row": piece.row, "piece": piece.text}
    return told | ({"generated": as_tree(piece.generated)} if piece.generated else {})


ROUTES = [
    Endpoint("POST", "/api/generate", generate, "What a language model writes after a text.", GenerateTexts, GIVES),
]
