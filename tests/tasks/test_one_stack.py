"""Pairs with one stack: from plain text, or from a BERT, to a model that translates, with the room that it has."""

from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from corpora import running_text
from kit import refused, save_untrained, some_pairs, tiny_model
from qkv import folder
from qkv.config import read_toml
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.folder import Loaded, RunFolder
from qkv.look.sentence import look_at
from qkv.models import UniLM
from qkv.opening import score_files
from qkv.tasks import TASKS, Corpus
from qkv.text.tokenizer import Tokenizer
from qkv.training.prepare import started
from qkv.training.settings import complete, read_settings

SMALL = {"d_model": 16, "n_heads": 2, "layers": 1, "dropout": 0.0}
QUIET: dict[str, Any] = {"quiet": True}
FEW = {"steps": 2, "epochs": 0.0, "threads": 1, "precision": "float32", "bleu_sentences": 2}
WAYS = (
    "2 * (masked_lm(unit='ngram') + next_sentence) | 2 * sequence_to_sequence_lm | left_to_right_lm | right_to_left_lm"
)
WORDS = Tokenizer.train(["the red cat sat on the old hill"] * 3, vocab_size=300, specials=("<mask>",))


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that read plain text in four ways."""
    out = tmp_path_factory.mktemp("read")
    texts = [running_text(8, seed) for seed in range(6)]
    qkv.train(texts=texts, task="fill", architecture="unilm", objective=WAYS, out=out, training=FEW,
              data={"vocab_size": 320, "window": 48, "batch_tokens": 200, "tokenizer": "bpe", "held_out": 1},
              model={**SMALL, "max_length": 48}, **QUIET)  # fmt: skip
    return out


@pytest.fixture(scope="module")
def translates(read: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("translates")
    pairs = [(source[:12], target[:12]) for source, target in some_pairs(40)]
    qkv.train(pairs=pairs, start=read, out=out, training=FEW, data={"batch_tokens": 200}, **QUIET)
    return out


def test_what_read_one_way_by_windows_is_measured_by_all_ways(tmp_path: Path) -> None:
    """As a comparison measures it: with the settings of its training, and by the objective of all rows."""
    texts = [running_text(8, seed) for seed in range(6)]
    qkv.train(texts=texts, task="fill", architecture="unilm", objective="left_to_right_lm", out=tmp_path,
              training=FEW, data={"vocab_size": 320, "window": 48, "batch_tokens": 200, "tokenizer": "bpe"},
              model={**SMALL, "max_length": 48}, **QUIET)  # fmt: skip
    settings = complete(read_settings(tmp_path / "training/recipe.toml"), "recipe")
    assert settings.data.rows == "windows"
    task: Any = TASKS["fill"](settings.data, UniLM)
    found = task.evaluate(
        folder.load(tmp_path), Corpus.open(RunFolder(tmp_path).corpus).valid_examples(task.example_class)
    )
    assert {"masked_lm_loss", "sequence_to_sequence_lm_loss", "left_to_right_lm_loss"} <= found.keys()
    assert found["loss"] > 0


def test_plain_text_and_then_pairs(read: Path, translates: Path) -> None:
    """Nothing but --start says what is trained: the model, its question and the lengths that fit are chosen."""
    assert len(qkv.load(read).fill("A dog <mask>", 3)) == 3
    settings = read_toml(translates / "training" / "recipe.toml")
    assert settings["architecture"] == "unilm"
    assert settings["objective"].startswith("masked_translation(rate=0.7")
    assert settings["data"]["max_length"] == (48 - 3) // 2
    assert settings["training"]["learning_rate"] == 3e-4  # as what has learned before is tuned
    translator = qkv.load(translates)
    alone, both = translator.translate("red cat"), translator.translate(["red cat", "the sun on a hill"], beam=2)
    assert alone.text == translator.translate(["moon", "red cat"])[1].text
    assert len(both) == 2
    test = translates / "test.tsv"
    test.write_text("red cat\ttac der\n", encoding="utf-8")
    assert 0 <= score_files(translates, test)["bleu"] <= 100


def test_what_it_looks_at_is_one_text_of_both_sides(translates: Path) -> None:
    seen = look_at(qkv.load(translates), "red", "der")
    assert seen.target == []
    n = len(seen.source)
    assert [seen.source[0], seen.source[-1]] == ["<s>", "</s>"]
    (weights,) = seen.of_kind("encoder")
    assert weights.shape == (2, n, n)
    end = seen.source.index("</s>") + 1
    assert not weights[:, :end, end:].any()  # the source sees no target
    assert not weights[:, end:, end:].triu(1).any()


def test_a_bert_begins_it(tmp_path: Path) -> None:
    """Its own settings stay: six segments, of which the first two are BERT's."""
    place = save_untrained(tmp_path / "bert", "bert", WORDS, {"task": "fill"}, max_length=64)
    asked, [start] = started({"task": "translate", "start": str(place)}, "")
    assert asked["architecture"] == "unilm"
    assert "segments" not in asked["model"]
    assert asked["model"]["max_length"] == 64
    model = UniLM(UniLM.config_class(**asked["model"], **UniLM.fitting(WORDS), vocab_size=len(WORDS)))
    taken, new = folder.start_from(model, start, "bert")
    assert new == ["4 rows of tokens.segments"]
    assert len(taken) == len(list(model.parameters()))
    segments = dict(start.model.named_parameters())["tokens.segments"]
    assert model.tokens.segments is not None
    assert torch.equal(model.tokens.segments[:2], segments)
    with pytest.raises(InputError, match="holds a bert model, and roberta was asked for"):
        started({"task": "fill", "start": str(place), "architecture": "roberta"}, "")


