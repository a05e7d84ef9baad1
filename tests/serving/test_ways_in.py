"""Every way in parts a text into the same sentences, and loses none of them."""

import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from qkv import Translator, cli
from qkv.documents import translate_file, translate_text
from qkv.text.sentences import split_sentences

TEXT = "Old dog runs. The child sees the snow. And the boat! A red house and the water."


@pytest.fixture
def expected(translator: Translator) -> str:
    """Each sentence by itself."""
    sentences = split_sentences(TEXT)
    assert len(sentences) == 4
    return " ".join(translator.translate(sentence, split=False).text for sentence in sentences)


def test_the_library(translator: Translator, expected: str) -> None:
    found = translator.translate(TEXT)
    assert (found.text, found.sentences) == (expected, 4)


def test_the_command_line(
    model_folder: Path, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["qkv", "translate", TEXT, "--model", str(model_folder)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out == expected + "\n"


def test_the_servers_two_interfaces(client: TestClient, expected: str) -> None:
    libre = client.post("/translate", json={"q": TEXT, "source": "en", "target": "de"}).json()
    own = client.post("/api/translate", json={"q": TEXT, "source": "en", "target": "de"}).json()
    assert libre["translatedText"] == own["translations"][0]["translation"] == expected


def test_the_page(client: TestClient, expected: str) -> None:
    """It asks for a look inside, is told that a text of several sentences has none, and asks again without."""
    wish = {"q": TEXT, "source": "en", "target": "de", "beam": 5, "n_best": 5}
    refused = client.post("/api/translate", json={**wish, "tokens": True, "attention": True, "steps": True})
    assert refused.status_code == 400
    sentence = "the text has 4 sentences, each translated by itself; look at one of them at a time"
    assert refused.json() == {"error": sentence}
    assert client.post("/api/translate", json=wish).json()["translations"][0]["translation"] == expected


def test_documents(translator: Translator, expected: str, tmp_path: Path) -> None:
    assert translate_text(translator, [TEXT])[0].text == expected
    (tmp_path / "text.txt").write_text(TEXT + "\n")
    translate_file(translator, tmp_path / "text.txt", tmp_path / "text.de.txt")
    assert (tmp_path / "text.de.txt").read_text() == expected + "\n"
