"""Tags: where they are asked, long sentences in parts, the baseline, phrases, and CoNLL in and out."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from corpora import CORPORA
from kit import real, tokenizer
from qkv.errors import InputError
from qkv.evaluation import phrase_scores
from qkv.models import GPT2, Bert
from qkv.opening import score_files
from qkv.tasks.on_backbone import BackboneConfig
from qkv.tasks.tag import WORD, TagWords
from qkv.text import read_tagged
from qkv.text.examples import Tagged
from qkv.text.tokenizer import Tokenizer

BYTES = tokenizer("Ann Lee saw Rome and Oslo", size=290, kind="byte_bpe")
TOKENIZERS = [tokenizer("Ann Lee saw Rome and Oslo", size=290), BYTES]
FACTS: Any = {"labels": ["B-x", "I-x", "O"], "max_length": 12}


def task(model: type[Any] = Bert) -> TagWords:
    return TagWords(BackboneConfig(), model)


@pytest.mark.parametrize("words", TOKENIZERS)
def test_a_tag_stands_at_the_first_sub_word(words: Tokenizer) -> None:
    """A loop over the words, each taken by itself."""
    sentence = Tagged(["Ann", "Mulgrew", "saw"], ["B-x", "I-x", "O"], "")
    [[ids, first, tags]] = task().encode([sentence], words, {**FACTS, "max_length": 99})
    assert tags == [0, 1, 2]
    borders = [*first, len(ids) - 1]
    assert [words.decode(ids[a:b]).strip() for a, b in pairwise(borders)] == sentence.words


WORDS = st.lists(st.sampled_from(["Ann", "saw", "Rome", "Oslo", "Mulgrew", "x", "Llanfairpwllgwyngyll"]), min_size=1)


@pytest.mark.parametrize("words", TOKENIZERS)
@settings(max_examples=60, deadline=None)
@given(sentence=WORDS, most=st.integers(4, 20))
def test_a_long_sentence_is_read_in_parts_of_whole_words(words: Tokenizer, sentence: list[str], most: int) -> None:
    """Joined, the parts are the sentence; each fits, but for a word that alone does not; none could be longer."""
    reader, facts = task(), {**FACTS, "max_length": most}
    tags = [("O", "B-x")[len(word) % 2] for word in sentence]
    parts = reader.parts(Tagged(sentence, tags, "here"), words, facts)
    assert [word for part in parts for word in part.words] == sentence
    assert [tag for part in parts for tag in part.tags] == tags
    for part, (ids, first, _) in zip(parts, reader.encode(parts, words, facts), strict=True):
        assert len(ids) <= most
        assert len(first) == len(part.words)
        assert max(first) < len(ids) - 1
        size = len(words.encode_words(part.words)[0])
        assert size <= most - 2 or len(part.words) == 1
    assert bool(reader.remarks()) == (len(words.encode_words(sentence)[0]) > most - 2)


def test_the_phrases_of_parts_are_those_of_the_whole() -> None:
    answers = [
        {"words": ["Ann"], "tags": ["B-x"], "probabilities": [0.5], "phrases": []},
        {"words": ["Lee", "saw"], "tags": ["I-x", "O"], "probabilities": [0.25, 1.0], "phrases": []},
    ]
    assert task().joined(Tagged([], [], ""), answers) == {
        "words": ["Ann", "Lee", "saw"], "tags": ["B-x", "I-x", "O"], "probabilities": [0.5, 0.25, 1.0],
        "phrases": [{"type": "x", "text": "Ann Lee", "words": [0, 2]}],
    }  # fmt: skip


def test_where_tags_mark_phrases_there_may_be_none() -> None:
    silent = {"words": ["saw"], "tags": ["O"], "probabilities": [0.5]}
    assert task().joined(Tagged([], [], ""), [{**silent, "phrases": []}])["phrases"] == []
    assert "phrases" not in task().joined(Tagged([], [], ""), [silent])


def test_a_tag_of_another_set_is_refused() -> None:
    with pytest.raises(InputError, match="here has the tag 'B-y', which no training word has; did you mean 'B-x'"):
        task().encode([Tagged(["a"], ["B-y"], "here")], BYTES, FACTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ann Lee saw Rome.", "Ann Lee saw Rome ."),
        ("(Oslo, U.S.A) - don't!", "( Oslo , U.S.A ) - don't !"),
        ("@ann likes #rome, 3.5 times", "@ann likes #rome , 3.5 times"),
        ("München 東京", "München 東京"),
        ("already split , is kept", "already split , is kept"),
    ],
)
def test_signs_around_a_word_are_words(text: str, words: str) -> None:
    assert WORD.findall(text) == words.split()
    assert task(GPT2).question(text, "").words == words.split()
    assert task().question({"words": ["U.S.A."]}, "").words == ["U.S.A."]  # as they are given


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has learned to find names."""
    place, tiny = tmp_path_factory.mktemp("tagger"), CORPORA["tag"]
    how = tiny.settings(steps=60, learning_rate=0.01)
    how["model"] = {**tiny.model, "max_length": 16, "dropout": 0.0}
    qkv.train(tiny.write(place, 60, 1), valid=[tiny.write(place, 20, 2)], task="tag", out=place / "model", **how)
    return place / "model"


