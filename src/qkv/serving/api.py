"""Our own API, under /api: translations with all that the model did, and the models themselves."""

import asyncio
from dataclasses import dataclass
from typing import Any

from qkv.config import from_tree
from qkv.documents import translate_text
from qkv.folder import splits
from qkv.look.facts import EVERY, Attention, View, Which
from qkv.serving.libre import AUTO, bounded, field, found_languages, model_for, texts_of
from qkv.serving.models import Served
from qkv.serving.queued import check_search
from qkv.serving.service import Endpoint, Visit
from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences

PARTS = {  # of a look inside, by the field that asks for each
    "tokens": ["source_tokens", "target_tokens", "token_scores"],
    "alignment": ["source_words", "target_words", "alignment"],
    "attention": ["attention"],
    "steps": ["steps"],
}


@dataclass(frozen=True, kw_only=True)
class TranslateAndLook:
    """What POST /api/translate reads. With tokens, alignment, attention or steps, each text is one sentence; with
    `sentence`, the one of its sentences, counted from 1, that is looked at, while all are translated."""

    q: str | list[str]
    source: str = AUTO
    target: str | None = None
    model: str | None = None
    beam: int = 5
    alpha: float = 1.0
    n_best: int = 1
    tokens: bool = False
    alignment: bool = False
    attention: bool | Attention = False
    steps: bool = False
    sentence: int | None = None
    api_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Explain:
    """What POST /api/explain reads: a sentence, and the head of the block to go through step by step."""

    q: str
    model: str | None = None
    stack: Which = "encoder"
    layer: int = 1  # layers and heads are counted from 1 here, as a person does
    head: int = 1
    api_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class LookInside:
    """What POST /api/look reads: a text, or two for a model that reads two, and which attention to give."""

    q: str
    second: str = ""
    model: str | None = None
    attention: Attention = EVERY
    api_key: str | None = None


def inside() -> Any:
    """What looks inside, by torch, which a server need not import before somebody asks for that."""
    from qkv.look import view

    return view


async def models(asked: Visit) -> View:
    return {"models": [served.view for served in asked.service.models.served]}


def chosen(asked: Visit, wish: TranslateAndLook, text: str) -> Served | None:
    """The model that was named; else the one for the pair, with the first model's target where none is given."""
    models = asked.service.models
    if wish.model is not None:
        return models.able("translate", wish.model)
    language = found_languages(asked, wish.source, [text])[0]
    return model_for(asked, language, wish.target or models.able("translate").target)


async def translate(asked: Visit) -> View:
    wish = from_tree(TranslateAndLook, asked.values, "request")
    texts, _ = texts_of(asked)
    how = {"beam": wish.beam, "alpha": wish.alpha, "n_best": wish.n_best}
    check_search(asked.service.limits, how)
    left_out = {key for part, keys in PARTS.items() if not getattr(wish, part) for key in keys}
    is_watched = any(getattr(wish, part) for part in PARTS)
    wanted = wish.attention if isinstance(wish.attention, Attention) else EVERY

    def one(text: str) -> View:
        served = chosen(asked, wish, text)
        if served is None:
            return plain(text, text)
        asked.service.metrics.characters.labels(served.name).inc(len(text))
        if not is_watched:
            return translated(asked, served, text, how)
        every = sentences_of(served, text) if wish.sentence is not None else [text]
        number = min(max(wish.sentence or 1, 1), len(every))
        looked = every[number - 1]
        found = asked.translator(served).alone(lambda: inside().view(served.translator, looked, wanted, **how))
        found["remarks"] += unglossed(asked, served, looked)
        found["model"] = served.view
        if len(every) > 1:
            whole = translated(asked, served, text, how)
            found |= {"sentences": every, "sentence": number, "whole": whole}
        return {key: value for key, value in found.items() if key not in left_out}

    return {"translations": await asyncio.gather(*(asked.thread(one, text) for text in texts))}


def sentences_of(served: Served, text: str) -> list[str]:
    """The sentences that a text is translated in; the text itself, if it has none."""
    lines = [line for line in text.split("\n") if line.strip()]
    every = [one for line in lines for one in (split_sentences(line) if splits(served.model.about) else [line])]
    return [one.strip() for one in every if one.strip()] or [text]


def translated(asked: Visit, served: Served, text: str, how: View) -> View:
    """The short form: no look inside, any number of lines, through the queue with everybody else's."""
    translator = asked.translator(served)
    found = translate_text(translator, [text], protect=asked.service.protect, **how)[0]
    terms = [{"source": term.source, "target": term.target, "used": used} for term, used in translator.asked]
    return plain(text, found.text) | {
        "model": served.view,
        "alternatives": [{"text": other} for other in found.alternatives],
        "remarks": found.remarks,
        "glossary": terms,
    }


def unglossed(asked: Visit, served: Served, text: str) -> list[str]:
    """What to say of a look inside: it shows what the model itself wrote, so no glossary has changed it."""
    glossary = asked.service.glossaries.get(served.name)
    terms = {f"{term.source}: {term.target}": None for term in glossary.find(normalise(text))} if glossary else {}
    return [f"is the model's own, without the server's glossary ({', '.join(terms)})"] if terms else []


def plain(text: str, translation: str) -> View:
    return {"model": None, "text": text, "translation": translation, "alternatives": [], "remarks": [], "glossary": []}


def served_at(asked: Visit) -> Served:
    return asked.service.models.named(asked.request.path_params["name"])


def positions(asked: Visit) -> View:
    served = served_at(asked)
    return asked.model(served).alone(lambda: inside().positions_view(served.model))


def architecture(asked: Visit) -> View:
    return inside().architecture_view(served_at(asked).model)


def curves(asked: Visit) -> View:
    return inside().curves_view(served_at(asked).folder)


def explain(asked: Visit) -> View:
    wish = from_tree(Explain, asked.values, "request")
    text, served = bounded(asked, field(asked, "q")), asked.service.models.able("translate", wish.model)
    which = wish.stack, wish.layer, wish.head
    return asked.translator(served).alone(lambda: inside().explain_view(served.translator, text, *which))


def look(asked: Visit) -> View:
    """What any model attends to while it reads, or while it translates."""
    wish, models = from_tree(LookInside, asked.values, "request"), asked.service.models
    bounded(asked, wish.q + wish.second)
    served = models.served[0] if wish.model is None else models.named(wish.model)
    how = {} if "translate" in served.verbs else {"second": wish.second}
    asked.service.metrics.characters.labels(served.name).inc(len(wish.q + wish.second))
    found = asked.model(served).alone(lambda: inside().view(served.model, wish.q, wish.attention, **how))
    return found | {"model": served.view}


ROUTES = [
    Endpoint("GET", "/api/models", models, "The models of this server."),
    Endpoint("GET", "/api/models/{name}/positions", positions, "The position encodings of a model."),
    Endpoint("GET", "/api/models/{name}/architecture", architecture, "The boxes that a model is made of."),
    Endpoint("GET", "/api/models/{name}/curves", curves, "How its training went."),
    Endpoint("POST", "/api/translate", translate, "Translate, and look inside.", TranslateAndLook),
    Endpoint("POST", "/api/look", look, "What a model attends to while it reads a text.", LookInside),
    Endpoint("POST", "/api/explain", explain, "One head of one block, computed step by step.", Explain),
]
