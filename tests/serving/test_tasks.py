"""Models of any task behind one door: each does what the library does, and says what it can do instead."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import qkv
from kit import FACTS, save_untrained_task
from qkv.decoding.generator import Increment
from qkv.errors import InputError
from qkv.look import view
from qkv.serving import Limits, Models, read_glossaries
from qkv.text.tokenizer import Tokenizer

Serve = Callable[..., TestClient]
PROMPTS = ["the old king", "", "one star and a queen"]


@pytest.fixture(scope="module")
def writer(lm_folder: Path) -> Any:
    return qkv.load(lm_folder)


def events(answer: Any) -> list[Any]:
    """The data of a stream of events."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line[6:]) for line in lines]


def test_each_model_is_told_by_its_task(mixed: TestClient) -> None:
    models = mixed.get("/api/models").json()["models"]
    assert {one["name"]: (one["task"], one["verbs"]) for one in models} == {
        "en-de": ("translate", ["translate"]),
        "lm": ("language_model", ["generate", "embed"]),
        "critic": ("classify", ["predict"]),
        "bert": ("fill", ["fill", "embed"]),
    }
    assert [one["architecture"] for one in models] == ["transformer", "gpt2", "hierarchical", "bert"]
    for name in ("lm", "critic"):
        assert mixed.get(f"/api/models/{name}/curves").json()["curves"]["train"]
        assert mixed.get(f"/api/models/{name}/architecture").status_code == 200


# -- look --------------------------------------------------------------------------------------------------------------


def test_what_a_model_looks_at_is_the_librarys(
    mixed: TestClient, bert_folder: Path, lm_folder: Path, model_folder: Path
) -> None:
    asked = {"q": "the old <mask>", "second": "two stars"}
    for name, folder in (("bert", bert_folder), ("lm", lm_folder)):
        found = mixed.post("/api/look", json={**asked, "model": name}).json()
        own = view.view(qkv.load(folder), asked["q"], second=asked["second"])
        assert (found["tokens"], found["model"]["name"]) == (own["tokens"], name)
        assert found["attention"] == own["attention"]
        assert mixed.get(f"/api/models/{name}/positions").json() == view.positions_view(qkv.load(folder))
    (one,) = mixed.post("/api/look", json={**asked, "model": "bert", "attention": {"head": 1}}).json()["attention"]
    assert (one["heads"], one["all_heads"]) == (1, 2)
    translated = mixed.post("/api/look", json={"q": "dog sees cat."}).json()
    assert translated["attention"] == view.view(qkv.load(model_folder), "dog sees cat.")["attention"]


def test_a_model_with_nothing_to_look_at_says_so(mixed: TestClient) -> None:
    looks = {one["name"]: one["looks"] for one in mixed.get("/api/models").json()["models"]}
    assert looks == {"en-de": False, "lm": True, "critic": False, "bert": True}
    for wish, sentence in (
        ({"q": "film", "model": "critic"}, "hierarchical models neither translate nor read"),
        ({"q": "king " * 40, "model": "bert"}, "the text has 40 tokens, but the model reads 32 at once"),
        ({"q": " ", "model": "bert"}, "there is no text to look at; give a sentence"),
    ):
        answer = mixed.post("/api/look", json=wish)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(sentence)


# -- summarise --------------------------------------------------------------------------------------------------------


def test_summaries_are_the_librarys(serve: Serve, tldr_folder: Path) -> None:
    """Each alone and both at once; what is too long is said, and what is too much is refused."""
    client, own = serve(tldr_folder, alone=True), qkv.load(tldr_folder)
    (about,) = client.get("/api/models").json()["models"]
    assert about["verbs"] == ["summarise", "embed"]
    documents, how = [KING, "The king. A queen. " * 9], {"beam": 2, "min_tokens": 3, "max_tokens": 6}
    found = client.post("/api/summarise", json={"q": documents, **how}).json()
    assert found["model"] == "tldr"
    for one, wanted, text in zip(found["summaries"], own.summarise(documents, **how), documents, strict=True):
        assert (one["text"], one["read"], one["remarks"]) == (wanted.text, wanted.read, wanted.remarks())
        assert one["score"] == pytest.approx(wanted.score, abs=1e-5)
        assert client.post("/api/summarise", json={"q": text, **how}).json()["summaries"][0]["text"] == one["text"]
    assert found["summaries"][1]["read"] < 18 == found["summaries"][1]["sentences"]
    for wish, sentence in (
        ({"q": [KING, " "]}, "text 2 has no word to summarise; send texts with at least a word in each"),
        ({"q": KING, "max_tokens": 2000}, "a summary has at most 1024 tokens on this server; ask for fewer"),
        ({"q": KING, "beam": 99}, "beam=99 and n_best=1 are more than this server's 20 and 10; ask for less"),
        ({"q": KING, "min_tokens": 9, "max_tokens": 3}, "min_tokens=9 must be at least 0, and at most max_tokens, 3"),
    ):
        answer = client.post("/api/summarise", json=wish)
        assert (answer.status_code, answer.json()["error"]) == (400, sentence)


