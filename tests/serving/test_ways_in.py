"""Every way in parts a text into the same sentences, loses none, and gives as many lines as it was given."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kit import Result
from qkv import Translator, manifest
from qkv.documents import translate_file, translate_html, translate_text
from qkv.opening import load_translator
from qkv.serving import Models, Service, make_app
from qkv.text.sentences import split_sentences

PARAGRAPH = "Two dogs play. A man sings. A woman sings. A boy runs on the beach."
KNOWN = "Old dog runs. The child sees the snow. And the boat! A red house and the water."
TEXT = f"{PARAGRAPH}\n\n{KNOWN}\nThe cat sees."
SHORT = "The dog. Cat!\nRed house."  # which fit into the model as they are
Run = Callable[..., Result]
Given = tuple[str, ...]


class Ways:
    """One method for each way in: a text, and whether its lines are to be parted into sentences -> its translation."""

    def __init__(self, translator: Translator, model: Path, run: Run, client: TestClient, place: Path) -> None:
        self.translator, self.model, self.run, self.client, self.place = translator, model, run, client, place
        self.pair = {side: translator.about[side] for side in ("source", "target")}

    def library(self, text: str, **how: bool) -> str:
        return self.translator.translate(text, **how).text

    def library_with_texts(self, text: str, **how: bool) -> str:
        return translate_text(self.translator, [text], **how)[0].text

    def library_with_a_file(self, text: str, **how: bool) -> str:
        translate_file(self.translator, self.file(text), self.place / "out.txt", **how)
        return (self.place / "out.txt").read_text(encoding="utf-8")

    def library_with_html(self, text: str, **how: bool) -> str:
        pages = ["".join(f"<p>{line}</p>" for line in text.split("\n"))]
        return translate_html(self.translator, pages, **how)[0][3:-4].replace("</p><p>", "\n")

    def command_with_text(self, text: str, **how: bool) -> str:
        return self.command((text,), **how)

    def command_with_a_file(self, text: str, **how: bool) -> str:
        return self.command((str(self.file(text)),), **how)

    def command_with_standard_input(self, text: str, **how: bool) -> str:
        return self.command((), text, **how)

    def command_with_a_format(self, text: str, **how: bool) -> str:
        return self.command((text, "--format", "text"), **how)

    def command_with_a_pattern(self, text: str, **how: bool) -> str:
        return self.command((text, "--protect", "XYZ"), **how)

    def command_with_an_output(self, text: str, **how: bool) -> str:
        self.command((str(self.file(text)), "-o", "out.txt"), **how)
        return (self.place / "out.txt").read_text(encoding="utf-8").removesuffix("\n")

    def libretranslates_interface(self, text: str) -> str:
        wish = {"q": text, **self.pair}
        return str(self.client.post("/translate", json=wish).json()["translatedText"])

    def own_interface(self, text: str) -> str:
        wish = {"q": text, **self.pair}
        return str(self.client.post("/api/translate", json=wish).json()["translations"][0]["translation"])

    def page(self, text: str) -> str:
        """It asks for a look inside, is told that a text of several sentences has none, and asks again without."""
        wish = {"q": text, **self.pair, "beam": 5, "n_best": 5}
        refused = self.client.post("/api/translate", json={**wish, "tokens": True, "attention": True, "steps": True})
        assert refused.status_code == 400
        assert "look at one of them at a time" in refused.json()["error"]
        return str(self.client.post("/api/translate", json=wish).json()["translations"][0]["translation"])

    def file(self, text: str) -> Path:
        path = self.place / "given.txt"
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, given: Given, stdin: str = "", *, split: bool = True) -> str:
        flags = [] if split else ["--no-split"]
        done = self.run("translate", *given, *flags, "--model", self.model, stdin=stdin)
        assert done.code == 0, done.err
        return done.out.removesuffix("\n")


SERVED = ["libretranslates_interface", "own_interface", "page"]
LOCAL = [f"library{how}" for how in ("", "_with_texts", "_with_a_file", "_with_html")]
LOCAL += [f"command_with_{how}" for how in ("text", "a_file", "standard_input", "a_format", "a_pattern", "an_output")]


@pytest.fixture
def ways(translator: Translator, model_folder: Path, command: Run, client: TestClient, tmp_path: Path) -> Ways:
    return Ways(translator, model_folder, command, client, tmp_path)


@pytest.mark.parametrize("way", LOCAL + SERVED)
def test_no_sentence_and_no_line_is_lost(way: str, ways: Ways, translator: Translator) -> None:
    """Held against each sentence by itself."""
    parted = [split_sentences(line) for line in TEXT.split("\n")]
    assert [len(sentences) for sentences in parted] == [4, 0, 4, 1]
    alone = [[translator.translate(one.strip(), split=False).text for one in sentences] for sentences in parted]
    assert all(len(sentence) > 1 for sentences in alone for sentence in sentences)
    assert getattr(ways, way)(TEXT) == "\n".join(map(" ".join, alone))


# In Chinese there is no space between sentences, whatever there is in the other language.
BORDERS = {
    ("zh", "en"): ("The dog。Red house！The cat sees。", " "),
    ("en", "zh"): ("The dog. Red house! The cat sees.", ""),
}


@pytest.fixture(scope="module", params=BORDERS, ids="-".join)
def unspaced(
    request: pytest.FixtureRequest, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, TestClient]]:
    """The model as if one of its languages were Chinese, and a server of it."""
    folder = shutil.copytree(model_folder, tmp_path_factory.mktemp("unspaced") / "-".join(request.param))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = config | dict(zip(("source", "target"), request.param, strict=True))
    (folder / "config.json").write_text(json.dumps(named), encoding="utf-8")
    manifest.seal(folder, ["config.json"])
    service = Service(Models.load([folder]))
    yield folder, TestClient(make_app(service))
    service.close()


@pytest.mark.parametrize("way", LOCAL + SERVED)
def test_sentences_are_apart_as_their_language_has_them(
    way: str, unspaced: tuple[Path, TestClient], command: Run, tmp_path: Path
) -> None:
    folder, client = unspaced
    ways = Ways(load_translator(folder), folder, command, client, tmp_path)
    source, target = ways.pair.values()
    text, gap = BORDERS[source, target]
    alone = [ways.translator.translate(one.strip(), split=False).text for one in split_sentences(text)]
    assert len(alone) == 3
    assert getattr(ways, way)(f"{text}\n{text}") == "\n".join([gap.join(alone)] * 2)


def test_a_tag_at_a_border_stays_with_its_sentence(translator: Translator) -> None:
    """And the white space is beside it, where there is any."""
    dog, house = (translator.translate(one, split=False).text for one in ("The dog。", "Red house。"))
    pages = [
        "<p><b>The dog。</b>Red house。</p>",
        "<p><b>The dog。</b> Red house。</p>",
        "<p>The dog。&nbsp;Red house。</p>",
    ]
    spaced = [f"<p><b>{dog}</b> {house}</p>"] * 2 + [f"<p>{dog}&nbsp;{house}</p>"]
    assert translate_html(translator, pages) == spaced
    chinese = Translator(translator.model, translator.tokenizer, {**translator.about, "target": "zh"})
    assert translate_html(chinese, pages) == [page.replace("> ", ">") for page in spaced]


@pytest.mark.parametrize("way", LOCAL)
def test_lines_that_are_parted_already(way: str, ways: Ways, translator: Translator) -> None:
    """Two sentences go to the model as one."""
    whole = [translator.translate(line, split=False).text for line in SHORT.split("\n")]
    found = getattr(ways, way)(SHORT, split=False)
    assert found == "\n".join(whole)
    assert found != getattr(ways, way)(SHORT)


def test_a_model_that_reads_whole_lines(translator: Translator, tmp_path: Path) -> None:
    """Documents ask the model, too."""
    own = Translator(translator.model, translator.tokenizer, {**translator.about, "whole_lines": True})
    expected = translator.translate(SHORT, split=False).text
    assert own.translate(SHORT).text == translate_text(own, [SHORT])[0].text == expected
    assert translator.translate(SHORT).text != expected


def test_alternatives_of_several_lines(translator: Translator) -> None:
    """Alternative i has alternative i of each line; a line may be empty."""
    first, second = (translator.translate(line, n_best=3) for line in ("The dog runs.", "A red house."))
    both = translator.translate("The dog runs.\n\r\n A red house.\n", n_best=3)
    pairs = zip(first.alternatives, second.alternatives, strict=True)
    assert [one.text for one in both.alternatives] == [f"{a.text}\n\n{b.text}" for a, b in pairs]
    assert (both.text, both.sentences) == (both.alternatives[0].text, 2)
    assert translator.translate("\n \n").text == ""
