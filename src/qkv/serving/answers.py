"""What models answer to a text: /api/predict, /api/fill, /api/embed and /api/summarise, for whatever model can."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qkv.config import from_tree
from qkv.serving.libre import bounded
from qkv.serving.limits import Refusal
from qkv.serving.models import Served
from qkv.serving.queued import check_search
from qkv.serving.service import Endpoint, Visit


@dataclass(frozen=True, kw_only=True)
class PredictTexts:
    """What POST /api/predict reads: texts, or tables such as {"question": "...", "context": "..."}."""

    q: str | dict[str, Any] | list[str | dict[str, Any]]
    model: str | None = None
    api_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class FillTexts:
    """What POST /api/fill reads: texts with <mask> in place of words, and how many words to give for each; or, jointly,
    how many ways to fill all of a text."""

    q: str | list[str]
    k: int = 5
    jointly: bool = False
    model: str | None = None
    api_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class EmbedTexts:
    """What POST /api/embed reads."""

    q: str | list[str]
    model: str | None = None
    api_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class SummariseTexts:
    """What POST /api/summarise reads: documents, and how to search, as `qkv summarise` has it."""

    q: str | list[str]
    model: str | None = None
    min_tokens: int = 0
    max_tokens: int = 0
    beam: int = 5
    alpha: float = 1.0
    no_repeat: int = 3
    api_key: str | None = None


def letters_in(value: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from letters_in(one)


def items_of(asked: Visit, given: Any, served: Served) -> list[Any]:
    """What was given as a list, within the limits of the server."""
    items, most = given if isinstance(given, list) else [given], asked.service.limits.items
    if len(items) > most:
        raise Refusal(400, f"Invalid request: request ({len(items)}) exceeds batch limit ({most})")
    whole = bounded(asked, "".join(letters_in(items)))
    asked.service.metrics.characters.labels(served.name).inc(len(whole))
    return items


def predict(asked: Visit) -> dict[str, Any]:
    wish = from_tree(PredictTexts, asked.values, "request")
    served = asked.service.models.able("predict", wish.model)
    items = items_of(asked, wish.q, served)
    served.model.questions(items)  # refused here by its number among all, before any waits
    return {"model": served.name, "answers": asked.model(served).ask(served.model.predict, items)}


def fill(asked: Visit) -> dict[str, Any]:
    wish = from_tree(FillTexts, asked.values, "request")
    served, most = asked.service.models.able("fill", wish.model), asked.service.limits.items
    if not 1 <= wish.k <= most:
        raise Refusal(400, f"k is {wish.k}; ask for 1 to {most} words")
    items = items_of(asked, wish.q, served)
    joint = asked.service.limits.holes
    if wish.jointly and (holes := max(served.model.holes(text) for text in items)) > joint:
        raise Refusal(400, f"a text has {holes} holes, and at most {joint} are filled jointly; leave jointly out")
    answers = asked.model(served).ask(served.model.fill, items, k=wish.k, jointly=wish.jointly)
    return {"model": served.name, "answers": answers}


def embed(asked: Visit) -> dict[str, Any]:
    wish = from_tree(EmbedTexts, asked.values, "request")
    served = asked.service.models.able("embed", wish.model)
    vectors, _ = embedded(asked, served, items_of(asked, wish.q, served))
    return {"model": served.name, "vectors": [vector.tolist() for vector in vectors]}


def embedded(asked: Visit, served: Served, texts: list[str]) -> tuple[list[Any], int]:
    """A vector for each text, and how many tokens were read; a text of which some would be cut is refused."""
    embedder, tokens = served.does("embed"), 0
    most, frame = embedder.bounds["max_length"], embedder.frame
    for i, ids in enumerate(embedder.tokenizer.encode_batch(texts), start=1):
        framed, is_cut = frame.join(embedder.tokenizer, [ids], most)
        if is_cut:
            what = f"text {i} has {len(ids)} tokens, but {served.name} reads {most} at once"
            raise Refusal(400, f"{what}; send it in parts")
        tokens += len(framed)
    return asked.model(served).ask(embedder.embed, texts), tokens


def summarise(asked: Visit) -> dict[str, Any]:
    wish, limits = from_tree(SummariseTexts, asked.values, "request"), asked.service.limits
    served = asked.service.models.able("summarise", wish.model)
    items = items_of(asked, wish.q, served)
    for i, text in enumerate(items, start=1):  # by its number among all, before any waits
        if not text.strip():
            raise Refusal(400, f"text {i} has no word to summarise; send texts with at least a word in each")
    if max(wish.min_tokens, wish.max_tokens) > limits.tokens:
        raise Refusal(400, f"a summary has at most {limits.tokens} tokens on this server; ask for fewer")
    search = {"beam": wish.beam, "alpha": wish.alpha, "no_repeat": wish.no_repeat}
    check_search(limits, search)
    how = search | {"min_tokens": wish.min_tokens, "max_tokens": wish.max_tokens}
    found = asked.model(served).ask(served.model.summarise, items, **how)
    return {"model": served.name, "summaries": [asdict(one) | {"remarks": one.remarks()} for one in found]}


ROUTES = [
    Endpoint("POST", "/api/predict", predict, "A model's answer to each text: a label, tags, a span.", PredictTexts),
    Endpoint("POST", "/api/fill", fill, "The likeliest words for each <mask>.", FillTexts),
    Endpoint("POST", "/api/summarise", summarise, "A summary of each document.", SummariseTexts),
    Endpoint("POST", "/api/embed", embed, "A vector for each text.", EmbedTexts),
]
