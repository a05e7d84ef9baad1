"""LibreTranslate's API: its fields, its answers and its errors, so that its clients work unchanged."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.responses import Response

from qkv.decoding import Search
from qkv.documents import FORMATS, translate_file, translate_html, translate_text
from qkv.documents.format import Languages
from qkv.serving.limits import Refusal
from qkv.serving.models import Served
from qkv.serving.service import Endpoint, Visit
from qkv.text.detection import UNKNOWN, detect, is_emoji, name_of

AUTO = "auto"


@dataclass(frozen=True)
class TranslateTexts:
    """What POST /translate reads, from JSON, a form or the query; other fields are passed over."""

    q: str | list[str]
    source: str
    target: str
    format: str = "text"
    alternatives: int = 0
    api_key: str | None = None


@dataclass(frozen=True)
class Detect:
    """What POST /detect reads."""

    q: str
    api_key: str | None = None


@dataclass(frozen=True)
class Suggest:
    """What POST /suggest reads: a text and a better translation of it."""

    q: str
    s: str
    source: str
    target: str
    api_key: str | None = None


def field(asked: Visit, name: str) -> str:
    """A field that must be there and be text."""
    value = asked.values.get(name)
    if value is None or value == "" or value == []:
        raise Refusal(400, f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Refusal(400, f"Invalid request: {name} must be a text")
    return value


def texts_of(asked: Visit) -> tuple[list[str], bool]:
    """The texts of q, and whether it was a list."""
    q = asked.values.get("q")
    if not isinstance(q, list) or not q:
        return [bounded(asked, field(asked, "q"))], False
    if not all(isinstance(text, str) for text in q):
        raise Refusal(400, "Invalid request: q must be a text or a list of texts")
    limits = asked.service.limits
    if len(q) > limits.items:
        raise Refusal(400, f"Invalid request: request ({len(q)}) exceeds batch limit ({limits.items})")
    bounded(asked, "".join(q))
    return q, True


def bounded(asked: Visit, text: str) -> str:
    check_size(asked, len(text))
    return text


def check_size(asked: Visit, size: int) -> None:
    limit = asked.service.limits.characters
    if size > limit:
        raise Refusal(400, f"Invalid request: request ({size}) exceeds text limit ({limit})")


def count_of_alternatives(asked: Visit) -> int:
    given = asked.values.get("alternatives") or 0
    most = asked.service.limits.alternatives - 1  # the translation itself is one
    if isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) < 10:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise Refusal(400, "Invalid request: alternatives must be a whole number of 0 or more")
    if given > most:
        raise Refusal(400, f"Invalid request: alternatives ({given}) exceed the limit ({most})")
    return given


def found_languages(asked: Visit, source: str, texts: list[str]) -> list[dict[str, Any]]:
    """For each text its language: the one that was said, or the one that is detected."""
    models = asked.service.models
    if source.strip().lower() != AUTO:
        return [{"language": models.code(source)}] * len(texts)
    return [detect(text, models.codes)[0] for text in texts]


def model_for(asked: Visit, language: dict[str, Any], target: str) -> Served | None:
    """None where the text is to come back as it is. What nobody can tell is for the first model of that target."""
    models, target = asked.service.models, asked.service.models.code(target)
    if language.get("confidence", 100):
        return models.pair(language["language"], target)
    first = next((one for one in models.translators if one.target == target), models.able("translate"))
    return models.pair(first.source, target)


def translate(asked: Visit) -> dict[str, Any]:
    texts, several = texts_of(asked)
    source, target, kind = field(asked, "source"), field(asked, "target"), asked.values.get("format") or "text"
    if kind not in ("text", "html"):
        raise Refusal(400, f"{str(kind)[:40]} format is not supported")
    alternatives = count_of_alternatives(asked)
    asked.service.models.code(target)
    languages = found_languages(asked, source, texts)
    done = [(text, list[str]()) for text in texts]
    groups: dict[Served, list[int]] = {}
    for i, (text, language) in enumerate(zip(texts, languages, strict=True)):
        if not is_emoji(text) and (served := model_for(asked, language, target)):
            groups.setdefault(served, []).append(i)
    for served, members in groups.items():
        found = translated(asked, served, [texts[i] for i in members], kind, alternatives)
        for i, one in zip(members, found, strict=True):
            done[i] = one
    answer: dict[str, Any] = {"translatedText": [text for text, _ in done]}
    if source.strip().lower() == AUTO:
        answer["detectedLanguage"] = languages
    if alternatives:
        answer["alternatives"] = [others for _, others in done]
    return answer if several else {name: value[0] for name, value in answer.items()}


def translated(
    asked: Visit, served: Served, texts: list[str], kind: str, alternatives: int
) -> list[tuple[str, list[str]]]:
    """Each text's translation, and others of it; of HTML there are none."""
    translator, protect = asked.translator(served), asked.service.protect
    asked.service.metrics.characters.labels(served.name).inc(sum(map(len, texts)))
    if kind == "html":
        whole = [text.replace("\0", "\ufffd") for text in texts]  # as HTML itself reads a NUL
        return [(text, []) for text in translate_html(translator, whole, protect=protect)]
    how = {"beam": max(Search.beam, alternatives + 1), "n_best": alternatives + 1}
    results = translate_text(translator, texts, protect=protect, **how)
    return [(one.text, [other for other in one.alternatives if other != one.text]) for one in results]