# -- predict -----------------------------------------------------------------------------------------------------------


def test_answers_are_the_librarys(mixed: TestClient, critic_folder: Path) -> None:
    texts = ["film 3 is fine .", "film 4 is dull .", "dull"]
    found = mixed.post("/api/predict", json={"q": texts}).json()
    assert found["model"] == "critic"
    for one, own in zip(found["answers"], qkv.load(critic_folder).predict(texts), strict=True):
        assert one["label"] == own["label"]
        assert one["probabilities"] == pytest.approx(own["probabilities"], abs=1e-5)
    assert mixed.post("/api/predict", json={"q": texts[0], "model": "critic"}).json()["answers"] == found["answers"][:1]


KING = "the old king saw two stars and a queen"
QUESTIONS = {
    "tag": [KING, {"words": ["the", "king"]}],
    "answer": [{"question": "who saw stars ?", "context": KING}, {"question": "what ?", "context": "a queen"}],
    "pair": [{"first": "the king", "second": "a queen"}, {"first": KING, "second": KING}],
    "similarity": [{"first": "the king", "second": "a queen"}, {"first": KING, "second": KING}],
    "choose": [{"context": "the king saw", "choices": ["a queen", "two stars", KING]}] * 2,
}


@pytest.mark.parametrize("task", QUESTIONS)
def test_questions_of_each_task_are_answered_as_the_library_does(task: str, serve: Serve, tmp_path: Path) -> None:
    """Each alone and both at once; what is asked is a table, where the task asks for one."""
    words = Tokenizer.train([KING] * 3, kind="wordpiece", vocab_size=300)
    place = save_untrained_task(tmp_path / task, task, words, FACTS[task])
    client, asked = serve(place, alone=True), QUESTIONS[task]
    found = client.post("/api/predict", json={"q": asked}).json()["answers"]
    for one, own, question in zip(found, qkv.load(place).predict(asked), asked, strict=True):
        assert rounded(one) == rounded(own)
        assert rounded(client.post("/api/predict", json={"q": question}).json()["answers"]) == [rounded(own)]
    refused = client.post("/api/predict", json={"q": [asked[0], {"nonsense": 1}]})
    assert refused.status_code == 400
    assert "text 2" in refused.json()["error"]


