"""LibreTranslate's API: fields, answers, errors and codes as its source has them (version 1.9.6)."""

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import docx
import pytest
from starlette.testclient import TestClient

from qkv import Translator, manifest
from qkv.documents import compiled
from qkv.serving import Limits
from qkv.serving.suggestions import Suggestions
from qkv.text import read_pairs
from qkv.text.detection import find, name_of
from qkv.text.language import pick

PAIR = {"source": "en", "target": "de"}


def relabelled(model_folder: Path, place: Path, **languages: str) -> Path:
    """The same model under other languages."""
    shutil.copytree(model_folder, place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | languages))
    manifest.seal(place, ["config.json"])
    return place


# -- /translate ------------------------------------------------------------------------------------------------------


def test_json_a_form_the_query_and_multipart_are_the_same(client: TestClient) -> None:
    fields = {"q": "dog and cat.", **PAIR}
    multipart = {name: (None, value) for name, value in fields.items()}
    answers = [
        client.post("/translate", json=fields),
        client.post("/translate", data=fields),
        client.post("/translate", params=fields),
        client.post("/translate", files=multipart),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json() for answer in answers] == [{"translatedText": "Hund und Katze."}] * 4


def test_a_list_is_answered_by_a_list(client: TestClient, translator: Translator, sentences: list[str]) -> None:
    answer = client.post("/translate", json={"q": sentences[:20], **PAIR}).json()
    assert answer == {"translatedText": [line.text for line in translator.translate(sentences[:20])]}


def test_alternatives_and_detection_come_only_when_asked_for(client: TestClient) -> None:
    plain = client.post("/translate", json={"q": "dog.", **PAIR}).json()
    assert set(plain) == {"translatedText"}
    three = client.post("/translate", json={"q": "dog.", **PAIR, "alternatives": 3}).json()
    assert three["translatedText"] == plain["translatedText"]
    assert 1 <= len(three["alternatives"]) <= 3
    assert plain["translatedText"] not in three["alternatives"]
    many = client.post("/translate", json={"q": ["dog.", "cat."], **PAIR, "alternatives": "2"}).json()
    assert [len(some) <= 2 for some in many["alternatives"]] == [True, True]
    assert (
        client.post("/translate", json={"q": "dog.", **PAIR, "alternatives": 3, "format": "html"}).json()[
            "alternatives"
        ]
        == []
    )


def test_auto_detects_each_text_of_a_list(client: TestClient) -> None:
    """LibreTranslate takes one language for all; here each has its own, and German stays as it is."""
    q = ["the old dog and the child see the house in the snow", "der alte Hund und das Kind sehen den Schnee"]
    answer = client.post("/translate", json={"q": q, "source": "auto", "target": "de"}).json()
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "de"]
    assert all(50 < one["confidence"] <= 100 for one in answer["detectedLanguage"])
    assert answer["translatedText"][1] == q[1]
    assert answer["translatedText"][0] != q[0]


def german_files() -> dict[str, bytes]:
    """Of which the first bytes are no German."""
    text = "Zwei Hunde spielen im Schnee, und das Kind sieht den alten Baum."
    packed = io.BytesIO()
    document = docx.Document()
    document.add_paragraph(text)
    document.save(packed)
    style = ".card { color: red; background-color: white; font-family: sans-serif }\n" * 40
    page = f"<html><head><style>{style}</style></head><body><p>{text}</p></body></html>"
    return {"a.docx": packed.getvalue(), "a.html": page.encode(), "a.txt": text.encode("utf-16")}


@pytest.mark.parametrize("name", ["a.docx", "a.html", "a.txt"])
def test_the_language_of_a_file_is_that_of_its_text(name: str, serve: Any, model_folder: Path, tmp_path: Path) -> None:
    client = serve(relabelled(model_folder, tmp_path / "de-en", source="de", target="en"))
    data = german_files()[name]
    fields = {"source": "auto", "target": "en"}
    url = client.post("/translate_file", data=fields, files={"file": (name, data)}).json()["translatedFileUrl"]
    assert client.get(url).content != data


def test_what_nobody_can_tell_is_translated(serve: Any, model_folder: Path, tmp_path: Path) -> None:
    client = serve(relabelled(model_folder, tmp_path / "de-en", source="de", target="en"))
    q = "两只狗在雪地里玩耍。"
    answer = client.post("/translate", json={"q": q, "source": "auto", "target": "en"}).json()
    assert answer["detectedLanguage"] == {"confidence": 0.0, "language": "en"}
    assert answer["translatedText"] != q