def detect_language(asked: Visit) -> list[dict[str, Any]]:
    return detect(bounded(asked, field(asked, "q")), asked.service.models.codes)


async def languages(asked: Visit) -> list[dict[str, Any]]:
    return asked.service.models.languages()


async def health(_: Visit) -> dict[str, Any]:
    return {"status": "ok"}


async def settings(asked: Visit) -> dict[str, Any]:
    """GET /frontend/settings, as a page of LibreTranslate's reads it."""
    service, models = asked.service, asked.service.models
    target = models.translators[0].target if models.translators else UNKNOWN
    return {
        "charLimit": service.limits.characters,
        "frontendTimeout": 500,  # milliseconds after the last key, as there
        "apiKeys": bool(service.key),
        "keyRequired": bool(service.key),
        "suggestions": service.suggestions is not None,
        "filesTranslation": bool(models.translators),
        "supportedFilesFormat": sorted(FORMATS),
        "language": {
            "source": {"code": AUTO, "name": "Auto Detect"},
            "target": {"code": target, "name": name_of(target)},
        },
    }


def suggest(asked: Visit) -> dict[str, Any]:
    if asked.service.suggestions is None:
        raise Refusal(403, "Suggestions are disabled on this server.")
    text, better = bounded(asked, field(asked, "q")), bounded(asked, field(asked, "s"))
    source, target = (asked.service.models.code(field(asked, name)) for name in ("source", "target"))
    if source == target:
        raise Refusal(400, f"Invalid request: source and target are both {source}; a suggestion is for two languages")
    asked.service.suggestions.add(source, target, text, better)
    return {"success": True}


def send_file(asked: Visit) -> dict[str, Any]:
    upload = asked.values.get("file")
    if not isinstance(upload, UploadFile):
        raise Refusal(400, "Invalid request: missing file parameter")
    name = PurePath((upload.filename or "").replace("\\", "/")).name
    source, target = field(asked, "source"), field(asked, "target")
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise Refusal(400, f"Invalid request: file format not supported; send one of {', '.join(sorted(FORMATS))}")
    data, limits, uploads = upload.file.read(), asked.service.limits, asked.service.uploads
    if len(data) > limits.file_bytes:
        raise Refusal(413, f"the file has more than {limits.file_bytes} bytes; send it in parts")
    code = asked.service.models.code(target)
    text = text_of(data, name, suffix, code) if source.strip().lower() == AUTO else ""
    served = model_for(asked, found_languages(asked, source, [text])[0], target)
    with uploads.new(data, suffix, asked.client) as (path, result):
        if served:
            translator = asked.translator(served, limits.file_seconds)
            translate_file(translator, path, result, name=name, protect=asked.service.protect)
        one = uploads.keep(result if served else path, name, asked.client)
    return {"translatedFileUrl": f"{asked.request.base_url}download_file/{one}.{quote(name, safe='')}"}


def text_of(data: bytes, name: str, suffix: str, target: str) -> str:
    """What is to be translated of a file, with nothing of its format."""
    document = FORMATS[suffix](data, name, Languages("", "" if target == UNKNOWN else target))
    return " ".join(part for segment in document.segments for part in segment if isinstance(part, str))


def fetch_file(asked: Visit) -> Response:
    one, is_last = asked.request.path_params["name"].partition(".")[0], asked.request.method == "GET"
    data, name = asked.service.uploads.fetch(one, is_last=is_last)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


ROUTES = [
    Endpoint("POST", "/translate", translate, "Translate a text or a list of texts.", TranslateTexts),
    Endpoint("POST", "/detect", detect_language, "The languages that a text may be in, likeliest first.", Detect),
    Endpoint("GET", "/languages", languages, "The languages, and what each can be translated to."),
    Endpoint("POST", "/translate_file", send_file, "Translate a file; the answer says where to fetch it, once."),
    Endpoint("GET", "/download_file/{name}", fetch_file, "A translated file.", gives="application/octet-stream"),
    Endpoint("POST", "/suggest", suggest, "Keep a better translation, to train with.", Suggest),
    Endpoint("GET", "/frontend/settings", settings, "What a page needs to know of the server."),
    Endpoint("GET", "/health", health, "Whether the server is up.", guard="none"),
]