def rounded(value: Any) -> Any:
    """Plain data with few digits of each number."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


# -- fill and embed ----------------------------------------------------------------------------------------------------


def test_words_for_each_hole_are_the_librarys(mixed: TestClient, bert_folder: Path) -> None:
    texts = ["the old <mask> saw two stars", "a <mask> and a <mask>"]
    found = mixed.post("/api/fill", json={"q": texts, "k": 3}).json()["answers"]
    expected = qkv.load(bert_folder).fill(texts, k=3)
    holes = [(found[0], expected[0]), *zip(found[1], expected[1], strict=True)]
    assert len(holes) == 3
    for words, own in holes:
        assert [word["text"] for word in words] == [word["text"] for word in own]
        assert [word["probability"] for word in words] == pytest.approx([word["probability"] for word in own])


def test_all_holes_of_a_text_are_filled_jointly(mixed: TestClient, bert_folder: Path) -> None:
    text = "a <mask> and a <mask>"
    (found,) = mixed.post("/api/fill", json={"q": text, "k": 2, "jointly": True}).json()["answers"]
    expected = qkv.load(bert_folder).fill(text, k=2, jointly=True)
    assert [way["tokens"] for way in found] == [way["tokens"] for way in expected]
    assert [way["probability"] for way in found] == pytest.approx([way["probability"] for way in expected])
    many = mixed.post("/api/fill", json={"q": "<mask> " * 17, "jointly": True})
    assert many.status_code == 400
    assert many.json()["error"] == "a text has 17 holes, and at most 16 are filled jointly; leave jointly out"


@pytest.mark.parametrize("name", ["bert", "lm"])
def test_vectors_are_the_librarys(name: str, mixed: TestClient, request: pytest.FixtureRequest) -> None:
    """Of any backbone, whatever its task: here of one that fills in and of one that writes."""
    texts = ["the old king", "a queen"]
    found = mixed.post("/api/embed", json={"q": texts, "model": name}).json()["vectors"]
    own = qkv.load(request.getfixturevalue(f"{name}_folder"), task="embed").embed(texts)
    np.testing.assert_allclose(found, own, atol=1e-5)


def test_a_model_is_in_memory_once_whatever_it_does(serve: Serve, bert_folder: Path) -> None:
    (served,) = serve(bert_folder, alone=True).app.state.service.models.served  # type: ignore[attr-defined]
    assert served.does("embed").model is served.does("fill").model


# -- generate ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"temperature": 1.2, "top_k": 20, "seed": 3},
        {"temperature": 0.9, "top_p": 0.9, "n_best": 3},
        {"beam": 4, "n_best": 2},
        {"endless": True},
    ],
    ids=str,
)
def test_texts_are_the_librarys(how: dict[str, Any], mixed: TestClient, writer: Any) -> None:
    """More prompts than are written at a time, and draws that depend on the prompt's place among all."""
    prompts = PROMPTS * 2
    found = mixed.post("/api/generate", json={"q": prompts, "tokens": 12, **how}).json()["texts"]
    own = {name: value for name, value in how.items() if name != "endless"}
    expected = writer.generate(prompts, tokens=12, stop="endless" not in how, **own)
    for one, other in zip(found, expected, strict=True):
        assert one["text"] == other.text == one["prompt"] + one["continuation"]
        assert [some["text"] for some in one["alternatives"]] == [some.text for some in other.alternatives]
        assert one["score"] == pytest.approx(other.score, abs=1e-3)
        assert (one["tokens"], one["ended"]) == (other.tokens, other.ended)


def test_a_stream_is_the_same_text_in_pieces(mixed: TestClient, writer: Any) -> None:
    wish = {"q": PROMPTS, "tokens": 12, "temperature": 0.8, "seed": 5, "stream": True}
    found = events(mixed.post("/api/generate", json=wish))
    for i, own in enumerate(writer.generate(PROMPTS, tokens=12, temperature=0.8, seed=5)):
        own_events = [one for one in found if one["row"] == i]
        assert len(own_events) > 3
        assert "".join(one["piece"] for one in own_events) == own.continuation
        assert own_events[-1]["generated"]["text"] == own.text
        assert not any("generated" in one for one in own_events[:-1])


def test_what_outgrows_the_context_is_remarked(mixed: TestClient) -> None:
    (found,) = mixed.post("/api/generate", json={"q": "the", "tokens": 90, "endless": True}).json()["texts"]
    assert found["tokens"] == 90
    assert found["remarks"] == ["is longer than the model's context: while it was written, its beginning was forgotten"]


