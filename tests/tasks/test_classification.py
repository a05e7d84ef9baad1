"""Labelled texts: their files, sentences and ids; the baselines; and that a run learns what decides."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import qkv
from corpora import CORPORA
from kit import real, refused, tokenizer, write
from qkv import folder
from qkv.data import Buckets, Place, each_row, generator
from qkv.errors import InputError
from qkv.evaluation import in_words
from qkv.folder import RunFolder
from qkv.models import GPT2, Hierarchical
from qkv.objectives import objective
from qkv.opening import score_files
from qkv.tasks import Corpus, Survey
from qkv.tasks.classify import Classify, LabelledConfig
from qkv.tasks.labels import bag_of_words, majority
from qkv.text import read_labelled
from qkv.text.labelled import sentences
from qkv.text.tokenizer import BOS, EOS, PAD

TOKENIZER = tokenizer("the film was good and bad and long")

# -- files -------------------------------------------------------------------------------------------------------------


def test_columns_are_named_or_two(tmp_path: Path) -> None:
    named, plain = tmp_path / "named.tsv.gz", tmp_path / "plain.tsv"
    named.write_bytes(gzip.compress(b"id\ttext\tlabel\n7\tA film.\tpos\n\n8\tNo film.\tneg\n"))
    plain.write_text("pos\tA film.\nneg\tNo film.\n")
    for path in (named, plain):
        assert [(one.label, one.text) for one in read_labelled([path])] == [("pos", "A film."), ("neg", "No film.")]
    assert [one.place for one in read_labelled([named])] == [f"{named} line 2", f"{named} line 4"]


@refused(
    {
        "pos\tgood\nneg\n": "line 2 has 1 cell where 2 were expected; give each line a label, a tab and a text",
        "label\tid\ttext\npos\tgood\n": "line 2 has 2 cells where 3 were expected",
        "\tgood\n": "line 1 has no label; give each line a label",
        "pos\t \n": "line 1 has no text; give each line a label",
        "pos\t|||\n": "line 1 has no text; give each line a label",
    },
    "content",
)
def test_a_bad_line_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "some.tsv"
    path.write_text(content)
    list(read_labelled([path]))


def test_sentences_are_those_that_the_data_marks_or_those_of_the_text() -> None:
    assert sentences("he said . . . ||| no ! stop . ||| ") == ["he said . . .", "no ! stop ."]
    assert sentences("He met Mr. Fox. It was good!") == ["He met Mr. Fox.", "It was good!"]
    assert sentences("so it ended <br> <br> i liked it") == ["so it ended", "i liked it"]


def test_real_reviews_are_read_whole() -> None:
    """The counts are those of the set's own description: 200 reviews, as many for as against."""
    path = real("movie-review-polarity", "valid.tsv.gz")
    documents = list(read_labelled([path]))
    assert len(documents) == 200
    assert sum(one.label == "pos" for one in documents) == 100
    raw = gzip.decompress(path.read_bytes()).decode()
    assert sum(len(sentences(one.text)) - 1 for one in documents) <= raw.count("|||")
    assert sum(len(sentences(one.text)) for one in documents) > 5000  # 30 sentences a review and more


# -- ids ---------------------------------------------------------------------------------------------------------------


def task_of(model: type[Any] = Hierarchical, **settings: Any) -> Classify:
    return Classify(LabelledConfig(vocab_size=300, **settings), model)


def facts_of(task: Classify, path: Path) -> dict[str, Any]:
    return task.facts(Survey(task, {"train": [path], "valid": [], "test": []}, path.parent, lambda _: None), TOKENIZER)


def test_long_sentences_are_cut_and_nothing_is_lost() -> None:
    text = "The film was good and long. It was bad."
    whole = task_of(max_words=1000).by_sentences(text, TOKENIZER)
    assert [TOKENIZER.decode(row) for row in whole] == ["the film was good and long.", "it was bad."]
    cut = task_of(max_words=3).by_sentences(text, TOKENIZER)
    assert max(map(len, cut)) == 3
    assert [word for row in cut for word in row] == [word for row in whole for word in row]
    assert task_of(max_words=3, max_sentences=2).by_sentences(text, TOKENIZER) == cut[:2]
    assert TOKENIZER.decode(task_of(lowercase=False).by_sentences(text, TOKENIZER)[0]) == "The film was good and long."