def test_emoji_come_back_and_nobody_knows_their_language(client: TestClient) -> None:
    for text in ("😀", "👩🏽‍🚀 ❤️"):
        answer = client.post("/translate", json={"q": text, "source": "auto", "target": "de"}).json()
        assert answer == {"translatedText": text, "detectedLanguage": {"confidence": 0.0, "language": "en"}}


def test_the_lines_of_a_form_end_in_line_feeds(client: TestClient) -> None:
    answer = client.post("/translate", data={"q": "dog.\r\n\r\ncat.", **PAIR}).json()
    assert answer["translatedText"] == "Hund.\n\nKatze."


def test_a_field_that_nobody_knows_and_an_empty_key_change_nothing(client: TestClient) -> None:
    for extra in ({"apiKey": ""}, {"api_key": None}, {"api_key": "any"}, {"secret": 1}):
        assert client.post("/translate", json={"q": "dog.", **PAIR, **extra}).json() == {"translatedText": "Hund."}


def test_html_keeps_its_tags(client: TestClient) -> None:
    """A list of it, as Mastodon sends it."""
    q = ["<p>dog and cat.</p>", "cat."]
    answer = client.post("/translate", json={"q": q, **PAIR, "format": "html"}).json()["translatedText"]
    assert answer == ["<p>Hund und Katze.</p>", "Katze."]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "Invalid request: missing q parameter"),
    ({"q": "", **PAIR}, "Invalid request: missing q parameter"),
    ({"q": [], **PAIR}, "Invalid request: missing q parameter"),
    ({"q": "dog", "target": "de"}, "Invalid request: missing source parameter"),
    ({"q": "dog", "source": "en"}, "Invalid request: missing target parameter"),
    ({"q": 7, **PAIR}, "Invalid request: q must be a text"),
    ({"q": ["dog", 7], **PAIR}, "Invalid request: q must be a text or a list of texts"),
    ({"q": "dog", "source": ["en"], "target": "de"}, "Invalid request: source must be a text"),
    ({"q": "dog", "source": "xx", "target": "de"}, "xx is not supported"),
    ({"q": "dog", "source": "en", "target": "fr"}, "fr is not supported"),
    (
        {"q": "dog", "source": "de", "target": "en"},
        "English (en) is not available as a target language from German (de)",
    ),
    ({"q": "dog", **PAIR, "format": "pdf"}, "pdf format is not supported"),
    ({"q": "dog", **PAIR, "alternatives": -1}, "Invalid request: alternatives must be a whole number of 0 or more"),
    ({"q": "dog", **PAIR, "alternatives": "two"}, "Invalid request: alternatives must be a whole number of 0 or more"),
    ({"q": "dog", **PAIR, "alternatives": 10}, "Invalid request: alternatives (10) exceed the limit (9)"),
    ({"q": "x" * 20_001, **PAIR}, "Invalid request: request (20001) exceeds text limit (20000)"),
    ({"q": ["x" * 10_001] * 2, **PAIR}, "Invalid request: request (20002) exceeds text limit (20000)"),
    ({"q": ["x"] * 101, **PAIR}, "Invalid request: request (101) exceeds batch limit (100)"),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED, ids=[sentence[-30:] for _, sentence in REFUSED])
def test_what_is_wrong_is_said_in_one_sentence(fields: dict[str, Any], sentence: str, client: TestClient) -> None:
    answer = client.post("/translate", json=fields)
    assert (answer.status_code, answer.json()) == (400, {"error": sentence})


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"{", "application/json", "Invalid JSON format"),
        (b"[1]", "application/json", "Invalid JSON format"),
        (b"[" * 100_000, "application/json", "Invalid JSON format"),
        (b'{"q": ' + b"[" * 900 + b"]" * 900 + b"}", "application/json", "Invalid JSON format"),
        (b'{"q": ' + b"9" * 5000 + b"}", "application/json", "Invalid JSON format"),
        (b"\xff\xfe\xff", "application/json", "Invalid JSON format"),
        (b"&".join(b"a%d=1" % i for i in range(200)), "application/x-www-form-urlencoded", "the form cannot be read"),
        (b"\xff=\xff", "application/x-www-form-urlencoded", "the form cannot be read"),
        (b"nonsense", "multipart/form-data", "the multipart form cannot be read"),
        (b"nonsense", "multipart/form-data; boundary=x", "the multipart form cannot be read|missing q"),
    ],
)
def test_a_body_that_cannot_be_read(body: bytes, kind: str, sentence: str, client: TestClient) -> None:
    answer = client.post("/translate", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert re.search(sentence, answer.json()["error"])


# -- languages -------------------------------------------------------------------------------------------------------


def test_languages_name_their_targets(serve: Any, model_folder: Path, tmp_path: Path) -> None:
    other = relabelled(model_folder, tmp_path / "other", source="de", target="pt-BR")
    assert serve(other).get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de", "pt-BR"]},
        {"code": "pt-BR", "name": "Portuguese (BR)", "targets": ["pt-BR"]},
    ]


