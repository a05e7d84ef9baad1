"""Our own API: what the page asks for, equal to what the library says, and described by OpenAPI."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from qkv import Translator
from qkv.look import look_at
from qkv.serving import ROUTES


def test_a_translation_in_short(client: TestClient, translator: Translator) -> None:
    answer = client.post("/api/translate", json={"q": ["dog and cat.", "snow."], "n_best": 3, "target": "de"}).json()
    first, second = answer["translations"]
    own = translator.translate("dog and cat.", n_best=3)
    assert first["translation"] == own.text == "Hund und Katze."
    assert [one["text"] for one in first["alternatives"]] == [one.text for one in own.alternatives]
    assert first["model"]["name"] == "en-de"
    assert (first["model"]["source_name"], first["model"]["target_name"]) == ("English", "German")
    assert second["text"] == "snow."
    assert "attention" not in first


def test_one_sentence_of_a_text_is_looked_at(client: TestClient, translator: Translator) -> None:
    """All of the text is translated; a number beyond the last sentence is the last, and 1 of one is the text itself."""
    wish = {"q": "Dog and cat. Old house.\n\nSnow.", "target": "de", "tokens": True}
    whole = client.post("/api/translate", json={"q": wish["q"], "target": "de"}).json()["translations"][0]
    for number, text in ((1, "Dog and cat."), (2, "Old house."), (9, "Snow.")):
        (found,) = client.post("/api/translate", json=wish | {"sentence": number}).json()["translations"]
        assert (found["text"], found["sentence"]) == (text, min(number, 3))
        assert found["translation"] == translator.translate(text).text
        assert found["sentences"] == ["Dog and cat.", "Old house.", "Snow."]
        assert found["whole"]["translation"] == whole["translation"]
    assert whole["translation"].count("\n") == 2
    (alone,) = client.post("/api/translate", json=wish | {"q": "Snow.", "sentence": 1}).json()["translations"]
    assert "whole" not in alone


def test_a_look_inside_has_the_models_own_weights(client: TestClient, translator: Translator) -> None:
    wish = {"q": "old dog runs.", "source": "en", "target": "de", "attention": True, "tokens": True, "alignment": True}
    (found,) = client.post("/api/translate", json=wish).json()["translations"]
    assert found["translation"] == translator.translate("old dog runs.").text
    look = look_at(translator, "old dog runs.")
    assert {one["name"] for one in found["attention"]} == set(look.maps)
    for one in found["attention"]:
        weights = look.maps[one["name"]]
        assert one["heads"] == len(weights) == 2
        got = [[[round(value, 3) for value in row] for row in head] for head in one["weights"]]
        for head, expected in zip(got, weights.tolist(), strict=True):
            for row, other in zip(head, expected, strict=True):
                assert row == pytest.approx(other, abs=2e-3)
    assert found["source_tokens"] == look.source
    assert "steps" not in found


@pytest.mark.parametrize(
    ("asked", "count", "heads"),
    [
        (True, 3, 2),
        ({"kind": "memory"}, 1, 2),
        ({"kind": "memory", "layer": 0}, 1, 2),
        ({"kind": "encoder", "layer": 0, "head": 1}, 1, 1),
        ({"layer": 9}, 0, 0),
    ],
)
def test_of_the_attention_what_was_asked_for(asked: Any, count: int, heads: int, client: TestClient) -> None:
    whole = client.post("/api/translate", json={"q": "dog.", "attention": True}).json()["translations"][0]["attention"]
    wish = {"q": "dog.", "target": "de", "attention": asked}
    some = client.post("/api/translate", json=wish).json()["translations"][0]["attention"]
    assert len(some) == count
    by_name = {one["name"]: one for one in whole}
    for one in some:
        assert one["heads"] == len(one["weights"]) == heads
        assert all(head in by_name[one["name"]]["weights"] for head in one["weights"])
        if asked is not True and "head" in asked:
            assert one["weights"][0] == by_name[one["name"]]["weights"][asked["head"]]


def test_the_search_step_by_step(client: TestClient) -> None:
    wish = {"q": "dog and cat.", "model": "en-de", "steps": True, "beam": 3}
    (found,) = client.post("/api/translate", json=wish).json()["translations"]
    assert len(found["steps"]) > 3
    assert "attention" not in found


def test_the_models_and_their_parts(client: TestClient, translator: Translator) -> None:
    (model,) = client.get("/api/models").json()["models"]
    assert model["parameters"] == sum(weight.numel() for weight in translator.model.parameters())
    assert model["config"]["d_model"] == 32
    table = client.get("/api/models/en-de/positions").json()["positions"]["table"]
    assert (len(table), len(table[0])) == (64, 32)
    assert client.get("/api/models/en-de/architecture").json()["architecture"]["boxes"]
    assert client.get("/api/models/en-de/curves").json() == {"curves": {"train": [], "valid": []}}
    steps = client.post("/api/explain", json={"q": "old dog.", "layer": 1, "head": 2}).json()["steps"]
    assert len(steps) > 3


@pytest.mark.parametrize(
    ("path", "fields", "status", "sentence"),
    [
        ("/api/translate", {}, 400, "request: q: Field required"),
        ("/api/translate", {"q": "x", "baem": 3}, 400, "request: unknown key 'baem'; did you mean 'beam'?"),
        ("/api/translate", {"q": "x", "beam": "wide"}, 400, "request: beam: Input should be a valid integer"),
        ("/api/translate", {"q": "x", "beam": 50}, 400, "are more than this server's 20"),
        ("/api/translate", {"q": "x", "beam": 50, "steps": True}, 400, "are more than this server's 20"),
        ("/api/translate", {"q": "x", "n_best": 6}, 400, "n_best=6 needs a beam of at least 6, not 5"),
        ("/api/translate", {"q": "x", "model": "en-ed"}, 404, "there is no model 'en-ed' on this server; did you mean"),
        ("/api/translate", {"q": "x", "target": "fr"}, 400, "fr is not supported"),
        ("/api/translate", {"q": "x", "attention": {"kind": "cross"}}, 400, "attention"),
        ("/api/translate", {"q": "x" * 20_001, "steps": True}, 400, "exceeds text limit"),
        ("/api/explain", {"q": "x", "layer": 9}, 400, "layer"),
        ("/api/explain", {"q": "x", "stack": "middle"}, 400, "stack"),
        ("/api/explain", {}, 400, "q"),
        ("/api/explain", {"q": "dog " * 30}, 400, "look at one sentence at a time"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    path: str, fields: dict[str, Any], status: int, sentence: str, client: TestClient
) -> None:
    answer = client.post(path, json=fields)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert sentence in answer.json()["error"]


def test_every_route_is_described(client: TestClient) -> None:
    description = client.get("/api/openapi.json").json()
    assert description == client.get("/spec").json()
    described = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    pages = {(entry.method, entry.path) for entry in ROUTES if entry.about == "A file of the page."}
    assert described | pages == {(entry.method, entry.path) for entry in ROUTES}
    (name,) = description["paths"]["/api/models/{name}/curves"]["get"]["parameters"]
    assert name["schema"]["enum"] == [one["name"] for one in client.get("/api/models").json()["models"]]
    fields = description["components"]["schemas"]["TranslateAndLook"]["properties"]
    assert {"q", "source", "target", "model", "beam", "alpha", "n_best", "tokens", "attention", "steps"} <= set(fields)


def test_the_description_is_a_page_of_its_own(client: TestClient) -> None:
    """Every route with its fields, and nothing that a browser would fetch from elsewhere; its commands are right."""
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    page = LexborHTMLParser(answer.text)
    described = {
        f"{method.upper()} {path}": said
        for path, methods in client.get("/spec").json()["paths"].items()
        for method, said in methods.items()
    }
    shown = {node.css_first("h3").text(): node for node in page.css("article")}
    assert set(shown) == set(described)
    fields = [row.css_first("td").text() for row in shown["POST /api/summarise"].css("tbody tr")]
    assert fields == ["q", "model", "min_tokens", "max_tokens", "beam", "alpha", "no_repeat"]
    cells = [[cell.text() for cell in row.css("td")] for row in shown["POST /translate"].css("tbody tr")]
    assert cells[0] == ["q", "text or list of text", "needed"]
    assert ["alternatives", "whole number", "0"] in cells
    fetched = [node.attributes.get("src") or node.attributes.get("href") for node in page.css("[src], [href]")]
    assert set(fetched) == {"icon.svg", "style.css", "spec"}
    assert all(client.get(f"/{one}").status_code == 200 for one in fetched)
    curl, url, _, _, _, body = shlex.split(shown["POST /translate"].css_first("pre").text())
    assert (curl, url) == ("curl", "http://testserver/translate")
    assert client.post(url, json=json.loads(body)).json()["translatedText"]


TEXT = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Mn", "Me", "Lo", "So", "Zs", "Zl"]), max_size=40),
    st.sampled_from(["\ud800", "a\ud83d", "\x00", "‮שלום עולם‬ dog", "é" * 50, "e" + "\u0301" * 300, "<p><b>dog</p></b",
                     "<" * 200, "&#x110000;", "{{x}} %1$s dog", "\u2028\u2029\x85", "dog\r\ncat\rsnow", "𝔡𝔬𝔤",
                     "ﷺ" * 30]),
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    q=st.one_of(TEXT, st.lists(TEXT, max_size=3)),
    kind=st.sampled_from(["text", "html"]),
    source=st.sampled_from(["en", "auto"]),
)
def test_no_text_upsets_the_server(q: Any, kind: str, source: str, client: TestClient) -> None:
    """Lone surrogates, nulls, right-to-left and combining marks, broken HTML: an answer of the right shape, always."""
    body = json.dumps({"q": q, "source": source, "target": "de", "format": kind})  # \ud800 stays an escape
    answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    if q in ("", []):
        assert answer.status_code == 400
    else:
        assert answer.status_code == 200, answer.text
        found = answer.json()["translatedText"]
        assert isinstance(found, list) == isinstance(q, list)
        assert not isinstance(q, list) or len(found) == len(q)
    assert client.post("/detect", content=body, headers={"Content-Type": "application/json"}).status_code in (200, 400)


def test_a_word_without_end(client: TestClient) -> None:
    """As long as a request may be, it is cut and translated; a megabyte is refused."""
    fields = {"source": "en", "target": "de"}
    answer = client.post("/translate", json={"q": "x" * 5000, **fields})
    assert answer.status_code == 200
    assert answer.json()["translatedText"]
    refused = client.post("/translate", json={"q": "x" * 2**20, **fields})
    assert (refused.status_code, set(refused.json())) == (413, {"error"})
