"""Models that come and go: released when nobody asks, opened anew when somebody does, replaced while they answer."""

import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from qkv.errors import InputError
from qkv.serving import Glossary, Models, Service, make_app, seconds_of
from qkv.serving.on_demand import OnDemand
from qkv.serving.server import reload

PAIR = {"source": "en", "target": "de"}
SOON = 60


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.mark.parametrize(("text", "seconds"), [("", 0), ("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_times_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["soon", "10 minutes", "-5m", "m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is no time; write a number and s, m, h or d, for example 10m"):
        seconds_of(text)


class Thing:
    """What can be known to be gone."""


def test_it_is_let_go_when_the_clock_says_so_and_not_before() -> None:
    now = [0.0]
    kept = OnDemand(Thing, 10, clock=lambda: now[0])
    first = kept.get()
    now[0] = 9.0
    assert not kept.release()
    assert kept.get() is first  # which counts as a question
    now[0] = 18.5
    assert not kept.release()
    now[0] = 19.0
    assert kept.release()
    assert not kept.release(), "there is nothing left to let go of"
    gone = weakref.ref(first)
    del first
    assert gone() is None
    assert isinstance(kept.get(), Thing)
    assert not OnDemand(Thing, 0, clock=lambda: 1e9).release()


def test_many_who_ask_at_once_wait_for_one_that_opens() -> None:
    opened: list[Thing] = []

    def opener() -> Thing:
        opened.append(Thing())
        return opened[-1]

    kept = OnDemand(opener)
    with ThreadPoolExecutor(8) as pool:
        found = [one.result() for one in [pool.submit(kept.get) for _ in range(32)]]
    assert (len(opened), set(found)) == (1, set(opened))


def test_a_released_model_comes_back_for_whoever_asks(model_folder: Path, critic_folder: Path) -> None:
    """Each of them says what it is while it is not in memory; a question loads the one that it is for."""
    models = Models.load([model_folder, critic_folder], keep=3600)
    service = Service(models)
    client = TestClient(make_app(service))
    loaded = lambda: [one.kept.is_open for one in models.served]  # noqa: E731
    assert loaded() == [False, False]
    told = client.get("/api/models").json()["models"]
    assert [(one["name"], one["verbs"]) for one in told] == [("en-de", ["translate"]), ("critic", ["predict"])]
    assert [one["code"] for one in client.get("/languages").json()] == ["en", "de"]
    assert loaded() == [False, False]
    asked = {"q": "dog and cat.", **PAIR}
    first = client.post("/translate", json=asked).json()
    assert (first["translatedText"], loaded()) == ("Hund und Katze.", [True, False])
    assert "qkv_loaded_models 1.0" in client.get("/metrics").text
    models.served[0].kept.seconds = 1e-9
    models.release()
    assert loaded() == [False, False]
    assert client.post("/translate", json=asked).json() == first
    service.close()


def test_the_server_itself_lets_go(model_folder: Path) -> None:
    service = Service(Models.load([model_folder], keep=0.05))
    client = TestClient(make_app(service))
    for _ in range(2):
        assert client.post("/translate", json={"q": "snow.", **PAIR}).json()["translatedText"] == "Schnee."
        until(lambda: not service.models.served[0].kept.is_open)
    service.close()


def test_a_reload_drops_no_request(model_folder: Path, lm_folder: Path) -> None:
    """One that is being answered ends with the model that it began with; the next has the new ones."""
    old = Models.load([model_folder])
    service = Service(old)
    app = make_app(service)
    translator, gate, has_begun = old.served[0].translator, threading.Event(), threading.Event()
    own = translator.translate

    def slowly(texts: list[str], **how: Any) -> Any:
        has_begun.set()
        assert gate.wait(SOON)
        return own(texts, **how)

    translator.translate = slowly  # type: ignore[assignment,method-assign]
    asked = {"q": "dog and cat.", **PAIR}
    terms = {"en-de": Glossary({"dog": "Vierbeiner"})}
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(TestClient(app).post, "/translate", json=asked)
        assert has_begun.wait(SOON)
        (before,) = service.queues.values()
        done = pool.submit(reload, service, lambda: (Models.load([model_folder, lm_folder]), terms))
        until(lambda: service.models is not old)
        client = TestClient(app)
        assert client.post("/translate", json=asked).json()["translatedText"] == "Vierbeiner und Katze."
        assert [one["name"] for one in client.get("/api/models").json()["models"]] == ["en-de", "lm"]
        names = client.get("/spec").json()["paths"]["/api/models/{name}/curves"]["get"]["parameters"][0]["schema"]
        assert names["enum"] == ["en-de", "lm"]
        assert not before.closed
        gate.set()
        assert waits.result(SOON).json() == {"translatedText": "Hund und Katze."}
        done.result(SOON)
    assert before.closed
    assert list(service.queues) == service.models.served
    service.close()


def test_what_cannot_be_opened_leaves_the_old_models(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(Models.load([model_folder]))
    reload(service, lambda: (Models.load([Path("nowhere")]), {}))
    assert capsys.readouterr().err.startswith("not reloaded, the old models go on: no model folder at nowhere; ")
    assert TestClient(make_app(service)).post("/translate", json={"q": "snow.", **PAIR}).status_code == 200
    service.close()
