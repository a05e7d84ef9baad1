"""OpenAI's API: completions, embeddings and models, with its fields, answers and errors: its clients work unchanged."""

import base64
from dataclasses import dataclass
from typing import Any, Literal

from qkv.config import from_tree
from qkv.errors import InputError
from qkv.serving.answers import embedded
from qkv.serving.completions import Completion, Texts, completions, given, text_of, used
from qkv.serving.events import GIVES
from qkv.serving.models import Served
from qkv.serving.service import Endpoint, Visit


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """What POST /v1/embeddings reads."""

    model: str
    input: Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None
    api_key: str | None = None


def embeddings(asked: Visit) -> dict[str, Any]:
    wish = from_tree(Embeddings, asked.values, "request")
    served = asked.service.models.able("embed", wish.model)
    texts = [text_of(one, served) for one in given(asked, wish.input, served)]
    vectors, tokens = embedded(asked, served, texts)
    if wish.dimensions not in (None, len(vectors[0])):
        raise InputError(f"{served.name} has vectors of {len(vectors[0])} numbers, not {wish.dimensions}")
    coded = [vector.tolist() for vector in vectors]
    if wish.encoding_format == "base64":
        coded = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
    data = [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(coded)]
    return {"object": "list", "data": data, "model": served.name, "usage": used(tokens)}


def about(served: Served) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": int(served.folder.stat().st_mtime), "owned_by": "qkv"}


def models(asked: Visit) -> dict[str, Any]:
    return {"object": "list", "data": [about(served) for served in asked.service.models.served]}


def model(asked: Visit) -> dict[str, Any]:
    return about(asked.service.models.named(asked.request.path_params["name"]))


ROUTES = [
    Endpoint("POST", "/v1/completions", completions, "OpenAI's: what follows a prompt.", Completion, GIVES),
    Endpoint("POST", "/v1/embeddings", embeddings, "OpenAI's: a vector for each text.", Embeddings),
    Endpoint("GET", "/v1/models", models, "OpenAI's: the models of this server."),
    Endpoint("GET", "/v1/models/{name}", model, "OpenAI's: one model."),
]
