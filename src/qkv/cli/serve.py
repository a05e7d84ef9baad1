"""qkv serve: a server of models of any task, with a page, LibreTranslate's API, OpenAI's and our own."""

import os
from pathlib import Path
from typing import Literal

from qkv.cli.app import Device, Engine, Files, Several, prepare
from qkv.device import ENGINE
from qkv.errors import InputError


def serve(
    *, model: Files = None, host: str = "127.0.0.1", port: int = 5000, api_key: str | None = None,
    glossary: Path | None = None, suggestions: Path | None = None, protect: Several = None,
    characters: int = 20_000, items: int = 100, tokens: int = 1024, queue: int = 1024, requests: int = 128,
    per_minute: int = 0, seconds: int = 60, file_bytes: int = 2_097_152,
    metrics_token: str | None = None, log: Literal["none", "text", "json"] = "none",
    allow_origin: Several = None, trust_proxy: str = "",
    device: Device = "cpu", engine: Engine = ENGINE,
) -> None:  # fmt: skip
    """Serve models over HTTP: a page, LibreTranslate's API, OpenAI's under /v1, and our own under /api.

    For example:
      qkv serve --model model
      qkv serve --model en-de de-en --port 8000 --glossary terms.csv
      qkv serve --model critic --model lm
      qkv serve --model model --host 0.0.0.0 --api-key secret
      qkv serve --model model --log json --metrics-token other

    With a key, open the page as http://HOST:PORT/?api_key=KEY.

    Args:
      model: One or more model folders, of any task: each does what it was trained for.
      host: The address to listen on; 0.0.0.0 is for everybody who can reach this machine.
      port: The port; 0 takes a free one.
      api_key: Every request must carry this key, but for the page's own files and /health; the environment's
        QKV_API_KEY, unless given.
      metrics_token: /metrics asks for this token (Authorization: Bearer) instead of the key; the environment's
        QKV_METRICS_TOKEN, unless given.
      log: A line for each request on standard error, with no text and no address: none, text or json.
      allow_origin: A site whose pages in a browser may use this server though it has no key, such as
        https://example.org; "*" for any; may be given several times. Its own page always may.
      trust_proxy: The address of a proxy in front, whose X-Forwarded-For tells who asks.
      glossary: A file of pairs, source term and target term: translations use these terms, but for the page and other
        looks inside, which show what the model itself wrote.
      suggestions: Keep better translations that people send in this file (.jsonl), to train with.
      protect: A regular expression: what matches comes back byte for byte; may be given several times. One that takes
        very long for some texts makes the server take very long: prefer simple ones.
      characters: Most characters of one request.
      items: Most texts of one request.
      tokens: Most tokens that a language model writes after one text.
      queue: Most sentences that wait for one model.
      requests: Most requests that are answered at the same time.
      per_minute: Most requests of one client in a minute; 0 for any number.
      seconds: Longest time to an answer.
      file_bytes: Largest file to translate.
    """
    try:
        from qkv import serving
    except ImportError as error:
        raise InputError(f"qkv serve needs {error.name}; pip install 'qkv[serve,formats]'") from None
    from qkv.documents import compiled

    kept = compiled(protect or [])  # before models are loaded, which takes a while
    limits = serving.Limits(
        characters=characters, items=items, tokens=tokens, queue=queue, requests=requests, per_minute=per_minute,
        seconds=seconds, file_bytes=file_bytes,
    )  # fmt: skip
    prepare(model or [Path("model")], device, engine)
    models = serving.Models.load(model or [Path("model")], device, engine, own_process=True)
    service = serving.Service(
        models,
        limits=limits,
        key=os.environ.get("QKV_API_KEY", "") if api_key is None else api_key,
        glossaries=serving.read_glossaries(glossary, models) if glossary else {},
        suggestions=serving.Suggestions(suggestions) if suggestions else None,
        protect=kept,
        metrics_token=os.environ.get("QKV_METRICS_TOKEN", "") if metrics_token is None else metrics_token,
        log=log,
        origins=allow_origin or [],
    )
    serving.serve(service, host, port, trust_proxy)
