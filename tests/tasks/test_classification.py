"""Documents: their files, sentences and ids; the objective; the baselines; and that a run learns what decides."""

import gzip
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from qkv.objectives.classification import Classification, DocumentBatch
from qkv.tasks.classification import Classify, DocumentConfig

from qkv import cli, tasks
from qkv.errors import InputError
from qkv.tasks import baselines
from qkv.text import read_labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import Tokenizer

DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[3] / "shared" / "data"))

# -- files -------------------------------------------------------------------------------------------------------------


def test_columns_are_named_or_two(tmp_path: Path) -> None:
    named, plain = tmp_path / "named.tsv.gz", tmp_path / "plain.tsv"
    named.write_bytes(gzip.compress(b"id\ttext\tlabel\n7\tA film.\tpos\n\n8\tNo film.\tneg\n"))
    plain.write_text("pos\tA film.\nneg\tNo film.\n")
    for path in (named, plain):
        assert [(one.label, one.text) for one in read_labelled([path])] == [("pos", "A film."), ("neg", "No film.")]
    assert [one.place for one in read_labelled([named])] == [f"{named} line 2", f"{named} line 4"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("pos\tgood\nneg\n", "line 2 has 1 cells where 2 were expected; give each line a label, a tab and a text"),
        ("label\tid\ttext\npos\tgood\n", "line 2 has 2 cells where 3 were expected"),
        ("\tgood\n", "line 1 has no label; give each line a label"),
        ("pos\t \n", "line 1 has no text; give each line a label"),
        ("pos\t|||\n", "line 1 has no text; give each line a label"),
    ],
)
def test_a_bad_line_is_named(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "some.tsv"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        list(read_labelled([path]))
    assert told in str(error.value)


def test_sentences_are_those_that_the_data_marks_or_those_of_the_text() -> None:
    assert sentences("he said . . . ||| no ! stop . ||| ") == ["he said . . .", "no ! stop ."]
    assert sentences("He met Mr. Fox. It was good!") == ["He met Mr. Fox.", "It was good!"]
    assert sentences("so it ended <br> <br> i liked it") == ["so it ended", "i liked it"]


@pytest.mark.skipif(not (DATA / "movie-review-polarity").exists(), reason="the movie reviews are not at hand")
def test_real_reviews_are_read_whole() -> None:
    """The counts are those of the set's own description: 200 reviews, as many for as against."""
    path = DATA / "movie-review-polarity" / "valid.tsv.gz"
    documents = list(read_labelled([path]))
    assert len(documents) == 200
    assert sum(one.label == "pos" for one in documents) == 100
    raw = gzip.decompress(path.read_bytes()).decode()
    assert sum(len(sentences(one.text)) - 1 for one in documents) <= raw.count("|||")
    assert sum(len(sentences(one.text)) for one in documents) > 5000  # 30 sentences a review and more


# -- ids and batches ---------------------------------------------------------------------------------------------------


def task_of(**settings: Any) -> Classify:
    return Classify(DocumentConfig(vocab_size=300, **settings))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["the film was good and bad and long"], vocab_size=300)


def test_long_sentences_are_cut_and_nothing_is_lost(tokenizer: Tokenizer) -> None:
    text = "The film was good and long. It was bad."
    whole = task_of(max_words=1000).ids(text, tokenizer)
    assert [tokenizer.decode(row) for row in whole] == ["the film was good and long.", "it was bad."]
    cut = task_of(max_words=3).ids(text, tokenizer)
    assert max(map(len, cut)) == 3
    assert [word for row in cut for word in row] == [word for row in whole for word in row]
    assert task_of(max_words=3, max_sentences=2).ids(text, tokenizer) == cut[:2]
    assert tokenizer.decode(task_of(lowercase=False).ids(text, tokenizer)[0]) == "The film was good and long."


def test_a_batch_is_its_documents_padded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, task = tmp_path / "some.tsv", task_of()
    path.write_text("neg\tthe film was bad. It was long.\npos\tgood\n")
    documents = list(task.read(path))
    encoded = task.encode(documents, tokenizer, task.facts(documents))
    batch = task.collate(encoded, np.array([4, 2]))
    assert batch.labels.tolist() == [0, 1]
    assert batch.pairs.tolist() == [4, 2]
    for row, one in zip(batch.documents, encoded, strict=True):
        assert [sentence[sentence != 0].tolist() for sentence in row if sentence.any()] == one.sentences
        assert task.size(one) == (int((row != 0).sum()),)