def test_a_row_is_the_words_of_all_sentences_their_lengths_and_the_label(tmp_path: Path) -> None:
    path, task = tmp_path / "some.tsv", task_of()
    path.write_text("neg\tthe film was bad. It was long.\npos\tgood\n")
    rows = task.encode(list(task.read([path])), TOKENIZER, facts_of(task, path))
    for text, label, (words, lengths, number) in zip(
        ("the film was bad. It was long.", "good"), (0, 1), rows, strict=True
    ):
        parts = task.by_sentences(text, TOKENIZER)
        assert [words[sum(lengths[:i]) :][:n] for i, n in enumerate(lengths)] == parts
        assert number == [label]


def test_a_backbone_reads_the_text_between_two_ends_as_far_as_it_can(tmp_path: Path) -> None:
    path, task = tmp_path / "some.tsv", task_of(GPT2)
    path.write_text("neg\tThe film was bad. It was long.\npos\tgood\n")
    facts = {**facts_of(task, path), "max_length": 6}
    (long, one), (short, two) = task.encode(list(task.read([path])), TOKENIZER, facts)
    assert long == [EOS, *TOKENIZER.encode("The film was bad. It was long.")[:4], EOS]
    assert short == [EOS, *TOKENIZER.encode("good"), EOS]
    assert (one, two) == ([0], [1])
    assert task.remarks() == ["1 text had more tokens than the model reads at once: cut"]


@pytest.mark.parametrize(("pool", "taken"), [("last", -1), ("first", 0), ("mean", slice(None))])
def test_what_stands_for_a_text_is_chosen(pool: Any, taken: Any) -> None:
    task = Classify(LabelledConfig(pool=pool), GPT2)
    config = GPT2.config_class(vocab_size=30, d_model=16, n_heads=2, layers=1, max_length=8, dropout=0.0)
    model = task.build(config, task.heads({"labels": ["neg", "pos"]})).eval()
    found = model(torch.tensor([[EOS, 7, 9, EOS]]))
    state = found.hidden[0, taken].view(-1, 16).mean(dim=0)
    torch.testing.assert_close(found.answer("classes")[0], model.heads["classes"].output(state))


def test_labels_must_be_known_and_more_than_one(tmp_path: Path) -> None:
    path, task = tmp_path / "some.tsv", task_of()
    path.write_text("pos\tgood\npos\tfine\n")
    with pytest.raises(InputError, match="every document has the label 'pos'; give documents of two classes or more"):
        facts_of(task, path)
    with pytest.raises(InputError, match=r"some.tsv line 1 has the label 'pos', which no training document has"):
        task.encode(list(task.read([path])), TOKENIZER, {"labels": ["bad", "good"]})


# -- the baselines -----------------------------------------------------------------------------------------------------


def test_the_majority_is_that_of_the_training_labels() -> None:
    assert majority([0, 1, 1], [0, 0, 1, 0]) == 0.25


