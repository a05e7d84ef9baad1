"""`qkv serve`: every mistake ends in one sentence. tests/serving/test_process.py has the server that runs."""

import inspect
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--model", "nowhere"], "no model folder at nowhere; give the folder that `qkv train --out` wrote"),
        (["--port", "70000"], "there is no port 70000; give one from 1 to 65535, or 0 for a free one"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid port 5000: .*"),
        (["--glossary", "terms.csv"], "there is no file 'terms.csv'; check the path"),
        (["--suggestions", "no/such/place.jsonl"], "cannot write no/such/place.jsonl: No such file or directory; .*"),
        (["--queue", "0"], "the limit queue is 0, which lets nothing through; give 1 or more"),
        (["--tokens", "0"], "the limit tokens is 0, which lets nothing through; give 1 or more"),
        (["--keep", "soon"], "'soon' is no time; write a number and s, m, h or d, for example 10m"),
        (["--config", "nothing.toml"], "nothing.toml: No such file or directory; check the path, .*"),
        (["--api-key", "zwei worte"], "the API key has spaces or letters beyond ASCII, .*"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_in_one_sentence(flags: list[str], sentence: str, qkv: Run, model: Path) -> None:
    folder = [] if "--model" in flags else ["--model", model]
    result = qkv("serve", *folder, *flags)
    assert (result.code, result.out) == (1, "")
    assert re.fullmatch(f"qkv: {sentence}\n", result.err), result.err


def test_every_limit_is_a_flag() -> None:
    from qkv.cli.serve import serve
    from qkv.serving import Limits

    flags = {name: one.default for name, one in inspect.signature(serve).parameters.items()}
    assert vars(Limits()).items() <= flags.items()


def test_a_port_that_is_taken(qkv: Run, model: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = qkv("serve", "--model", model, "--port", port)
    assert result.code == 1
    assert re.fullmatch(
        rf"qkv: cannot listen on 127.0.0.1 port {port}: Address already in use; give another --host or --port\n",
        result.err,
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 8000", "serve.toml: unknown key 'prot'; did you mean 'port'\\?"),
        ("config = 'other.toml'", "serve.toml: unknown key 'config'; .*"),
        ("port = true", "serve.toml: port: a text, a number or a list of them was expected, not True"),
        ("model = [['a']]", r"serve.toml: model: a text, .* not \['a'\]"),
        ("port = 70000", "there is no port 70000; .*"),
        ("port =", "serve.toml is not valid TOML: .*"),
    ],
)
def test_mistakes_in_a_file_of_flags(text: str, sentence: str, qkv: Run, model: Path) -> None:
    Path("serve.toml").write_text(f"{text}\n")
    result = qkv("serve", "--model", model, "--config", "serve.toml")
    assert (result.code, result.out) == (1, "")
    assert re.fullmatch(f"qkv: {sentence}\n", result.err), result.err