def test_labels_must_be_known_and_more_than_one(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, task = tmp_path / "some.tsv", task_of()
    path.write_text("pos\tgood\npos\tfine\n")
    documents = list(task.read(path))
    with pytest.raises(InputError, match="every document has the label 'pos'; give documents of two classes or more"):
        task.facts(documents)
    with pytest.raises(InputError, match=r"some.tsv line 1 has the label 'pos', which no training document has"):
        task.encode(documents, tokenizer, {"labels": ["bad", "good"]})


# -- the objective and the baselines -----------------------------------------------------------------------------------


def test_the_loss_is_the_papers() -> None:
    """Eq. 12, by hand: logits 0 and log 3 give the probabilities 1/4 and 3/4."""
    logits, labels = torch.tensor([[0.0, np.log(3)]] * 3), torch.tensor([1, 0, 1])
    loss = Classification().loss(logits, labels)
    assert float(loss.total) == pytest.approx(-2 * np.log(3 / 4) - np.log(1 / 4))
    assert (float(loss.parts["accuracy"]), loss.tokens, Classification().count(labels)) == (2, 3, 3)
    smoothed = Classification(label_smoothing=0.2).loss(logits[:1], labels[:1])
    assert float(smoothed.total) == pytest.approx(-0.9 * np.log(3 / 4) - 0.1 * np.log(1 / 4))
    batch = DocumentBatch(torch.ones(3, 1, 1), labels, np.arange(3))
    assert Classification().prepare(batch.to(torch.device("cpu")))[1].tolist() == [1, 0, 1]


def test_the_majority_is_that_of_the_training_labels() -> None:
    assert baselines.majority([0, 1, 1], [0, 0, 1, 0]) == 0.25


def test_a_bag_of_words_is_a_logistic_regression() -> None:
    """At its optimum the gradient is zero: sum of x (p - y) + decay W = 0, written out with a dense table."""
    rng = random.Random(1)
    documents = [[rng.randrange(12) for _ in range(6)] for _ in range(30)]
    labels = [int(3 in words) for words in documents]
    x = torch.zeros(30, 12)
    for row, words in zip(x, documents, strict=True):
        row[words] = len(set(words)) ** -0.5
    found = baselines.Occurrences(documents)
    w = torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found @ w, x @ w)
    assert baselines.bag_of_words(documents, labels, documents, labels, vocab_size=12, decay=0.01) == 1.0
    shuffled = [words[::-1] for words in documents]  # order does not matter to it
    assert baselines.bag_of_words(documents, labels, shuffled, labels, vocab_size=12, decay=0.01) == 1.0
    heavy = baselines.bag_of_words(documents, labels, documents, labels, vocab_size=12, decay=1e6)
    assert heavy == pytest.approx(max(labels.count(0), labels.count(1)) / 30)  # W is 0: the majority is left


# -- a whole run -------------------------------------------------------------------------------------------------------


def lines(count: int, seed: int) -> str:
    """Three sentences; the one that begins with "verdict" tells the label, the others say good and bad at random, so
    that a bag of words cannot know."""
    rng, made = random.Random(seed), []
    for number in range(count):
        label = rng.choice(["good", "bad"])
        noise = [f"actor {rng.choice(['good', 'bad'])} ." for _ in range(2)]
        parts = rng.sample([f"verdict {label} .", *noise], 3)
        made.append(f"{label}\t{' ||| '.join(parts)} ||| number {number} .\n")
    return "".join(made)


def test_a_run_learns_which_sentence_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line: it beats every baseline, and qkv predict then knows new documents."""
    (tmp_path / "train.tsv").write_text(lines(240, 1))
    (tmp_path / "valid.tsv").write_text(lines(60, 2))
    monkeypatch.chdir(tmp_path)

    def qkv(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["qkv", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return int(stopped.value.code or 0)

    sizes = ["--model.d-embedding", "16", "--model.d-model", "16", "--model.dropout", "0", "--data.vocab-size", "330"]
    rate = ["--training.learning-rate", "0.02", "--training.average", "none", "--training.threads", "1"]
    assert qkv("train", "--task", "classify", "train.tsv", "--valid", "valid.tsv", "--data.batch-tokens", "800",
               "--epochs", "8", "--seed", "1", *sizes, *rate) == 0  # fmt: skip
    found = json.loads((tmp_path / "model" / "results.json").read_text())
    assert found["valid"]["accuracy"] > max(found["baselines"].values())
    assert found["valid"]["accuracy"] >= 0.95
    capsys.readouterr()
    texts = ["actor bad . ||| verdict good . ||| actor bad .", "actor good . ||| actor good . ||| verdict bad ."]
    assert qkv("predict", *texts) == 0
    assert capsys.readouterr().out.splitlines() == ["good", "bad"]
    [answer, _] = tasks.predict(tmp_path / "model", texts)
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    assert qkv("predict", " ") == 1
    assert "a text without a word was given" in capsys.readouterr().err
    assert qkv("translate", "x", "--model", "model") == 1
    assert "holds a model of the task 'classify', no translator" in capsys.readouterr().err
