"""qkv serve: a server of models of any task, with a page, LibreTranslate's API, OpenAI's and our own."""

import inspect
import os
from pathlib import Path
from typing import Any, Literal

from qkv.bundled import located, translators
from qkv.cli.app import Device, Engine, Files, Several, prepare
from qkv.config import read_toml
from qkv.device import ENGINE
from qkv.errors import InputError, nearest


def serve(
    *, model: Files = None, config: Path | None = None, host: str = "127.0.0.1", port: int = 5000,
    api_key: str | None = None, glossary: Path | None = None, suggestions: Path | None = None, protect: Several = None,
    characters: int = 20_000, items: int = 100, alternatives: int = 10, beam: int = 20, tokens: int = 1024,
    holes: int = 16, queue: int = 1024, requests: int = 128, per_minute: int = 0, seconds: int = 60,
    connections: int = 1024, header_seconds: int = 20, file_bytes: int = 2_097_152, file_seconds: int = 600,
    kept_files: int = 32, kept_seconds: int = 1800, suggestion_bytes: int = 67_108_864,
    metrics_token: str | None = None, log: Literal["none", "text", "json"] = "none",
    allow_origin: Several = None, trust_proxy: str = "",
    device: Device = "cpu", engine: Engine = ENGINE, keep: str = "",
) -> None:  # fmt: skip
    """Serve models over HTTP: a page, LibreTranslate's API, OpenAI's under /v1, and our own under /api.

    For example:
      qkv serve
      qkv serve --model model
      qkv serve --model en-de de-en --port 8000 --glossary terms.csv
      qkv serve --model critic --model lm
      qkv serve --model model --host 0.0.0.0 --api-key secret
      qkv serve --model model --log json --metrics-token other
      qkv serve --config serve.toml
      qkv serve --model en-de de-en fr-en --keep 10m

    SIGHUP opens the models and the glossary anew; requests that are being answered end with the old ones.

    With a key, open the page as http://HOST:PORT/?api_key=KEY.

    Args:
      model: One or more model folders, of any task: each does what it was trained for; or names of translators that
        come with qkv. Unless given, the folder `model`, and where there is none, all those translators.
      config: A TOML file with any of these flags, such as port = 8000 or model = ["en-de", "de-en"]; paths in it are
        as seen from where the server is started, and a flag that is given wins over the file.
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
      alternatives: Most answers to one text.
      beam: Widest beam that may be asked for.
      tokens: Most tokens that a language model writes after one text.
      holes: Most holes of a text that are filled jointly.
      queue: Most sentences that wait for one model.
      requests: Most requests that are answered at the same time.
      per_minute: Most requests of one client in a minute; 0 for any number.
      seconds: Longest time to an answer, and until a request has arrived and its answer has been read.
      connections: Most connections that are open at the same time.
      header_seconds: Longest time until the headers of a request have ended.
      file_bytes: Largest file to translate.
      file_seconds: Longest time to translate one.
      kept_files: Most translated files that wait to be fetched.
      kept_seconds: How long each of them waits.
      suggestion_bytes: Largest file of suggestions.
      keep: Release a model that nobody has asked for so long, and load it when somebody does: 90s, 10m, 2h. Unless
        given, all models stay in memory.
    """
    try:
        from qkv import serving
    except ImportError as error:
        raise InputError(f"qkv serve needs {error.name}; pip install 'qkv[serve,formats]'") from None
    from qkv.documents import compiled

    kept = compiled(protect or [])  # before models are loaded, which takes a while
    limits = serving.Limits(
        characters=characters, items=items, alternatives=alternatives, beam=beam, tokens=tokens, holes=holes,
        queue=queue, requests=requests, per_minute=per_minute, seconds=seconds, connections=connections,
        header_seconds=header_seconds, file_bytes=file_bytes, file_seconds=file_seconds, kept_files=kept_files,
        kept_seconds=kept_seconds, suggestion_bytes=suggestion_bytes,
    )  # fmt: skip
    idle, given = serving.seconds_of(keep), model

    def open_all() -> tuple[Any, Any]:
        folders = [located(one) for one in given or folders_in(config)] or default_folders()
        prepare(folders, device, engine)
        models = serving.Models.load(folders, device, engine, keep=idle)
        return models, serving.read_glossaries(glossary, models) if glossary else {}

    models, glossaries = open_all()
    service = serving.Service(
        models,
        limits=limits,
        key=os.environ.get("QKV_API_KEY", "") if api_key is None else api_key,
        glossaries=glossaries,
        suggestions=serving.Suggestions(suggestions, suggestion_bytes) if suggestions else None,
        protect=kept,
        metrics_token=os.environ.get("QKV_METRICS_TOKEN", "") if metrics_token is None else metrics_token,
        log=log,
        origins=allow_origin or [],
    )
    serving.serve(service, host, port, trust_proxy, open_all)


# -- a file of flags -------------------------------------------------------------------------------------------------


def with_file(arguments: list[str]) -> list[str]:
    """The arguments of qkv serve with those of its --config that they do not have; the models stay in the file, which
    is read again when the server is told to reload."""
    path = given_to(arguments, "--config")
    if path is None:
        return arguments
    for name, value in settings_in(Path(path)).items():
        flag = f"--{name.replace('_', '-')}"
        if name != "model" and given_to(arguments, flag) is None:
            arguments = [*arguments, *(f"{flag}={one}" for one in (value if isinstance(value, list) else [value]))]
    return arguments


def given_to(arguments: list[str], flag: str) -> str | None:
    """What stands behind a flag, if it is given."""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == flag:
            return value if equals else "".join(arguments[i + 1 : i + 2])
    return None


def settings_in(path: Path) -> dict[str, Any]:
    """The keys of a file, spelled as Python does: each is a flag, and has a text, a number or a list of them."""
    known = [name for name in inspect.signature(serve).parameters if name != "config"]
    found: dict[str, Any] = {}
    for key, value in read_toml(path).items():
        name = key.replace("-", "_")
        if name not in known:
            raise InputError(f"{path}: unknown key {key!r}; {nearest(name, known)}")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool) or not isinstance(one, str | int | float):
                raise InputError(f"{path}: {key}: a text, a number or a list of them was expected, not {one!r}")
        found[name] = value
    return found


def default_folders() -> list[Path]:
    """The folder that training writes; where there is none, the translators that come with qkv."""
    own = Path("model")
    return [own] if own.exists() else list(translators().values()) or [own]


def folders_in(path: Path | None) -> list[Path]:
    """The model folders that a file names."""
    named = settings_in(path).get("model", []) if path else []
    return [Path(str(one)) for one in (named if isinstance(named, list) else [named])]
