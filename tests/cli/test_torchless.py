"""A folder that has the native engine's file is translated with, written on with and served where there is no torch."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from kit import save_untrained, stirred, tiny_model, tokenizer
from qkv import folder, manifest
from qkv.convert.native import write
from qkv.engines import open_reader
from qkv.engines.native.kept import FILE
from qkv.engines.native.library import is_built
from qkv.folder.loaded import TOLD
from qkv.look.facts import looks, model_view
from qkv.models import MODELS, Bert, CausalBackbone, Headed
from qkv.opening import OPENERS
from qkv.tasks import TASKS, USES
from qkv.text.frames import FRAMES
from qkv.text.tokenizer import Tokenizer

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


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each command that reads, of models that are far from even in what they say."""
    place = tmp_path_factory.mktemp("readers")
    words = Tokenizer.train(TEXTS * 3, kind="wordpiece", vocab_size=120, specials=["<mask>"])
    found = dict[str, Path]()
    for name, head in (("embed", ""), ("fill", ""), ("classify", "classes(n=3, pool='first', dense=True)")):
        backbone = stirred(tiny_model("bert", vocab_size=len(words), max_length=40, n_heads=4), 0.3).eval()
        model = stirred(Headed(backbone, {"classes": head}), 0.3).eval() if head else backbone
        about = {"task": name, "labels": ["a", "b", "c"]} if head else {"task": name}
        folder.save(place / name, model, words, about)
        write(place / name / FILE, backbone, made_of=manifest.weights_digest(place / name))
        found[name] = place / name
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


def test_what_reads_runs_where_there_is_no_torch(readers: dict[str, Path], tmp_path: Path) -> None:
    """A vector, the words of a hole and a class, as torch has them of the same 8 bits."""
    holes = "the <mask> sat on the <mask>"
    process = torchless(
        ["embed", *TEXTS, "--model", str(readers["embed"]), "--json"],
        ["embed", *TEXTS, "--model", str(readers["classify"]), "--pool", "first", "--json"],
        ["fill", holes, "a <mask>", "--model", str(readers["fill"]), "--k", "4", "--json"],
        ["fill", holes, "--model", str(readers["fill"]), "--k", "2", "--jointly", "--json"],
        ["predict", *TEXTS, "--model", str(readers["classify"]), "--json"],
        ["predict", *TEXTS, "--model", str(readers["classify"])],
        cwd=tmp_path,
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    *told, plain = (*map(json.loads, out.splitlines()[:5]), out.splitlines()[5:])
    vectors, firsts, filled, together, classes = [[json.loads(line) for line in one.splitlines()] for one in told]
    reader = {name: open_reader(folder.load(place), "int8") for name, place in readers.items()}
    for name, pool, found in (("embed", "mean", vectors), ("classify", "first", firsts)):
        embedder = qkv.load(readers[name], task="embed", pool=pool)
        assert embedder.file is not None
        embedder.reader = reader[name]  # torch's pooling of the same states
        vars(embedder.backbone).pop("native")
        assert np.allclose([one["vector"] for one in found], embedder.embed(TEXTS), atol=1e-5)
    filler = TASKS["fill"](TASKS["fill"].data_class(), Bert).open(folder.load(readers["fill"]))
    filler.loaded.model = reader["fill"]
    for one, text in zip(filled, (holes, "a <mask>"), strict=True):
        answer = filler.fill(text, 4)
        same_words(one["holes"], answer if text == holes else [answer])
    same_words([together[0]["ways"]], [filler.fill(holes, 2, jointly=True)])
    quick = qkv.load(readers["fill"])
    with qkv.record_attention(quick) as maps:
        quick.fill("a <mask>")
    assert maps, "who looks sees the model itself"
    assert quick.engine == "int8"
    assert quick.prediction is not None
    classifier = qkv.load(readers["classify"], engine="int8")
    for one, exact in zip(classes, classifier.predict(list(TEXTS)), strict=True):
        assert one["label"] == exact["label"]
        assert one["probabilities"] == pytest.approx(exact["probabilities"], abs=1e-5)
    assert [line.split("\t")[0] for line in plain] == [one["label"] for one in classes]


def same_words(found: list[Any], exact: list[Any]) -> None:
    for words, others in zip(found, exact, strict=True):
        assert [one["text"] for one in words] == [one["text"] for one in others]
        p = [one["probability"] for one in others]
        assert [one["probability"] for one in words] == pytest.approx(p, rel=1e-4)


def test_a_server_and_its_page_run_where_there_is_no_torch(
    folders: dict[str, Path], readers: dict[str, Path], tmp_path: Path
) -> None:
    places = [*folders.values(), readers["embed"]]
    models = [flag for place in places for flag in ("--model", str(place))]
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
        assert [model["name"] for model in json.loads(get("/api/models"))["models"]] == [*KINDS, "embed"]
        for name, place in (("gpt2", folders["gpt2"]), ("embed", readers["embed"])):
            found = json.loads(get("/api/embed", q=list(TEXTS), model=name))["vectors"]
            assert np.allclose(found, qkv.load(place, task="embed", engine="int8").embed(TEXTS), atol=1e-5)
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
        assert USES[name].asks.startswith(f"qkv {opener.command} ")
    assert {name: MODELS[name].frame for name in FRAMES} == FRAMES
    assert not any(MODELS[name].marks for name in FRAMES)
    for name, place in folders.items():
        task = TASKS[KINDS[name]]
        opened = task(task.data_class(), MODELS[name]).open(folder.look(place))
        assert (type(opened), opened.engine.name) == (type(qkv.load(place)), "int8")