def test_a_bag_of_words_is_a_logistic_regression() -> None:
    """Learned here once more, by Newton's method on a dense table: rows of length 1, C = 1, the bias not punished."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    rng = random.Random(1)
    documents = [[rng.randrange(12) for _ in range(6)] for _ in range(60)]
    labels = [int(3 in words or rng.random() < 0.2) for words in documents]
    new = [[rng.randrange(12) for _ in range(6)] for _ in range(40)]
    gold = [int(3 in words) for words in new]

    def table(rows: list[list[int]]) -> torch.Tensor:
        x = torch.zeros(len(rows), 13, dtype=torch.float64)
        x[:, 12] = 1  # the bias
        for row, words in zip(x, rows, strict=True):
            row[words] = len(set(words)) ** -0.5
        return x

    x, y, w = table(documents), torch.tensor(labels, dtype=torch.float64), torch.zeros(13, dtype=torch.float64)
    punished = torch.diag(torch.tensor([1.0] * 12 + [0.0], dtype=torch.float64))
    for _ in range(20):
        p = (x @ w).sigmoid()
        w -= torch.linalg.solve((x.T * (p * (1 - p))) @ x + punished, x.T @ (p - y) + punished @ w)
    expected = float(((table(new) @ w > 0).long() == torch.tensor(gold)).double().mean())
    assert bag_of_words(documents, labels, new, gold, vocab_size=12) == {"bag of words": expected}
    backwards = [words[::-1] * 2 for words in new]  # neither order nor number matters to it
    assert bag_of_words(documents, labels, backwards, gold, vocab_size=12) == {"bag of words": expected}
    assert expected > majority(labels, gold)


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


def test_a_run_learns_which_sentence_decides(command: Callable[..., Any], tmp_path: Path) -> None:
    """By the command line: it beats every baseline, and qkv predict then knows new documents."""
    (tmp_path / "train.tsv").write_text(lines(240, 1))
    (tmp_path / "valid.tsv").write_text(lines(60, 2))
    sizes = ["--model.d-embedding", "16", "--model.d-model", "16", "--model.dropout", "0", "--data.vocab-size", "330"]
    rate = ["--training.learning-rate", "0.02", "--training.average", "none", "--training.threads", "1"]
    trained = command(
        "train", "--task", "classify", "train.tsv", "--valid", "valid.tsv", "--data.batch-tokens", "800",
        "--epochs", "8", "--seed", "1", *sizes, *rate,
    )  # fmt: skip
    assert trained.code == 0, trained.err
    found = json.loads((tmp_path / "model" / "results.json").read_text())
    assert found["valid"]["accuracy"] > max(found["baselines"].values())
    assert found["valid"]["accuracy"] >= 0.95
    texts = ["actor bad . ||| verdict good . ||| actor bad .", "actor good . ||| actor good . ||| verdict bad ."]
    classifier = qkv.load(tmp_path / "model")
    assert [answer["label"] for answer in classifier.predict(texts)] == ["good", "bad"]
    assert [line.split("\t")[0] for line in command("predict", *texts).lines] == ["good", "bad"]
    assert sum(classifier.predict(texts[0])["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    silent = command("predict", " ")
    assert (silent.code, "a text without a word was given" in silent.err) == (1, True)


# -- beside other objectives -------------------------------------------------------------------------------------------


def test_long_texts_are_measured_alone_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = CORPORA["classify"]
    qkv.train(tiny.write(tmp_path), task="classify", out=tmp_path / "critic", **tiny.settings(steps=2))
    critic = qkv.load(tmp_path / "critic")
    texts = ["A film.", "It was good.", "It was long. " * 200, "It was bad and sad. " * 200, "A film. " * 180]
    found = [one["label"] for one in critic.predict(texts)]
    other = {"pos": "neg", "neg": "pos"}
    gold = [found[0], other[found[1]], found[2], other[found[3]], found[4]]
    lines = [f"{label}\t{text.strip()}\n" for label, text in zip(gold, texts, strict=True)]
    figures = score_files(tmp_path / "critic", write(tmp_path / "all.tsv", "".join(lines)))
    assert (figures["accuracy"], figures["long_accuracy"]) == pytest.approx((3 / 5, 2 / 3))
    assert "accuracy over 512 tokens 66.67 %" in in_words(figures)
    monkeypatch.setattr("qkv.tasks.classify.LONG", len(critic.tokenizer.encode(texts[4].strip())))
    assert score_files(tmp_path / "critic", tmp_path / "all.tsv")["long_accuracy"] == 1 / 2  # it has no more than that
    for some in (lines[:2], lines[2:4]):
        assert "long_accuracy" not in score_files(tmp_path / "critic", write(tmp_path / "some.tsv", "".join(some)))


def test_gpt_is_asked_for_words_beside_the_class(tmp_path: Path) -> None:
    """Radford et al. 2018, Eq. 5: L = L(classes) + 0.5 L(words), of texts as <s> text <cls>; by torch's own losses."""
    tiny = CORPORA["classify"]
    run = RunFolder(tmp_path / "model")
    sizes = {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 64, "dropout": 0.0}
    settings = {**tiny.settings(steps=4, validate_every=2), "model": sizes, "architecture": "gpt"}
    qkv.train(tiny.write(tmp_path), task="classify", out=run.out, objective="classes + 0.5 * causal_lm", **settings)
    loaded, corpus = folder.load(run.out), Corpus.open(run.corpus)
    start, end = BOS, corpus.tokenizer.special("<cls>")
    assert all(ids[0] == start and ids[-1] == end for ids, _ in each_row(corpus.train))
    both = objective("classes + 0.5 * causal_lm").knowing(corpus.tokenizer)
    batch = next(Buckets(corpus.train, tokens=100, seed=1).in_order())
    asked = both.prepare(batch, generator(1, Place()))
    outputs = loaded.model(**asked.inputs)
    ids, labels = batch.columns
    of_words = F.cross_entropy(outputs.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
    of_classes = F.cross_entropy(outputs.answer("classes"), labels[:, 0])
    torch.testing.assert_close(both.loss(outputs, asked).total / asked.count, of_classes + 0.5 * of_words)
    events = [json.loads(line) for line in run.log.read_text().splitlines()]
    assert {"accuracy", "classes_loss", "causal_lm_loss"} <= events[-1].keys() | events[-2].keys()
