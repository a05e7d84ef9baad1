"""Embedding: the vector of a text is what its definition says, whatever stands beside it and whatever opens it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from kit import TEXTS, refused, save_untrained, tiny_model, tokenizer
from qkv import folder
from qkv.engines.embedder import nearness
from qkv.look.cost import Meter
from qkv.models import Headed
from qkv.opening import score_files
from qkv.tasks import Embedder
from qkv.text.tokenizer import BOS, EOS

WORDS = tokenizer(*TEXTS, size=300, kind="wordpiece")
SENTENCES = [
    *TEXTS,
    "snow",
    "",
    " ".join(TEXTS),
    "two dogs play in the snow",
    *(f"a man {n}" * n for n in range(1, 40)),
]
LONGEST = 50


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bert") / "bert"
    return save_untrained(place, "bert", WORDS, {"task": "fill"}, layers=2, max_length=LONGEST)


def described(bert: Path, place: Path, **about: Any) -> Path:
    """The same model in a folder that says more of itself."""
    loaded = folder.load(bert)
    folder.save(place, loaded.model, loaded.tokenizer, {**loaded.about, "task": "embed", **about})
    return place


def by_hand(bert: Path, text: str, pool: str, most: int = LONGEST) -> np.ndarray[Any, Any]:
    """The states of one text alone, and the definition of each kind of pooling."""
    ids = [BOS, *WORDS.encode(text)[: most - 2], EOS]
    with torch.no_grad():
        states: Any = folder.load(bert).model.encode(torch.tensor([ids]))[0].numpy()  # type: ignore[operator]
    return {"mean": sum(states) / len(ids), "first": states[0], "last": states[-1]}[pool]


@pytest.mark.parametrize("pool", ["mean", "first", "last"])
def test_the_vector_is_the_pooled_states_whatever_the_batch(bert: Path, pool: str) -> None:
    found = qkv.load(bert, task="embed", pool=pool).embed(SENTENCES)
    assert found.shape == (len(SENTENCES), 16)
    assert found.dtype == np.float32
    for text, vector in zip(SENTENCES, found, strict=True):
        np.testing.assert_allclose(vector, by_hand(bert, text, pool), atol=1e-6)


def test_a_hundred_thousand_tokens_are_read_at_once(tmp_path: Path) -> None:
    """Through a window, with no matrix of all pairs and memory that grows with the length alone: so many numbers of 4
    bytes for each token as one needs for some tokens, and all pairs would be 40 GB."""
    how = {"layers": 1, "attention": "window(radius=32)", "position": "rotary", "max_length": 2**17}
    embedder = qkv.load(save_untrained(tmp_path / "long", "bert", WORDS, {"task": "embed"}, **how))
    held = {}
    for count in (10_000, 100_000):
        with Meter() as watched:
            vector = embedder.embed("snow " * count)
        held[count] = watched.bytes
        assert vector.shape == (16,)
        assert np.isfinite(vector).all()
    assert len(WORDS.encode("snow " * 99)) == 99
    assert held[100_000] < 11 * held[10_000] < 2**30


def test_one_text_a_list_and_any_order_give_the_same(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = qkv.load(bert, task="embed")
    together = embedder.embed(SENTENCES)
    alone = embedder.embed(SENTENCES[0])
    assert alone.shape == (16,)
    np.testing.assert_allclose(alone, together[0], atol=1e-6)
    np.testing.assert_allclose(embedder.embed(SENTENCES[::-1])[::-1], together, atol=1e-6)
    monkeypatch.setattr("qkv.engines.embedder.CELLS", 64)
    np.testing.assert_allclose(embedder.embed(SENTENCES), together, atol=1e-6)
    assert embedder.embed([]).shape == (0, 16)


def test_a_folder_says_how_it_is_pooled_and_may_be_overruled(bert: Path, tmp_path: Path) -> None:
    place = described(bert, tmp_path / "own", pool="first", normalise=True, max_length=8)
    embedder = qkv.load(place)
    assert isinstance(embedder, Embedder)
    for text in SENTENCES[:6]:
        expected = by_hand(bert, text, "first", 8)
        np.testing.assert_allclose(embedder.embed(text), expected / math.sqrt(expected @ expected), atol=1e-6)
    other = qkv.load(place, pool="last", normalise=False)
    np.testing.assert_allclose(other.embed(TEXTS[0]), by_hand(bert, TEXTS[0], "last", 8), atol=1e-6)


def test_what_is_too_long_is_cut_and_counted(bert: Path) -> None:
    embedder = qkv.load(bert, task="embed")
    long = " ".join(TEXTS * 5)
    embedder.embed([long, "snow", long])
    assert embedder.cut == 2
    first = WORDS.encode(long)[: LONGEST - 2]
    np.testing.assert_allclose(embedder.embed(long), embedder.vectors([[BOS, *first, EOS]])[0], atol=1e-6)


@pytest.mark.parametrize("name", ["gpt2", "roberta", "transformer_encoder"])
def test_any_backbone_can_be_asked_and_one_with_heads_too(name: str, tmp_path: Path) -> None:
    model = tiny_model(name, vocab_size=len(WORDS)).eval()
    folder.save(tmp_path / "plain", model, WORDS, {"task": "classify"})
    folder.save(tmp_path / "headed", Headed(model, {"classes": "classes(n=2)"}), WORDS, {"task": "classify"})  # type: ignore[arg-type]
    plain, headed = (qkv.load(tmp_path / place, task="embed").embed(TEXTS) for place in ("plain", "headed"))
    np.testing.assert_array_equal(plain, headed)


def test_nearness_is_the_cosine() -> None:
    found = nearness(np.float32([[3, 4], [-4, 3], [-6, -8], [0, 0]]), np.float32([6, 8]))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, [1, 0, -1, 0], atol=1e-6)


@refused({
    "task": "a recurrent of the task 'translate' cannot do the task 'embed'; give one with a backbone",
    "fill": "a recurrent of the task 'translate' cannot do the task 'fill'; train one for it",
    "unknown": "of a task 'embde', which this qkv does not have; did you mean 'embed'",
    "pool": "pool='men' is none of last, first, mean, concat; did you mean 'mean'",
    "option": "no option 'beam' for .*; known: engine, normalise, pool",
    "score": "of the task 'embed', which has no right answers to score; use: qkv embed",
    "about": "pool: Input should be 'last', 'first', 'mean' or 'concat'",
    "length": "data.max_length is 90, but the model's context is 50 tokens",
})  # fmt: skip
def test_what_cannot_be_opened_is_refused(wrong: str, bert: Path, tmp_path: Path) -> None:
    if wrong in ("task", "fill"):
        save_untrained(tmp_path / "x", "recurrent", WORDS, {})
        qkv.load(tmp_path / "x", task={"task": "embed"}.get(wrong, wrong))
    asked: dict[str, Any] = {"unknown": {"task": "embde"}, "pool": {"pool": "men"}, "option": {"beam": 2}}.get(
        wrong, {}
    )
    said: dict[str, Any] = {"about": {"pool": "cls"}, "length": {"max_length": 90}}.get(wrong, {})
    place = described(bert, tmp_path / "own", **said)
    if wrong == "score":
        score_files(place, "x.tsv")
    qkv.load(place, **asked)
