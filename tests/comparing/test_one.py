"""One run in this process: its figures against those computed another way, and its speeds from a written log."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv import folder
from qkv.comparing import one
from qkv.comparing.plan import Row, read_recipe
from qkv.comparing.shared import Shared
from qkv.config import merge
from qkv.display import Display
from qkv.evaluation import score
from qkv.opening import task_in
from qkv.tasks import Corpus
from qkv.tasks.translation import Translate


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, write_recipe: Any) -> Path:
    """Where one finished run is: place/run."""
    place = tmp_path_factory.mktemp("one")
    recipe = write_recipe(place, steps=12)
    lines = (place / "pairs.tsv").read_text().splitlines(keepends=True)
    (place / "test.tsv").write_text("".join(lines[:20]))
    base = merge(read_recipe(recipe)[0], {"test": [str(place / "test.tsv")]})
    spec = Shared(base, place, Display(quiet=True)).spec(Row("learned", {"model": {"position": "learned"}}), 1, SEARCH)
    (place / "run").mkdir()
    (place / "run" / "spec.json").write_text(json.dumps(asdict(spec)))
    assert one.main(place / "run" / "spec.json") == 0
    return place


SEARCH = {"beam": 2, "alpha": 0.6}


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_the_result_is_of_the_model_that_was_kept(place: Path) -> None:
    result, spec = read(place / "run" / "result.json"), read(place / "run" / "spec.json")
    assert (result["digest"], result["row"], result["seed"]) == (spec["digest"], "learned", 6)  # the recipe's is 5
    translator = qkv.load(place / "run", engine="float32")  # as all figures are
    assert result["parameters"] == sum(weight.numel() for weight in translator.model.parameters())
    events = [json.loads(line) for line in (place / "run" / "training" / "log.jsonl").read_text().splitlines()]
    best = [event for event in events if event["event"] == "valid" and event["best"]][-1]
    assert (result["loss"], result["perplexity"], result["steps"]) == (best["loss"], best["perplexity"], 12)
    lines = [line.split("\t") for line in (place / "test.tsv").read_text().splitlines()]
    texts = [line.text for line in translator.translate([source for source, _ in lines], beam=2, alpha=0.6)]
    expected = score(texts, [target for _, target in lines], target_language="ne")
    assert (result["bleu"], result["bleu_signature"]) == (pytest.approx(expected.bleu), expected.bleu_signature)
    assert result["measured_on"] == "test files"
    assert result["threads"] == torch.get_num_threads()
    assert result["decoding_speed"] > 0
    assert 10**8 < result["peak_memory"] < 10**11  # torch alone takes more than 100 MB


def test_without_files_the_pairs_that_training_held_out_are_measured(place: Path) -> None:
    spec = one.Spec(**read(place / "run" / "spec.json"))
    without = one.Spec(**{**asdict(spec), "settings": {**spec.settings, "test": []}})
    name, examples = one.held_out(without, task_in(folder.load(place / "run")))
    pairs = [(pair.source, pair.target) for pair in examples]
    corpus = {tuple(line.split("\t")) for line in (place / "pairs.tsv").read_text().splitlines()}
    assert name == "pairs held out"
    assert len(pairs) == 10  # one in ten of the 100 that are not in the test file
    assert set(pairs) < corpus


def test_a_finished_run_is_measured_again_without_training(place: Path) -> None:
    result = place / "run" / "result.json"
    before, weights = read(result), (place / "run" / "model.safetensors").read_bytes()
    result.unlink()
    (place / "run" / "memory.json").write_text(str(10**11))  # an earlier process had more than this one will
    assert one.main(place / "run" / "spec.json") == 0
    again = read(result)
    assert again["peak_memory"] == 10**11 > before["peak_memory"]
    assert (place / "run" / "model.safetensors").read_bytes() == weights
    assert {key: again[key] for key in ("digest", "bleu", "loss")} == {
        key: before[key] for key in ("digest", "bleu", "loss")
    }


def test_a_mistake_is_one_sentence_and_leaves_no_result(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = read(place / "run" / "spec.json")
    spec["settings"]["corpus"] = "missing"
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert one.main(tmp_path / "spec.json") == 1
    told = capsys.readouterr().err
    assert told.startswith("qkv: missing holds no corpus that this qkv can read; ")
    assert told.count("\n") == 1
    assert not (tmp_path / "result.json").exists()


def test_the_digest_is_of_all_that_a_result_depends_on(place: Path) -> None:
    base = merge(read_recipe(place / "recipe.toml")[0], {"test": [str(place / "test.tsv")]})

    def digest(search: dict[str, Any] = SEARCH, **more: Any) -> str:
        shared = Shared(merge(base, more), place, Display(quiet=True))
        return shared.spec(Row("learned", {"model": {"position": "learned"}}), 1, search).digest

    same = digest()
    assert same == read(place / "run" / "spec.json")["digest"]
    assert digest(training={"threads": 7, "keep": 9, "checkpoint_steps": 1}) == same
    assert digest(model={"norm": "pre"}) == same  # as the recipe has it
    assert digest(objective="translation(label_smoothing=0.1)") == same  # as it is anyway
    other = place / "other.tsv"
    other.write_text((place / "pairs.tsv").read_text() + "one\tmore\n")
    copy = place / "copy.tsv"
    copy.write_text((place / "pairs.tsv").read_text())
    assert digest(train=[str(copy)]) == same
    different = [
        digest(train=[str(other)]), digest(test=[]), digest({"beam": 3, "alpha": 0.6}), digest(data={"seed": 9}),
        digest(training={"steps": 13}), digest(model={"n_heads": 4}), digest(objective={"label_smoothing": 0.0}),
    ]  # fmt: skip
    assert len({same, *different}) == 8


def test_files_are_read_once_and_encoded_once_for_all_rows_and_seeds(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again only for a row that reads other files, or by other rules, or with another vocabulary."""
    read_by: list[str] = []
    encoded: list[int] = []
    reading, encoding = Translate.read, Translate.encode

    def counting_read(self: Translate, paths: Any) -> Any:
        read_by.extend(path.name for path in paths)
        return reading(self, paths)

    def counting_encode(self: Translate, examples: Any, tokenizer: Any, facts: Any) -> Any:
        encoded.append(len(examples))
        return encoding(self, examples, tokenizer, facts)

    monkeypatch.setattr(Translate, "read", counting_read)
    monkeypatch.setattr(Translate, "encode", counting_encode)
    shared = Shared(read_recipe(place / "recipe.toml")[0], tmp_path, Display(quiet=True))

    def corpus(seed: int = 0, **changes: Any) -> str:
        return str(shared.spec(Row("row", changes), seed, SEARCH).settings["corpus"])

    rows = [{}, {"model": {"position": "none"}}, {"training": {"learning_rate": 0.5}}, {"architecture": "recurrent"}]
    first = {corpus(seed, **row) for row in rows for seed in range(3)}
    assert len(first) == 1
    assert read_by == ["pairs.tsv"]
    assert sum(encoded) == 120
    small = corpus(data={"vocab_size": 320})
    assert (read_by, sum(encoded)) == (["pairs.tsv"], 240)
    strict = corpus(data={"doctor": {"max_ratio": 2.0}})
    assert read_by == ["pairs.tsv"] * 2
    (place / "more.tsv").write_text((place / "pairs.tsv").read_text() + "one\tmore\n")
    more = corpus(train=[str(place / "more.tsv")])
    assert read_by == ["pairs.tsv", "pairs.tsv", "more.tsv"]
    assert len({*first, small, strict, more}) == 4 == len(list((tmp_path / "corpora").iterdir()))
    sizes = [(len(one.train), len(one.valid)) for one in map(Corpus.open, map(Path, (*first, small, more)))]
    assert sizes == [(108, 12), (108, 12), (109, 12)]


def test_training_speed_leaves_validations_out(tmp_path: Path) -> None:
    """Six lines of a second each at 100 tokens a second, and a validation of 50 seconds between them."""
    log = tmp_path / "log.jsonl"
    train = [{"event": "train", "step": i, "tokens": 100, "seconds": float(i)} for i in range(1, 4)]
    train += [{"event": "train", "step": i, "tokens": 100, "seconds": 50.0 + i} for i in range(4, 7)]
    events = [*train[:3], {"event": "valid", "step": 3, "loss": 1.0}, *train[3:], {"event": "valid", "step": 6}]
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert one.training_speed(log) == pytest.approx(100.0)
    log.write_text("".join(json.dumps(event) + "\n" for event in events[2:4]))  # a single line of training
    assert one.training_speed(log) == pytest.approx(100 / 3)