def of_lengths(**data: int) -> Any:
    kind = TASKS["translate"]
    return kind(kind.data_class(**data), UniLM)


def test_source_and_target_share_the_context() -> None:
    assert of_lengths(max_length=30, max_target=10).fitting({"max_length": 43}, WORDS, {})["max_length"] == 43
    assert of_lengths(max_length=30, max_target=10).longest == (31, 12)
    assert of_lengths(max_length=200).fitting({}, WORDS, {})["max_length"] == 403
    with pytest.raises(InputError, match=r"model\.max_length must be at least 43: source and target"):
        of_lengths(max_length=30, max_target=10).fitting({"max_length": 42}, WORDS, {})


def test_a_text_that_was_learned_whole_is_read_whole() -> None:
    """And what is too long leaves half of the context to write."""
    model = tiny_model("unilm", vocab_size=len(WORDS), max_length=40, mask_id=WORDS.special("<mask>")).eval()
    line = "The cat sat. The hill sat."
    assert Translator(model, WORDS, {}).translate(line, beam=1).sentences == 2
    whole = Translator(model, WORDS, {"whole_lines": True, "longest_source": 35})
    assert whole.longest == 20
    assert whole.limits([[5] * 10, [5] * 20]) == [28, 18]
    assert whole.translate(line, beam=1).sentences == 1
    assert whole.translate(line, beam=1, split=True).sentences == 2
    assert whole.translate("cat " * 30, beam=2).parts > 1


@refused({"left_to_right_lm": "read one way", "masked_lm | sequence_to_sequence_lm": "read one way"})
def test_a_model_that_reads_both_ways_alone_is_not_asked(wrong: str, tmp_path: Path) -> None:
    qkv.train(texts=["A dog runs. A cat sees it."] * 9, task="fill", objective=wrong, out=tmp_path, training=FEW,
              data={"vocab_size": 300, "documents": "lines", "held_out": 1}, model=SMALL, **QUIET)  # fmt: skip


def test_another_objective_is_refused_in_a_sentence(read: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the objective translation.* cannot be asked of a unilm model"):
        qkv.train(pairs=some_pairs(20), start=read, objective="translation", out=tmp_path / "t", training=FEW, **QUIET)


def test_the_whole_of_a_model_is_in_its_folder(translates: Path) -> None:
    loaded = folder.load(translates)
    assert isinstance(loaded, Loaded)
    assert isinstance(loaded.model, UniLM)
    assert loaded.model.config.mask_id == loaded.tokenizer.special("<mask>")