def test_each_pair_has_its_model(serve: Any, model_folder: Path, tmp_path: Path) -> None:
    """Two folders of one name, two pairs; LibreTranslate's alias, any case; no way from the one to the other."""
    other = relabelled(model_folder, tmp_path / "en-de", source="de", target="zh-Hans")
    client = serve(other)
    assert [model["name"] for model in client.get("/api/models").json()["models"]] == ["en-de", "en-de-2"]
    for source, target in [("EN", "De"), ("de", "zh"), ("de", "ZH-hans")]:
        answer = client.post("/translate", json={"q": "dog.", "source": source, "target": target})
        assert answer.json() == {"translatedText": "Hund."}, (source, target)
    answer = client.post("/translate", json={"q": "dog.", "source": "en", "target": "zh"})
    assert answer.json()["error"] == "Chinese (Hans) (zh-Hans) is not available as a target language from English (en)"


def test_no_two_models_have_one_name(serve: Any, model_folder: Path, tmp_path: Path) -> None:
    """One of which is a name that another would have got."""
    others = [relabelled(model_folder, tmp_path / name, source="de", target="en") for name in ("en-de", "x/en-de-2")]
    client = serve(*others)
    names = [model["name"] for model in client.get("/api/models").json()["models"]]
    assert names == ["en-de", "en-de-2", "en-de-2-2"]


def test_what_is_too_long_for_a_code_is_not_remembered() -> None:
    before = pick.cache_info().misses
    assert find("z" * 41, ["en"]) is None
    assert pick.cache_info().misses == before


@pytest.mark.parametrize(
    ("asked", "code"),
    [("EN", "en"), ("zh", "zh-Hans"), ("ZH-HANS", "zh-Hans"), ("zt", "zh-Hant"), ("pb", "pt-BR"), ("pt_br", "pt-BR"),
     ("e", None), ("", None), ("english", None), ("pt", "pt-BR")],
)  # fmt: skip
def test_codes_of_any_spelling(asked: str, code: str | None) -> None:
    assert find(asked, ["en", "zh-Hans", "zh-Hant", "pt-BR"]) == code


def test_the_other_way_round() -> None:
    assert find("zh-Hans", ["en", "zh"]) == "zh"
    assert name_of("tlh") == "tlh"


def test_detect(client: TestClient) -> None:
    english, german, french, nothing = (
        client.post("/detect", data={"q": q}).json()
        for q in (
            "Two dogs are playing in the snow.",
            "Zwei Hunde spielen im Schnee.",
            "Les chiens jouent ici.",
            "123 !",
        )
    )
    assert english[0]["language"] == "en"
    assert german[0]["language"] == "de"
    assert french[0]["confidence"] < 5, "no language of this server"
    assert nothing == [{"confidence": 0.0, "language": "en"}]
    for found in (english, german):
        assert found == sorted(found, key=lambda one: -one["confidence"])
        assert {one["language"] for one in found} <= {"en", "de"}
    assert client.post("/detect", json={}).json() == {"error": "Invalid request: missing q parameter"}


# -- the rest --------------------------------------------------------------------------------------------------------


def test_settings_have_the_fields_that_a_page_reads(serve: Any) -> None:
    settings = serve(key="secret", limits=Limits(characters=77)).get("/frontend/settings?api_key=secret").json()
    assert set(settings) == {
        "charLimit", "frontendTimeout", "apiKeys", "keyRequired", "suggestions", "filesTranslation",
        "supportedFilesFormat", "language",
    }  # fmt: skip
    assert (settings["charLimit"], settings["apiKeys"], settings["keyRequired"]) == (77, True, True)
    assert settings["language"] == {
        "source": {"code": "auto", "name": "Auto Detect"},
        "target": {"code": "de", "name": "German"},
    }
    assert ".txt" in settings["supportedFilesFormat"]


