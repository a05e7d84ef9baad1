"""What every task shares: results beside baselines, scores, examples held out, recipes, refusals in one sentence."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import qkv
from corpora import CORPORA
from kit import Result
from qkv import folder
from qkv.config import read_toml
from qkv.data import each_row
from qkv.errors import InputError
from qkv.evaluation import class_scores
from qkv.files import remove
from qkv.folder import RunFolder
from qkv.models import MODELS
from qkv.objectives import OBJECTIVES
from qkv.opening import score_files
from qkv.tasks import TASKS, Corpus, Survey
from qkv.tasks.running_text import RunningTextConfig
from qkv.text.examples import Text
from qkv.training.settings import complete

TINY = CORPORA["classify"]
SMALL: dict[str, Any] = {"task": "classify", "quiet": True, "data": TINY.data, "model": TINY.model}
STEPS: dict[str, Any] = {"steps": 12, "validate_every": 4, "checkpoint_steps": 3, "threads": 1}


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return TINY.write(tmp_path, 60, 1)


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return TINY.write(tmp_path, 20, 2)


# -- what a run leaves -------------------------------------------------------------------------------------------------


def test_a_restart_replaces_the_old_run_and_a_mistake_in_it_does_not(train: Path, tmp_path: Path) -> None:
    out, few = tmp_path / "model", {**STEPS, "steps": 3}
    qkv.train(train, out=out, **SMALL, training=few)
    with pytest.raises(InputError, match="there is no file"):
        qkv.train(tmp_path / "no.tsv", out=out, restart=True, **SMALL, training=few)
    assert (out / "training" / "checkpoints" / "step-00000003").exists()
    qkv.train(train, out=out, restart=True, **SMALL, training={**few, "steps": 1})
    assert [path.name for path in (out / "training" / "checkpoints").iterdir()] == ["step-00000001"]
    remove(out / "training")
    with pytest.raises(InputError, match="already holds a model; give a new --out, or --restart to replace it"):
        qkv.train(train, out=out, **SMALL, training=few)


def test_results_stand_beside_the_baselines(
    train: Path, valid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    trained = qkv.train(train, valid=[valid], out=out, **{**SMALL, "quiet": False}, training=STEPS)
    results = json.loads((out / "results.json").read_text())
    assert results["task"] == "classify"
    assert results["steps"] == 12
    assert results["valid"] == trained.best
    assert 0 <= results["valid"]["accuracy"] <= 1
    told = capsys.readouterr().err
    assert f"macro-F1 {trained.best['macro_f1'] * 100:.2f} %, Matthews correlation {trained.best['mcc']:.3f}" in told
    assert set(results["baselines"]) >= {"majority class", "bag of words"}
    for name, accuracy in {"this model": trained.best["accuracy"], **results["baselines"]}.items():
        assert f"{accuracy * 100:.2f} %  {name}" in told
    log = [json.loads(line) for line in (out / "training" / "log.jsonl").read_text().splitlines()]
    figures = [event for event in log if event["event"] == "valid"]
    assert [event["step"] for event in figures] == [4, 8, 12]
    assert max(event["accuracy"] for event in figures) == trained.best["accuracy"]


def test_a_run_keeps_its_corpus(train: Path, valid: Path, tmp_path: Path) -> None:
    """Rows and their tokenizer, the examples to validate on as they were read, and what each file held."""
    qkv.train(train, valid=[valid], out=tmp_path / "model", **SMALL, training={**STEPS, "steps": 1})
    place = RunFolder(tmp_path / "model").corpus
    assert {path.name for path in place.iterdir()} == {
        "tokenizer.json", "corpus.json", "valid.jsonl", "train", "valid", "manifest.json",
    }  # fmt: skip
    corpus = Corpus.open(place)
    assert corpus.digests.keys() == {str(train), str(valid)}
    assert corpus.facts["labels"] == ["neg", "pos"]
    kept = corpus.valid_examples(TASKS["classify"].example_class)
    assert [f"{one.label}\t{one.text}" for one in kept] == valid.read_text().splitlines()
    assert len(corpus.valid_examples(TASKS["classify"].example_class, 3)) == 3
    (place / "corpus.json").write_text("[]")
    with pytest.raises(InputError, match=r"corpus.json has changed since it was written"):
        qkv.train(out=tmp_path / "model", quiet=True)
    (place / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"data holds no corpus that this qkv can read; begin anew with --restart"):
        qkv.train(out=tmp_path / "model", quiet=True)


# -- scores ------------------------------------------------------------------------------------------------------------


def test_a_model_is_scored_on_files_of_its_task(
    train: Path, valid: Path, tmp_path: Path, command: Callable[..., Result]
) -> None:
    """As a loop over what it predicts counts it, and as its own validation said; by the command line too."""
    out = tmp_path / "model"
    rate = {**STEPS, "learning_rate": 0.02, "average": "none"}
    trained = qkv.train(train, valid=[valid], out=out, **SMALL, training=rate)
    lines = [line.split("\t") for line in valid.read_text().splitlines()]
    found = [answer["label"] for answer in qkv.load(out).predict([text for _, text in lines])]
    scores = class_scores(found, [label for label, _ in lines])
    result = score_files(out, valid)
    assert (result["task"], result["examples"]) == ("classify", 20)
    for name in ("accuracy", "macro_f1", "mcc"):
        assert result[name] == pytest.approx(getattr(scores, name)) == pytest.approx(trained.best[name])
    assert result["loss"] == pytest.approx(trained.best["loss"], rel=1e-5)
    said = command("score", "--model", out, valid)
    assert f"accuracy {scores.accuracy * 100:.2f}" in said.out.replace("%", " %").replace("  ", " ")
    plain = json.loads(command("score", "--model", out, valid, "--json").out)
    assert plain["macro_f1"] == pytest.approx(scores.macro_f1)
    with pytest.raises(InputError, match="no file was given; classify reads files of label and text"):
        score_files(out)
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(InputError, match=r"empty.tsv"):
        score_files(out, tmp_path / "empty.tsv")


# -- what is held out --------------------------------------------------------------------------------------------------


def test_without_validation_files_some_documents_are_held_out(train: Path, tmp_path: Path) -> None:
    """One in ten, the same in every run; none of them is trained on."""

    def rows(name: str) -> tuple[set[str], set[str]]:
        qkv.train(train, out=tmp_path / name, **SMALL, training={**STEPS, "steps": 1})
        corpus = Corpus.open(RunFolder(tmp_path / name).corpus)
        kept, held_out = (
            {corpus.tokenizer.decode(row[0]) for row in each_row(part)} for part in (corpus.train, corpus.valid)
        )
        return kept, held_out

    kept, held_out = rows("one")
    assert len(held_out) == 6
    assert not kept & held_out
    assert len(kept | held_out) == 60
    assert rows("other") == (kept, held_out)


def test_training_documents_that_are_validated_on_are_dropped(
    train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = train.read_text().splitlines(keepends=True)
    valid = tmp_path / "some.tsv"
    valid.write_text("".join(lines[:7]))
    qkv.train(train, valid=[valid], out=tmp_path / "m", **{**SMALL, "quiet": False}, training={**STEPS, "steps": 1})
    told = capsys.readouterr().err
    assert "7 training examples are also to validate or to test: dropped" in told
    assert "classify: 53 examples to train on, 7 to validate" in told


def test_a_limit_draws_some_examples_by_the_seed(train: Path, valid: Path, tmp_path: Path) -> None:
    def texts(name: str, seed: int, limit: int) -> list[str]:
        data = {**TINY.data, "limit": limit, "seed": seed}
        how = {**SMALL, "data": data, "training": {**STEPS, "steps": 1}}
        qkv.train(train, valid=[valid], out=tmp_path / name, **how)
        corpus = Corpus.open(RunFolder(tmp_path / name).corpus)
        assert len(corpus.valid) == 20
        return [corpus.tokenizer.decode(row[0]) for row in each_row(corpus.train)]

    some, again, others, whole = texts("a", 1, 20), texts("b", 1, 20), texts("c", 2, 20), texts("d", 1, 0)
    assert len(some) == len(others) == 20
    assert some == again
    assert set(some) < set(whole)
    assert set(some) != set(others)
    assert len(texts("e", 1, 1000)) == len(whole) == 60


# -- examples in memory ------------------------------------------------------------------------------------------------


def test_examples_to_validate_on_may_be_in_memory_too(tmp_path: Path) -> None:
    pairs = [("good film", "gut"), ("bad film", "schlecht"), ("long film", "lang"), ("a film", "ein")] * 5
    how = {**CORPORA["translate"].settings(steps=1), "out": tmp_path / "m"}
    qkv.train(pairs=pairs, valid=iter([("my film", "mein"), ("your film", "dein")]), **how)
    corpus = Corpus.open(RunFolder(tmp_path / "m").corpus)
    assert [one.source for one in corpus.valid_examples(TASKS["translate"].example_class)] == ["my film", "your film"]
    assert corpus.digests.keys() == {"examples in memory: train", "examples in memory: valid"}


def test_a_list_of_texts_to_validate_on_is_of_texts(tmp_path: Path) -> None:
    """As in texts= itself; paths are files there, and names of files are files where files are given."""
    content, texts = CORPORA["language_model"].content, ["A dog sees 7.", "The cat runs 8."]
    file, how = tmp_path / "valid.txt", CORPORA["language_model"].settings(steps=1)
    file.write_text("A dog runs 9, and sees 10.", encoding="utf-8")

    def validated(name: str, *files: Path, **given: Any) -> list[str]:
        qkv.train(*files, **given, out=tmp_path / name, **how)
        return [one.text for one in Corpus.open(RunFolder(tmp_path / name).corpus).valid_examples(Text)]

    kept = [file.read_text(encoding="utf-8")]
    for given in (texts, tuple(texts), iter(texts)):
        assert validated(f"{type(given).__name__}", texts=[content(60, 1)], valid=given) == texts
    assert validated("paths", texts=[content(60, 1)], valid=[file]) == kept
    assert validated("one", texts=[content(60, 1)], valid=str(file)) == kept
    assert validated("files", CORPORA["language_model"].write(tmp_path), valid=[str(file)]) == kept


def test_a_run_on_examples_goes_on_without_reading_them_again(tmp_path: Path) -> None:
    read: list[int] = []

    def labelled() -> Iterator[tuple[str, str]]:
        for line in TINY.content(40, 1).splitlines():
            read.append(1)
            label, text = line.split("\t")
            yield label, text

    how = {**TINY.settings(steps=2), "out": tmp_path / "m"}
    assert qkv.train(labelled=labelled(), **how).steps == 2
    assert len(read) == 40
    assert qkv.train(labelled=labelled(), **{**how, "training": {**how["training"], "steps": 4}}).steps == 4
    assert len(read) == 40


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pairs": [("a", "b"), ("a", 3)]}, "train example 2 is ('a', 3); translate learns from pairs: source, target"),
        ({"pairs": ["ab"]}, "train example 1 is 'ab'; translate learns from pairs: source, target"),
        ({"pairs": [{"source": "a"}]}, "train example 1 is {'source': 'a'}; translate learns from pairs: source"),
        ({"labelled": [("good", 3)]}, "train example 1 is ('good', 3); classify learns from labelled: label, text"),
        ({"labelled": [3]}, "train example 1 is 3; classify learns from labelled: label, text"),
        ({"labelled": iter([])}, "no example to train on is left of 0; give others"),
        ({"labelled": []}, "no example to train on is left of 0; give others"),
        ({"texts": ["  "]}, "train example 1 is '  '; language_model learns from texts that are not empty"),
        ({"sentences": [(["a", "b"], [0, 0])]}, "train example 1: a dependency tree has one root, but 2 of 2 words"),
    ],
)
def test_what_is_no_example_is_refused(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        qkv.train(**given, out=tmp_path / "m", quiet=True)
    assert str(caught.value).startswith(told)
    assert not (tmp_path / "m").exists()


def test_the_sample_of_a_long_text_takes_little_memory(tmp_path: Path) -> None:
    """Pieces of 64 thousand characters from all over it: 13 MB, however long it is. Short ones are a thousand."""

    def sampled(texts: Iterator[str]) -> list[str]:
        parts = {"train": texts, "valid": [], "test": []}
        survey = Survey(TASKS["language_model"](RunningTextConfig()), parts, tmp_path, lambda _: None)
        return [text for [text] in survey.sample]

    long = sampled(f"{number} " + "word " * 13_107 for number in range(260))
    numbers = [int(text.split()[0]) for text in long]
    assert 190 < len(set(numbers)) == len(long) <= 200
    assert numbers != sorted(numbers)
    assert max(numbers) > 230
    short = [f"text number {number}" for number in range(2_000)]
    assert sampled(iter(short[:900])) == short[:900]
    assert len(sampled(iter(short))) == 1_000
    assert len(sampled(iter(["word " * 3_000_000]))) == 1  # of the text itself, when there is no other


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_recipe_names_the_task_and_flags_change_it(train: Path, valid: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text(
        f'task = "classify"\ntrain = ["{train}"]\nvalid = ["{valid}"]\n[data]\nvocab_size = 320\n'
        "[model]\nd_embedding = 8\nd_model = 8\n[training]\nsteps = 2\nthreads = 1\n"
    )
    qkv.train(recipe=recipe, out=tmp_path / "model", quiet=True, model={"d_model": 6})
    config = folder.load(tmp_path / "model").model.config
    assert (config.d_embedding, config.d_model) == (8, 6)
    again = complete(read_toml(tmp_path / "model" / "training" / "recipe.toml"), "again")
    assert again.model == config
    assert (again.train, again.valid) == ([str(train)], [str(valid)])


def test_every_task_is_whole() -> None:
    assert next(iter(TASKS)) == "translate"
    for name, task in TASKS.items():
        assert task.name == name
        assert task.architecture in task.models()
        assert all(issubclass(MODELS[model], task.kinds) for model in task.models())
        assert task.objective in OBJECTIVES
        assert task.score in task.figures
        assert (task.__doc__ or "").split("\n")[0].strip()
        settings = complete({"task": name, "train": ["x"]}, name)
        assert (settings.task, settings.architecture) == (name, task.architecture)
        assert isinstance(settings.data, task.data_class)
        assert name in CORPORA, "give it a tiny corpus in tests/corpora.py, and every suite tests it"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"task": "clasify"}, "unknown task 'clasify'; did you mean 'classify'?"),
        (
            {"task": "classify", "model": {"d_modle": 1}},
            "settings: unknown key 'model.d_modle'; did you mean 'd_model'?",
        ),
        (
            {"task": "classify", "data": {"max_words": 0}},
            "settings: data: max_words and max_sentences must be at least 1",
        ),
        ({"task": "classify", "data": 3}, "settings: data is 3; it must be a table of settings"),
        ({"task": "classify", "architecture": "transformer"}, "'transformer' is no model of the task 'classify'"),
        ({"task": "classify", "source": "en"}, "settings: unknown key 'data.source'"),
        ({"task": "classify", "training": {"epoch": 1}}, "unknown key 'training.epoch'; did you mean 'epochs'?"),
        (
            {"task": "classify", "model": {"n_classes": 5}},
            "model.n_classes is 5, but the data asks for 2; leave it out",
        ),
        (
            {"task": "classify", "training": {"best_by": "bleu"}},
            "settings: training.best_by is bleu, but classify is measured by loss and accuracy and macro_f1 and mcc",
        ),
        ({"architecture": "hierarchical"}, "settings: 'hierarchical' is no model of the task 'translate'"),
    ],
)
def test_mistakes_are_told_in_one_sentence(given: dict[str, Any], told: str, train: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        qkv.train(train, out=tmp_path / "model", quiet=True, **given)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("task", TASKS)
def test_no_file_is_refused_with_an_example(task: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"no file was given; {task} learns from .*for example: qkv train"):
        qkv.train(task=task, out=tmp_path / "model", quiet=True)


def test_a_folder_keeps_to_its_task(train: Path, valid: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    qkv.train(train, valid=[valid], out=out, **SMALL, training={**STEPS, "steps": 1})
    with pytest.raises(InputError, match=r"this run began with task = 'classify', now it is 'translate'; give a new"):
        qkv.train(train, task="translate", out=out, quiet=True)
    with pytest.raises(InputError, match=r"this run began with data.vocab_size = 320, now it is 400; give a new --out"):
        qkv.train(train, valid=[valid], out=out, task="classify", quiet=True, data={"vocab_size": 400})
    train.write_text("pos\tother\n")
    with pytest.raises(InputError, match="has changed since this run began"):
        qkv.train(train, valid=[valid], out=out, **SMALL)