def test_tokens_are_counted(serve: Serve, lm_folder: Path) -> None:
    client = serve(lm_folder)
    client.post("/api/generate", json={"q": PROMPTS, "tokens": 7, "endless": True})
    client.post("/api/generate", json={"q": "the", "tokens": 5, "beam": 2, "endless": True})
    assert 'qkv_tokens_total{model="lm"} 26.0' in client.get("/metrics").text


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "fields", "status", "sentence"),
    [
        ("predict", {"q": "x", "model": "lm"}, 400,
         "lm is a model of the task 'language_model' and cannot predict; use POST /api/generate or POST /api/embed"),
        ("generate", {"q": "x", "model": "en-de"}, 400,
         "en-de is a model of the task 'translate' and cannot generate; use POST /api/translate"),
        ("translate", {"q": "x", "model": "critic"}, 400, "and cannot translate; use POST /api/predict"),
        ("explain", {"q": "x", "model": "critic"}, 400, "and cannot translate; use POST /api/predict"),
        ("predict", {"q": "x", "model": "crtic"}, 404, "there is no model 'crtic' on this server; did you mean"),
        ("predict", {"q": ["x"] * 101}, 400, "request (101) exceeds batch limit (100)"),
        ("predict", {"q": "x" * 20_001}, 400, "exceeds text limit"),
        ("predict", {"q": {"a": ["x" * 20_001]}}, 400, "exceeds text limit"),
        ("predict", {"q": ["fine", {"question": "who?"}]}, 400, "text 2"),
        ("predict", {"q": ""}, 400, "a text without a word was given"),
        ("predict", {}, 400, "request: q: Field required"),
        ("fill", {"q": "the king"}, 400, "'the king' has no <mask>; write it where a word is to be filled in"),
        ("fill", {"q": "<mask>", "k": 0}, 400, "k is 0; ask for 1 to 100 words"),
        ("fill", {"q": "<mask>", "model": "lm"}, 400, "cannot fill; use POST /api/generate or POST /api/embed"),
        ("embed", {"q": ["a", "king " * 40], "model": "bert"}, 400,
         "text 2 has 40 tokens, but bert reads 32 at once; send it in parts"),
        ("embed", {"q": "x", "model": "en-de"}, 400, "cannot embed; use POST /api/translate"),
        ("predict", {"q": "x", "modle": "critic"}, 400, "unknown key 'modle'; did you mean 'model'?"),
        ("generate", {"q": "x", "tokens": 0}, 400, "tokens must be at least 1, not 0"),
        ("generate", {"q": "x", "tokens": 1025}, 400, "1025 tokens are more than this server's 1024; ask for less"),
        ("generate", {"q": "x", "temperature": 0.5, "beam": 2}, 400, "give one of them"),
        ("generate", {"q": "x", "temperature": 0.5, "n_best": 11}, 400, "n_best=11 are more than this server's"),
        ("generate", {"q": "x", "beam": 3, "stream": True}, 400, "leave out beam or stream"),
        ("generate", {"q": "x", "temperature": 0}, 400, "give a temperature above 0"),
        ("generate", {"q": ["x"] * 101}, 400, "request (101) exceeds batch limit (100)"),
    ],
)  # fmt: skip
def test_one_sentence_for_what_cannot_be(
    path: str, fields: dict[str, Any], status: int, sentence: str, mixed: TestClient
) -> None:
    answer = mixed.post(f"/api/{path}", json=fields)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_a_server_without_a_translator_says_so(serve: Serve, critic_folder: Path) -> None:
    client = serve(critic_folder, alone=True)
    missing = "no model of this server can translate; it has critic (predict)"
    wish = {"q": "dog.", "source": "en", "target": "de"}
    assert client.post("/translate", json=wish).json() == {"error": missing}
    assert client.post("/api/translate", json={"q": "dog."}).json() == {"error": missing}
    assert (
        client.post("/api/generate", json={"q": "dog."}).json()["error"].startswith("no model of this server can gen")
    )
    assert client.get("/languages").json() == []
    assert client.get("/frontend/settings").json()["filesTranslation"] is False
    assert client.get("/").status_code == 200


def test_a_glossary_is_for_translators(critic_folder: Path) -> None:
    with pytest.raises(InputError, match="is a glossary, which is for translations, but no model translates"):
        read_glossaries(Path("terms.csv"), Models.load([critic_folder]))


def test_a_stream_that_takes_too_long_ends_in_a_sentence(
    serve: Serve, lm_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(lm_folder, alone=True, limits=Limits(seconds=2))
    over = threading.Event()

    def pieces(*_: Any, **__: Any) -> Iterator[Increment]:
        yield Increment(0, "and", 1)
        over.wait(30)

    monkeypatch.setattr(client.app.state.service.models.served[0].model, "pieces", pieces)  # type: ignore[attr-defined]
    told = events(client.post("/api/generate", json={"q": "the", "stream": True}))
    over.set()
    late = "the answer took longer than the server allows; send less at once, or later"
    assert told == [{"row": 0, "piece": "and"}, {"error": late}]
