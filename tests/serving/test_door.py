"""The door: the key guards every route, limits hold, no traceback leaves, and nothing personal is kept."""

import json
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.look.single import PAGE
from qkv.serving import ROUTES, Limits
from qkv.serving.limits import ENVELOPE, Refusal
from qkv.serving.reading import read
from qkv.serving.server import summary
from qkv.serving.service import COOKIE

PAIR = {"source": "en", "target": "de"}
PAGE_FILES = {"", *(path.name for path in PAGE.iterdir())}  # which hold nothing of anybody's
SECRET = "haeschen;in=der,grube"


def test_a_key_guards_every_route_that_there_is(serve: Any) -> None:
    """By the application's own table of routes: whatever is added to it is tested."""
    client = serve(key=SECRET)
    routes = [route for route in client.app.routes if isinstance(route, Route)]
    assert len(routes) == len(client.app.routes) == len(ROUTES) > 20
    for route in routes:
        path = re.sub(r"\{\w+\}", "en-de", route.path)
        for method in route.methods or ():
            is_openai = path.startswith("/v1/")
            missing = 401 if path.startswith("/api/") or is_openai else 400
            is_open = path == "/health" or path.removeprefix("/") in PAGE_FILES
            assert client.request(method, path).status_code == (200 if is_open else missing), path
            for wrong in ("x", SECRET[:-1], SECRET + "x"):
                answer = client.request(method, path, params={"api_key": wrong})
                assert answer.status_code == (401 if is_openai else 403), path
                error = answer.json()["error"] if method != "HEAD" else "Invalid API key"
                assert (error["message"] if is_openai and method != "HEAD" else error) == "Invalid API key"
            right = client.request(method, path, params={"api_key": SECRET})
            assert right.status_code != 401, path
            assert "Invalid API key" not in right.text, path
            client.cookies.clear()


def test_an_old_cookie_closes_nothing_that_is_open(serve: Any) -> None:
    client = serve(key="new")
    old = {"Cookie": f"{COOKIE}=old"}
    assert [client.get(path, headers=old).status_code for path in ("/", "/health", "/languages")] == [200, 200, 403]


def test_the_figures_have_a_token_of_their_own(serve: Any) -> None:
    """With it and without a key as well; the key is none for them, and the token none for the rest."""
    for key in ("", "secret"):
        client = serve(key=key, metrics_token="token")
        answers = {given: client.get("/metrics", headers={"Authorization": f"Bearer {given}"} if given else {})
                   for given in ("", "secret", "token")}  # fmt: skip
        assert [answer.status_code for answer in answers.values()] == [401, 401, 200]
        assert answers[""].json() == {
            "error": "the figures have a token of their own; send it as Authorization: Bearer TOKEN"
        }
        assert "qkv_requests_total" in answers["token"].text
        assert client.get("/metrics", params={"api_key": key}).status_code == 401
    assert client.get("/languages", headers={"Authorization": "Bearer token"}).status_code == 403


