"""Every model of the table by every command that opens a folder, and by a server: it does what it is asked for, or says
in one sentence why it cannot. A new model is tested here by itself."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from corpora import CORPORA, LEARNERS, learner
from kit import Result
from qkv import folder
from qkv.convert.plain import HOLDS
from qkv.models import MODELS, EncoderDecoder
from qkv.serving import Models, Service, make_app
from qkv.tasks import TASKS

FIRST = {model: task for task, model, _ in reversed(LEARNERS)}  # the first task that each model can learn
OWN = list(FIRST.items())
HEADED = [(model, "classify") for model in FIRST if ("classify", model, "") in LEARNERS and FIRST[model] != "classify"]
NOTHING_TO_SEE = ("awd_lstm", "elmo", "hierarchical", "reader", "head_finder", "transe")
QUESTIONS = {"cloze": CORPORA["cloze"].questions[0], "graph": "Rome", "fill": "the <mask> runs"}
ASKING = ("translate", "generate", "fill", "predict", "summarise")
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of an untrained model, made once."""
    place = tmp_path_factory.mktemp("models")

    @cache
    def made(model: str, task: str) -> Path:
        one, out = learner(task, model, "", place), place / f"{model}-{task}"
        folder.save(out, one.model.eval(), one.tokenizer, {"task": task, **one.facts})
        return out

    return made


@pytest.fixture
def given(request: pytest.FixtureRequest, folders: Callable[[str, str], Path]) -> tuple[str, str, Path]:
    model, task = request.param
    return model, task, folders(model, task)


every = pytest.mark.parametrize("given", OWN, ids="-".join, indirect=True)


def told(done: Result) -> bool:
    """Whether it was done; what was not is told by one sentence that says what to do instead."""
    if done.code:
        assert done.code == 1
        assert done.err.startswith("qkv: ")
        assert done.err.count("\n") == 1
        assert ";" in done.err
    return done.code == 0


@every
def test_it_is_told_and_asked_by_the_command_of_its_task(given: tuple[str, str, Path], command: Run) -> None:
    model, task, place = given
    assert json.loads(command("info", place, "--json").out)["model"] == model
    own = TASKS[task].asks.split()[1]
    for name in ASKING:
        done = command(name, QUESTIONS.get(task, "the cat"), "--model", place)
        assert told(done) == (name == own), f"{name}: {done.err}"


@every
def test_it_is_looked_at_if_it_has_attention(given: tuple[str, str, Path], command: Run, tmp_path: Path) -> None:
    model, _, place = given
    is_seen = told(command("look", "the cat", "--model", place, "-o", "look.html"))
    assert is_seen == (tmp_path / "look.html").exists() == (model not in NOTHING_TO_SEE)
    is_explained = told(command("explain", "the cat", "--model", place, "-o", "steps.svg"))
    assert is_explained == (tmp_path / "steps.svg").exists() <= is_seen


@pytest.mark.parametrize("given", OWN + HEADED, ids="-".join, indirect=True)
def test_its_vectors_and_8_bits_are_made_if_it_has_any(given: tuple[str, str, Path], command: Run) -> None:
    model, task, place = given
    Path("lines.txt").write_text("the red cat\nA dog runs 3.\n")
    Path("pairs.tsv").write_text("the cat\ttac eht\na dog\tgod a\n")
    done = command("embed", "lines.txt", "--model", place, "-o", "vectors.npy")
    assert told(done) == Path("vectors.npy").exists()
    valid = "pairs.tsv" if task == "translate" else "lines.txt"
    if told(command("quantize", place, "--valid", valid)):
        assert (place / "int8.qkv").exists()
        (place / "int8.qkv").unlink()
    elif not issubclass(MODELS[model], EncoderDecoder):
        assert not (place / "int8.qkv").exists()


@every
@pytest.mark.parametrize("to", HOLDS)
def test_it_is_exported_where_the_other_program_has_a_place_for_it(
    given: tuple[str, str, Path], to: str, command: Run
) -> None:
    model, task, place = given
    is_held = told(command("export", place, "--to", to, "out"))
    assert is_held == Path("out").exists()
    reads = model in ("bert", "roberta", "ernie2", "gpt2", "unilm") and task != "translate"
    assert is_held or to != "onnx" or not reads
    assert not is_held or model in HOLDS[to] or "backbone" in HOLDS[to]


@pytest.fixture(scope="module")
def server(folders: Callable[[str, str], Path]) -> Iterator[TestClient]:
    service = Service(Models.load([folders(*case) for case in OWN]))
    yield TestClient(make_app(service))
    service.close()


@every
def test_a_server_shows_it_and_its_attention(given: tuple[str, str, Path], server: TestClient) -> None:
    model, task, place = given
    [described] = [one for one in server.get("/api/models").json()["models"] if one["name"] == place.name]
    assert described["task"] == task
    answer = server.post("/api/look", json={"q": "the cat", "model": place.name})
    assert answer.status_code == (400 if model in NOTHING_TO_SEE else 200), answer.text
    if answer.status_code == 400:
        assert ";" in answer.json()["error"]