def test_suggestions_are_pairs_to_train_with(serve: Any, tmp_path: Path) -> None:
    path = tmp_path / "better.jsonl"
    path.write_text('{"en": "a line that a crash cut sh')
    client = serve(suggestions=Suggestions(path))
    fields = {"q": "old boat", "s": "alter\nKahn", **PAIR}
    assert client.post("/suggest", data=fields).json() == {"success": True}
    kept = path.read_text(encoding="utf-8").splitlines()[1:]
    path.write_text("\n".join(kept), encoding="utf-8")
    (pair,) = read_pairs([path], source="en", target="de")
    assert (pair.source, pair.target) == ("old boat", "alter\nKahn")
    assert client.post("/suggest", data={"q": "x", **PAIR}).json() == {"error": "Invalid request: missing s parameter"}
    same = client.post("/suggest", data={"q": "dog", "s": "Hund", "source": "DE", "target": "de"})
    assert (same.status_code, same.json()["error"][:48]) == (400, "Invalid request: source and target are both de; ")


def test_no_suggestions_unless_asked_for(client: TestClient) -> None:
    answer = client.post("/suggest", data={"q": "a", "s": "b", **PAIR})
    assert (answer.status_code, answer.json()) == (403, {"error": "Suggestions are disabled on this server."})


def test_health(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}


def test_a_get_may_have_a_body(client: TestClient) -> None:
    """libretranslatepy sends a form with GET /languages."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.request("GET", "/languages", content=b"api_key=x", headers=headers).status_code == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/translate", 405), ("GET", "/nothing", 404)])
def test_addresses_that_are_not_there(method: str, path: str, status: int, client: TestClient) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert "GET /spec" in answer.json()["error"]


SITE = "https://example.org"


@pytest.mark.parametrize("settings", [{"key": "secret"}, {"origins": [SITE]}, {"origins": ["*"]}])
def test_other_sites_may_ask_with_a_key_or_where_the_operator_allows_it(settings: dict[str, Any], serve: Any) -> None:
    """As a browser does it: a question before the request, and its own origin with each."""
    client, site, key = serve(**settings), {"Origin": SITE}, {"api_key": "secret"}
    expected = SITE if settings.get("origins") == [SITE] else "*"
    question = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    before = client.options("/translate", headers=site | question)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == expected
    assert "Content-Type" in before.headers["access-control-allow-headers"]
    after = client.post("/translate", json={"q": "dog.", **PAIR, **key}, headers=site)
    assert (after.status_code, after.headers["access-control-allow-origin"]) == (200, expected)
    for path in ("/", "/nothing", "/api/models"):
        answer = client.get(path, headers=site)
        assert answer.headers["access-control-allow-origin"] == expected
        assert answer.headers["x-content-type-options"] == "nosniff", path


def test_other_sites_may_not_ask_by_themselves(client: TestClient) -> None:
    """A page somewhere must not use the models of a server on the reader's own machine."""
    asked = {"q": "dog.", **PAIR}
    assert client.post("/translate", json=asked, headers={"Origin": "http://testserver"}).status_code == 200
    answer = client.post("/translate", json=asked, headers={"Origin": SITE})
    assert answer.status_code == 403
    assert "--allow-origin" in answer.json()["error"]
    assert "access-control-allow-origin" not in answer.headers
    assert (
        client.options("/translate", headers={"Origin": SITE, "Access-Control-Request-Method": "POST"}).status_code
        == 400
    )


@pytest.mark.parametrize(("host", "status"), [
    ("127.0.0.1:5000", 200), ("localhost:5000", 200), ("[::1]:5000", 200), ("evil.example:5000", 403)])  # fmt: skip
def test_a_name_that_leads_here_is_not_ours(host: str, status: int, serve: Any) -> None:
    """DNS rebinding: the page's own site, whose name says that it is this machine."""
    site = {"Host": host, "Origin": f"http://{host}"}
    assert serve(is_local=True).get("/languages", headers=site).status_code == status
    assert serve().get("/languages", headers=site).status_code == 200, "who listens to a network has many names"


def test_what_the_operator_protects_comes_back(serve: Any) -> None:
    """In text, in HTML, in files and through our own API; without the pattern each word is translated."""
    client = serve(protect=compiled(["dog", "c.t"]))
    for kind, q in (("text", "the dog and cat."), ("html", "<p>the dog and cat.</p>")):
        said = client.post("/translate", json={"q": q, "format": kind, **PAIR}).json()["translatedText"]
        assert ("dog" in said, "cat" in said, "und" in said, "Hund" in said) == (True, True, True, False), said
    sent = client.post("/translate_file", data=PAIR, files={"file": ("a.txt", b"the dog.")}).json()
    assert "dog" in client.get(sent["translatedFileUrl"]).text
    assert "dog" in client.post("/api/translate", json={"q": "the dog."}).json()["translations"][0]["translation"]
