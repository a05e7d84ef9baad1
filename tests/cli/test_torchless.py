"""A folder that has the native engine's file is translated with, written on with and served where there is no torch."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import save_untrained, tokenizer
from qkv import folder, manifest
from qkv.engines.native.file import write
from qkv.engines.native.kept import FILE
from qkv.engines.native.library import is_built
from qkv.folder.loaded import TOLD
from qkv.look.facts import looks, model_view
from qkv.models import MODELS, CausalBackbone
from qkv.opening import OPENERS
from qkv.tasks import TASKS

pytestmark = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
TEXTS = ("two dogs play in the snow", "a cat sat on the mat", "the dog sat")
KINDS = {"transformer": "translate", "gpt2": "language_model"}
# Runs the command lines that it is given, one after another, where nothing can import torch.
PROGRAM = """
import contextlib, io, json, sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("there is no torch here")
sys.meta_path.insert(0, NoTorch())
from qkv.cli import main
*others, last = json.loads(sys.argv[1])
for arguments in others:
    sys.argv = ["qkv", *arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    print(json.dumps(out.getvalue()), flush=True)
sys.argv = ["qkv", *last]
main()
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each kind, as training and `qkv quantize` leave them."""
    place, found = tmp_path_factory.mktemp("native"), dict[str, Path]()
    for name, task in KINDS.items():
        about = {"task": task, "source": "en", "target": "de"}
        found[name] = save_untrained(place / name, name, tokenizer(*TEXTS), about, max_length=40)
        write(found[name] / FILE, folder.load(found[name]).model, made_of=manifest.weights_digest(found[name]))
    return found


def torchless(*lines: list[str], cwd: Path) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", PROGRAM, json.dumps(lines)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def test_commands_run_where_there_is_no_torch(folders: dict[str, Path], tmp_path: Path) -> None:
    one, lm = (str(folders[name]) for name in KINDS)
    (tmp_path / "lines.en").write_text("\n".join(TEXTS))
    (tmp_path / "lines.de").write_text("\n".join(TEXTS))
    (tmp_path / "words.po").write_text('msgid "the dog"\nmsgstr ""\n')
    (tmp_path / "page.html").write_text("<p>the <b>dog</b> plays in the <i>snow</i></p>")
    process = torchless(
        ["translate", TEXTS[0], "--model", one],
        ["translate", "lines.en", "--model", one, "--beam", "1"],
        ["translate", TEXTS[0], "--model", one, "--sample", "--seed", "7"],
        ["generate", TEXTS[0], TEXTS[1], "--model", lm, "--tokens", "5", "--json"],
        ["generate", TEXTS[0], "--model", lm, "--tokens", "5"],
        ["score", "lines.en", "lines.de", "--model", one, "--beam", "1", "--json"],
        ["translate", "words.po", "--model", one],
        ["translate", "page.html", "-o", "page.de.html", "--model", one],
        cwd=tmp_path,
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    line, lines, drawn, written, watched, scored, _ = map(json.loads, out.splitlines())
    translator, how = qkv.load(one), {"sampling": True, "seed": 7}  # here, beside torch
    assert line == f"{translator.translate(TEXTS[0]).text}\n"
    assert lines.splitlines() == [found.text for found in translator.translate(TEXTS, beam=1)]
    assert drawn == f"{translator.translate(TEXTS[0], **how).text}\n"
    found = qkv.load(lm).generate(TEXTS[:2], tokens=5)
    assert [json.loads(text)["continuation"] for text in written.splitlines()] == [one.continuation for one in found]
    assert watched == f"{found[0].text}\n"
    assert "bleu" in json.loads(scored)
    assert 'msgid "the dog"' in (tmp_path / "words.de.po").read_text()
    assert "</b>" in (tmp_path / "page.de.html").read_text(), "tags are placed by the engine's own attention"


def test_a_server_and_its_page_run_where_there_is_no_torch(folders: dict[str, Path], tmp_path: Path) -> None:
    models = [flag for place in folders.values() for flag in ("--model", str(place))]
    process = torchless(["serve", *models, "--port", "0"], cwd=tmp_path)

    def get(path: str, **fields: Any) -> Any:
        asked = urllib.request.Request(url + path, json.dumps(fields).encode() if fields else None)
        asked.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.read().decode()

    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        url = first.partition("/ is the page")[0]
        assert "; transformer runs by int8 (8 bits by the native engine, " in first, process.communicate()[1]
        assert "), since int8.qkv is there" in first
        assert "<title>qkv</title>" in get("/")
        assert [model["name"] for model in json.loads(get("/api/models"))["models"]] == list(KINDS)
        said = json.loads(get("/translate", q=TEXTS[0], source="en", target="de", format="text"))
        assert said["translatedText"] == qkv.load(folders["transformer"]).translate(TEXTS[0]).text
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


@pytest.mark.parametrize("name", KINDS)
def test_what_a_folder_tells_is_what_its_model_says(name: str, folders: dict[str, Path]) -> None:
    unread, read = folder.look(folders[name]), folder.load(folders[name])
    assert not unread.is_built
    assert unread.context == unread.max_length == read.model.config.max_length == 40
    assert unread.has_prompts == isinstance(read.model, CausalBackbone)
    if name == "transformer":
        assert (unread.longest_source, unread.room(7)) == (read.model.longest_source, read.model.room(7))
    by_engine, by_model = qkv.load(folders[name]), qkv.load(folders[name], engine="plain")
    assert model_view(by_engine) == model_view(by_model)
    assert looks(by_engine) == looks(by_model)
    assert not by_engine.loaded.is_built


def test_whatever_is_opened_without_its_task_is_opened_as_its_task_does(folders: dict[str, Path]) -> None:
    assert TOLD.keys() <= MODELS.keys()
    for name, opener in OPENERS.items():
        assert TASKS[name].asks.startswith(f"qkv {opener.command} ")
    for name, place in folders.items():
        task = TASKS[KINDS[name]]
        opened = task(task.data_class(), MODELS[name]).open(folder.look(place))
        assert (type(opened), opened.engine.name) == (type(qkv.load(place)), "int8")