@pytest.mark.parametrize("kind", ["none", "text", "json"])
def test_a_line_for_each_request(kind: str, serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What was asked, how it ended and how long it took; nothing of who asked and of what was said."""
    client = serve(log=kind, key="secret")
    client.post(
        "/translate", json={"q": "The boat.", **PAIR, "api_key": "secret"}, headers={"X-Forwarded-For": "203.0.113.9"}
    )
    client.get("/languages")
    client.get("/boat?q=boat")
    client.get("/api/models/en-de/curves", params={"api_key": "secret"})
    err = capsys.readouterr().err
    for private in ("boat", "Boot", "secret", "203.0.113.9", "testclient", "en-de"):
        assert private not in err
    seen = (
        [json.loads(line) for line in err.splitlines()]
        if kind == "json"
        else [line.split() for line in err.splitlines()]
    )
    expected = [("POST", "/translate", 200), ("GET", "/languages", 400), ("GET", "-", 404),
                ("GET", "/api/models/{name}/curves", 200)]  # fmt: skip
    if kind == "json":
        assert [(one["method"], one["route"], one["status"]) for one in seen] == expected
        assert all(0 <= one["seconds"] < 600 and one["time"].startswith("20") for one in seen)
    else:
        lines = [(one[1], one[2], int(one[3])) for one in seen]
        assert lines == (expected if kind == "text" else [])


def test_a_log_that_is_none(serve: Any) -> None:
    with pytest.raises(InputError, match="there is no log 'xml'; give none, text, json"):
        serve(log="xml")


def test_a_key_may_come_in_any_of_five_ways(serve: Any) -> None:
    client = serve(key="secret")
    fields = {"q": "dog.", **PAIR}
    keyed = fields | {"api_key": "secret"}
    by_cookie = {"Cookie": f"{COOKIE}=secret"}
    answers = [
        client.post("/translate", json=keyed),
        client.post("/translate", data=keyed),
        client.post("/translate", params=keyed),
        client.post("/translate", json=fields, headers={"Authorization": "Bearer secret"}),
        client.post("/translate", json=fields, headers=by_cookie),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert client.post("/translate", json=fields | {"api_key": None}).status_code == 400


@pytest.mark.parametrize("key", ["zwei worte", "schlüssel", "line\nbreak"])
def test_a_key_that_no_header_holds(key: str, serve: Any) -> None:
    with pytest.raises(InputError, match="the API key has spaces or letters beyond ASCII"):
        serve(key=key)


def test_a_browser_keeps_the_key_for_the_page(serve: Any) -> None:
    client = serve(key="secret")
    opened = client.get("/?api_key=secret")
    assert opened.status_code == 200
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in opened.headers["set-cookie"].split(";")}
    assert client.get("/index.html").status_code == 200
    client.cookies.clear()
    refused = client.get("/?api_key=wrong")
    assert "set-cookie" not in refused.headers


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_before_it_is_read(serve: Any) -> None:
    client = serve(limits=Limits(characters=100, file_bytes=1000))
    largest = 12 * 100 + ENVELOPE

    def pieces() -> Iterator[bytes]:
        for _ in range(largest // 1000 + 1):
            yield b"x" * 1000

    headers = {"Content-Type": "application/json"}
    for body in (b"x" * (largest + 1), pieces()):
        answer = client.post("/translate", content=body, headers=headers)
        assert answer.status_code == 413
        assert answer.json() == {"error": f"the request has more than {largest} bytes; send less at once"}
    fits = '{"q": "' + "\\ud83d\\ude00" * 100 + '", "source": "en", "target": "de"}'
    assert client.post("/translate", content=fits, headers=headers).json() == {"translatedText": "😀" * 100}


def test_a_client_that_asks_too_often_is_slowed_down(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(limits=Limits(per_minute=3))
    now = time.monotonic() // 60 * 60 + 1
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert [client.get("/health").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/health")
    assert refused.json()["error"].startswith("Slowdown: more than 3 requests in a minute")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert client.get("/health").status_code == 200


def test_too_many_at_once_are_refused_and_the_others_answered(serve: Any, sentences: list[str]) -> None:
    client = serve(limits=Limits(requests=2))
    text = "\n".join(sentences)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.post("/translate", json={"q": text, **PAIR}), range(8)))
    statuses = {answer.status_code for answer in answers}
    assert {200, 503} <= statuses <= {200, 429, 503}, "429 while two arrive"
    assert len({answer.json()["translatedText"] for answer in answers if answer.status_code == 200}) == 1
    for answer in answers:
        if answer.status_code == 503:
            assert "try again" in answer.json()["error"]
            assert int(answer.headers["retry-after"]) > 0


def test_one_request_at_a_time_is_answered(serve: Any) -> None:
    client = serve(limits=Limits(requests=1))
    assert [client.get("/health").status_code for _ in range(2)] == [200, 200]


def test_nobody_fills_all_places_with_requests_that_never_end(serve: Any) -> None:
    service = serve(limits=Limits(requests=4)).app.state.service
    with service.arriving("a"), service.arriving("a"), service.arriving("b"):
        with pytest.raises(Refusal, match="2 of your requests are still arriving") as refused, service.arriving("a"):
            pass
        assert refused.value.status == 429
    with service.arriving("a"):
        assert service.reading == {"a": 1}


@pytest.mark.parametrize("path", ["/translate", "/translate_file"])
def test_who_is_slow_loses_the_place(path: str) -> None:
    """A file may take long to translate, not to arrive; and the refusal names the limit that was passed."""

    async def never() -> Any:
        raise TimeoutError

    head = [(b"content-type", b"multipart/form-data; boundary=x"), (b"host", b"x")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": head}
    asked, limits = Request(scope, never), Limits(seconds=2, file_seconds=100)
    told = pytest.raises(Refusal, match="longer than 2 seconds to arrive")
    with ThreadPoolExecutor(1) as thread, told as refused:  # tests of the page leave an event loop running in this one
        thread.submit(anyio.run, read, asked, limits).result()
    assert refused.value.status == 408


def test_only_where_files_are_sent_may_a_body_be_as_large_as_a_file(serve: Any) -> None:
    client = serve(limits=Limits(characters=100))
    sent = [client.post(path, files={"file": ("a.txt", b"x" * 100_000)}) for path in ("/translate", "/translate_file")]
    assert [one.status_code for one in sent] == [413, 400]


def test_a_wrong_key_in_the_header_is_refused_before_the_body_is_read(serve: Any) -> None:
    client = serve(key="secret", limits=Limits(characters=100))
    headers = {"Content-Type": "application/json", "Authorization": "Bearer wrong"}
    assert client.post("/translate", content=b"x" * 100_000, headers=headers).status_code == 403


def test_an_answer_that_takes_too_long_is_given_up(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(limits=Limits(seconds=1))
    own = Translator.translate

    def slow(self: Translator, *texts: Any, **how: Any) -> Any:
        time.sleep(1.3)
        return own(self, *texts, **how)

    monkeypatch.setattr(Translator, "translate", slow)
    answer = client.post("/translate", json={"q": "dog.", **PAIR})
    assert answer.status_code == 503
    assert "longer than the server allows" in answer.json()["error"]
    monkeypatch.undo()
    assert client.post("/translate", json={"q": "dog.", **PAIR}).json() == {"translatedText": "Hund."}


@pytest.mark.parametrize("name", ["characters", "queue", "seconds"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"the limit {name} is 0, which lets nothing through; give 1 or more"):
        Limits(**{name: 0})


# -- what leaves -----------------------------------------------------------------------------------------------------


def test_no_traceback_leaves_the_server(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the secret of /some/where")

    client = serve()
    monkeypatch.setattr(Translator, "translate", broken)
    with caplog.at_level(logging.ERROR):
        answer = client.post("/translate", json={"q": "dog.", **PAIR})
    assert answer.status_code == 500
    assert answer.json() == {"error": "something went wrong inside the server; its log says what"}
    assert "the secret of /some/where" in caplog.text
    monkeypatch.undo()
    assert client.post("/translate", json={"q": "dog.", **PAIR}).status_code == 200, "the queue goes on"


def test_figures_are_there_and_nothing_personal_is(serve: Any) -> None:
    client = serve(key=SECRET)
    body = {"q": ["the old boat.", "snow."], **PAIR}
    for path in ("/translate", "/nowhere/private", "/translate?api_key=stolen&q=confidential"):
        client.post(path, json=body, headers={"Authorization": f"Bearer {SECRET}", "X-Forwarded-For": "203.0.113.9"})
    client.post("/translate", json=body)
    text = client.get("/metrics", params={"api_key": SECRET}).text
    assert 'qkv_requests_total{route="/translate",status="200"} 2.0' in text
    assert 'qkv_requests_total{route="/translate",status="400"} 1.0' in text
    assert 'qkv_characters_total{model="en-de"} 36.0' in text
    assert "qkv_batch_sentences_sum 4.0" in text
    for private in (SECRET, "stolen", "testclient", "203.0.113.9", "boat", "Boot", "nowhere", "confidential"):
        assert private not in text, private
    assert re.match(r"stopped after \d+ requests, 4 sentences in [1-4] batches$", summary(client.app.state.service))


def test_the_page_comes_with_its_types_and_nothing_from_outside(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    kinds = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    paths = [entry.path for entry in ROUTES if entry.path.endswith(tuple(kinds))]
    assert paths
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kinds["." + path.rpartition(".")[2]]
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "//etc/passwd", "/page/../../app.py", "/%00", "/index.html/..",
     "/download_file/../index.html", "/download_file/..%2f..%2fapp.py"],
)  # fmt: skip
def test_no_address_leads_out_of_the_page(path: str, client: TestClient) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 405) or answer.headers["content-type"].startswith("text/html")
    assert "import" not in answer.text.split("<script")[0]
