"""Sentences that nobody paired: read by language, behind marks; what begins with them, and translates without pairs."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from kit import same
from qkv import folder
from qkv.data import each_row
from qkv.errors import InputError
from qkv.folder import RunFolder
from qkv.look.sentence import ids_of
from qkv.tasks.corpus import Corpus
from qkv.tasks.translation import PairsConfig, Translate
from qkv.tasks.unpaired import SentencesConfig, Unpaired, nearest_tokens
from qkv.text import read_sentences
from qkv.text.examples import Monolingual, Pair
from qkv.text.language import from_name
from qkv.text.tokenizer import BOS, EOS
from qkv.training import checkpoint

MODEL = {"d_model": 16, "d_ff": 16, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
TRAINING = {"steps": 4, "epochs": 0.0, "threads": 1, "precision": "float32", "validate_every": 2, "bleu_sentences": 4,
            "schedule": "constant", "learning_rate": 0.01}  # fmt: skip
DATA = {"vocab_size": 320, "batch_tokens": 100}
ENGLISH, GERMAN = ["red", "cat", "house", "sun", "fish"], ["rot", "Katze", "Haus", "Sonne", "Fisch"]


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Word i of one language is word i of the other."""
    rng, found = random.Random(seed), dict[str, str]()
    while len(found) < count:
        numbers = rng.choices(range(5), k=rng.randint(2, 6))
        found[" ".join(ENGLISH[i] for i in numbers)] = " ".join(GERMAN[i] for i in numbers)
    return list(found.items())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    for name, seed, count in (("train", 1, 60), ("val", 2, 6)):
        for side, language in enumerate(("en", "de")):
            lines = [pair[side] for pair in pairs(count, seed + 5 * (side if name == "train" else 0))]
            (place / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return place


def run(files: Path, out: Path, **more: Any) -> qkv.Trained:
    how = {"data": DATA, "model": MODEL, "training": TRAINING, "quiet": True, "task": "unpaired", **more}
    return qkv.train(files / "train.en", files / "train.de", out=out, **how)


@pytest.fixture(scope="module")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "m"
    run(files, out)
    return out


@pytest.mark.parametrize(
    ("name", "language"),
    [("train.en", "en"), ("train.de.gz", "de"), ("en.txt", "en"), ("news.pt-BR.txt", "pt-BR"), ("deu.txt.gz", "deu"),
     ("train.txt", None), ("notes", None), ("de", None), ("train.tok", None), ("a.txt", None)],
)  # fmt: skip
def test_the_name_of_a_file_says_its_language(name: str, language: str | None) -> None:
    assert from_name(Path("some.fr") / name) == language


def test_a_sentence_stands_behind_the_mark_of_its_language(trained: Path, files: Path) -> None:
    corpus = Corpus.open(RunFolder(trained).corpus)
    tokenizer = corpus.tokenizer
    assert corpus.facts["languages"] == ["en", "de"]
    en, de = tokenizer.special("<en>"), tokenizer.special("<de>")
    task = Unpaired(SentencesConfig(languages=["en", "de"]))
    rows = task.encode([Monolingual("red cat", "en", ""), Monolingual("rot", "de", "")], tokenizer, corpus.facts)
    assert rows == [([en, *tokenizer.encode("red cat"), EOS],), ([de, *tokenizer.encode("rot"), EOS],)]


def test_the_baseline_is_the_frequency_of_each_token(trained: Path) -> None:
    """Counted by a loop, marks left out and ends counted, with one more of each of the vocabulary."""
    corpus = Corpus.open(RunFolder(trained).corpus)
    train, valid = ([token for (row,) in each_row(rows) for token in row[1:]] for rows in (corpus.train, corpus.valid))
    size = len(corpus.tokenizer)
    expected = -sum(math.log((train.count(token) + 1) / (len(train) + size)) for token in valid) / len(valid)
    assert json.loads(RunFolder(trained).baselines.read_text()) == {"frequency": pytest.approx(expected)}


def test_a_translator_reads_and_writes_behind_the_mark_of_its_target(
    trained: Path, files: Path, tmp_path: Path
) -> None:
    """By the folder that it starts from; training rows, the translator and what `qkv look` shows are framed alike."""
    given = {"data": {"batch_tokens": 100, "limit": 20}, "training": TRAINING, "quiet": True}
    qkv.train(pairs=pairs(40, 9), start=trained, source="en", target="de", out=tmp_path / "t", **given)
    translator = qkv.load(tmp_path / "t")
    mark, ids = translator.tokenizer.special("<de>"), translator.tokenizer.encode("red cat")
    (row,) = Translate(PairsConfig()).encode([Pair("red cat", "rot", "")], translator.tokenizer, translator.about)
    assert row == ([mark, *ids, EOS], [BOS, mark, *translator.tokenizer.encode("rot"), EOS])
    assert translator.sources(["red cat"]) == [[mark, *ids]]
    assert ids_of(translator, "red cat", "rot") == (row[0][:-1], row[1][1:-1])
    corpus = Corpus.open(RunFolder(tmp_path / "t").corpus)
    assert len(corpus.train) == 20


def test_a_model_without_marks_translates_as_ever(tmp_path: Path) -> None:
    qkv.train(pairs=pairs(40, 9), source="en", target="de", out=tmp_path / "t", data=DATA, model=MODEL,
              training=TRAINING, quiet=True)  # fmt: skip
    translator = qkv.load(tmp_path / "t")
    assert translator.sources(["red cat"]) == [translator.tokenizer.encode("red cat")]


def test_one_language_whose_name_is_not_told_needs_no_mark(files: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text((files / "train.en").read_text())
    qkv.train(tmp_path / "text.txt", task="unpaired", out=tmp_path / "m", data=DATA, model=MODEL, training=TRAINING,
              quiet=True)  # fmt: skip
    loaded = folder.load(tmp_path / "m")
    assert loaded.about["languages"] == []
    assert set(loaded.tokenizer.specials) == {"<pad>", "<s>", "</s>", "<unk>", "<mask>"}


def test_without_pairs_a_translator_of_both_directions_is_measured(trained: Path, files: Path, tmp_path: Path) -> None:
    valid = [files / "val.en", files / "val.de"]
    told = run(files, tmp_path / "u", start=trained, valid=valid, objective="mass | back_translation",
               data={"batch_tokens": 100, "parallel_valid": True}, model={})  # fmt: skip
    assert {"bleu", "bleu_back", "word_by_word", "word_by_word_back"} <= told.best.keys()
    assert {"mass_loss", "back_translation_loss"} <= told.best.keys()
    assert qkv.load(tmp_path / "u").translate(["red cat", "sun"])
    assert json.loads((tmp_path / "u" / "config.json").read_text())["languages"] == ["en", "de"]


def test_a_run_with_back_translation_goes_on_as_if_it_never_had_stopped(
    trained: Path, files: Path, tmp_path: Path
) -> None:
    """What a model writes for itself depends on its weights alone."""
    how: dict[str, Any] = {"start": trained, "objective": "mass | back_translation", "model": {}}
    how["data"] = {"batch_tokens": 100}
    run(files, tmp_path / "whole", **how)
    run(files, tmp_path / "parts", **how, training={**TRAINING, "steps": 2})
    qkv.train(out=tmp_path / "parts", quiet=True, training={"steps": 4})
    whole, parts = (newest(tmp_path / name) for name in ("whole", "parts"))
    assert whole.state["step"] == parts.state["step"] == 4
    assert same(whole.weights, parts.weights)


def newest(out: Path) -> checkpoint.Checkpoint:
    found = checkpoint.newest(RunFolder(out).checkpoints, pytest.fail)
    assert found is not None
    return found


def test_fragments_are_restored_better_than_by_frequency(tmp_path: Path) -> None:
    """Numbers in their order, from any on: what is hidden follows from what is left."""
    starts = [(first, length) for first in range(10) for length in range(5, 13)]
    texts = [" ".join(str(100 + (first + i) % 10) for i in range(length)) for first, length in starts]
    told = qkv.train(monolingual=[(text, "en") for text in texts], out=tmp_path / "m", quiet=True,
                     data={"vocab_size": 300, "batch_tokens": 400}, model={**MODEL, "d_model": 32, "d_ff": 64},
                     training={**TRAINING, "steps": 150, "validate_every": 150})  # fmt: skip
    assert told.best["loss"] < 0.5 * json.loads(RunFolder(tmp_path / "m").baselines.read_text())["frequency"]


def test_nearest_tokens_are_a_rotation_that_two_languages_share() -> None:
    """Tokens 0..9 are of one language, 10..19 of the other with the same vectors far away, 20 of both: each finds its
    twin, and what both have stays."""
    torch.manual_seed(0)
    vectors = torch.randn(10, 6)
    table = torch.cat((vectors + 5, vectors - 7, torch.randn(1, 6)))
    source = torch.tensor([1.0] * 10 + [0.0] * 10 + [1.0])
    target = torch.tensor([0.0] * 10 + [1.0] * 10 + [0.8])
    found = nearest_tokens(table, source, target)
    assert found[:10].tolist() == list(range(10, 20))
    assert found[20] == 20
    assert nearest_tokens(table, target, source)[10:].tolist() == [*range(10), 20]


@pytest.mark.parametrize(
    ("names", "more", "told"),
    [
        (["train.en", "plain.txt"], {}, "let the name of every file end in one"),
        (["train.en", "pairs.tsv"], {}, "plain files were expected"),
        (["train.en", "train.de"], {"data": {**DATA, "languages": ["en", "fr"]}}, "data.languages are en, fr"),
        (["train.en", "train.de"], {"data": {**DATA, "languages": ["en", "en"]}}, "twice; give each once"),
        (["train.en", "train.de"], {"data": {**DATA, "parallel_valid": True}, "valid": "val.en"}, "give two --valid"),
        (["train.en", "train.de"], {"data": {**DATA, "parallel_valid": True}, "valid": "gap.en"}, "leave out both"),
        (["train.en"], {"objective": "back_translation"}, "needs sentences of two languages"),
        (["train.en", "train.de"], {"objective": "translation"}, "cannot be asked of a transformer model"),
        (["train.en", "train.de"], {"architecture": "recurrent"}, "is no model of the task 'unpaired'"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    names: list[str], more: dict[str, Any], told: str, files: Path, tmp_path: Path
) -> None:
    for name, content in (("plain.txt", "a\nb\n"), ("pairs.tsv", "a\tb\n"), ("gap.en", "a\n\nb\n")):
        (files / name).write_text(content)
    valid = [files / more.pop("valid")] if "valid" in more else []
    settings = {"data": DATA, "model": MODEL, "training": TRAINING, "task": "unpaired", "quiet": True, **more}
    with pytest.raises(InputError, match=told):
        qkv.train(*(files / name for name in names), valid=valid, out=tmp_path / "m", **settings)


def test_lines_without_a_word_are_dropped_and_told(files: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "train.en").write_text((files / "train.en").read_text() + "\n  \n")
    assert [one.language for one in read_sentences([tmp_path / "train.en"])] == ["en"] * 62
    qkv.train(tmp_path / "train.en", task="unpaired", out=tmp_path / "m", data=DATA, model=MODEL, training=TRAINING)
    assert "2 lines had no word: dropped" in capsys.readouterr().err