def test_figures_are_those_of_a_loop_over_predict(tagger: Path, tmp_path: Path) -> None:
    """Also where sentences are longer than the model reads."""
    examples = [*read_tagged([CORPORA["tag"].write(tmp_path, 10, 3)])]
    examples.append(Tagged(examples[0].words * 5, examples[0].tags * 5, ""))
    opened = qkv.load(tagger)
    assert len(opened.task.parts(examples[-1], opened.tokenizer, opened.about)) > 1
    content = "\n".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) for one in examples
    )
    (tmp_path / "all.conll").write_text(content)
    found = [opened.predict({"words": one.words})["tags"] for one in examples]
    gold = [one.tags for one in examples]
    expected, measured = phrase_scores(found, gold), score_files(tagger, tmp_path / "all.conll")
    for name in ("precision", "recall", "f1"):
        assert measured[name] == pytest.approx(getattr(expected, name))
    pairs = [(a, b) for ours, theirs in zip(found, gold, strict=True) for a, b in zip(ours, theirs, strict=True)]
    assert measured["accuracy"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert measured["f1"] > 0.9


def test_the_baseline_is_the_usual_tag_of_each_word(tagger: Path, tmp_path: Path) -> None:
    train, valid = (read_tagged([CORPORA["tag"].write(tmp_path, *how)]) for how in ((60, 1), (20, 2)))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in train:
        for word, tag in zip(one.words, one.tags, strict=True):
            counts[word][tag] += 1
    examples = list(valid)
    found = [[counts[word].most_common(1)[0][0] if word in counts else "O" for word in one.words] for one in examples]
    expected = phrase_scores(found, [one.tags for one in examples]).f1
    results = json.loads((tagger / "results.json").read_text())
    assert results["baselines"] == {"most frequent tag of each word": pytest.approx(expected)}


def test_conll_comes_out(tagger: Path, command: Callable[..., Any], tmp_path: Path) -> None:
    """As a file that is read again; as objects; an empty line gives no sentence."""
    texts = ["Ann Lee saw 7 Rome.", "", "Bo Kim saw 3 Oslo"]
    (tmp_path / "people.txt").write_text("\n".join(texts) + "\n")
    said = command("predict", "people.txt", "--model", tagger)
    (tmp_path / "out.conll").write_text(said.out)
    answers = qkv.load(tagger).predict([text for text in texts if text])
    read = [(one.words, one.tags) for one in read_tagged([tmp_path / "out.conll"])]
    assert read == [(one["words"], one["tags"]) for one in answers]
    assert answers[0]["tags"][:2] == ["B-person", "I-person"]
    assert answers[0]["phrases"][0] == {"type": "person", "text": "Ann Lee", "words": [0, 2]}
    objects = [json.loads(line) for line in command("predict", "people.txt", "--model", tagger, "--json").lines]
    assert objects == [answers[0], {}, answers[1]]


def test_names_are_coloured_for_people(tagger: Path) -> None:
    from qkv.cli.predict import coloured

    text = coloured(qkv.load(tagger).predict("Ann Lee saw 7 Rome"))
    assert text.plain == "Ann Lee (person) saw 7 Rome (place)"
    styles = {text.plain[span.start : span.end]: span.style for span in text.spans}
    assert styles["Ann"] == styles["Lee"] != styles["Rome"]
    assert "saw" not in styles
    plain = coloured({"words": ["dogs", "run"], "tags": ["NOUN", "VERB"], "probabilities": [1.0, 1.0]})
    assert plain.plain == "dogs/NOUN run/VERB"


def test_wnut_is_read_as_it_is() -> None:
    """The counts are those of the shared task's paper."""
    assert sum(1 for _ in task().read([real("wnut17-ner", "train.conll.gz")])) == 3394
    examples = list(task().read([real("wnut17-ner", "dev.conll")]))
    assert len(examples) == 1009
    assert {tag[2:] for one in examples for tag in one.tags} - {""} == {
        "person", "location", "group", "creative-work", "corporation", "product"
    }  # fmt: skip
