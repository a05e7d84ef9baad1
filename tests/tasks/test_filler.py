"""Filling in: each hole by itself and all together, against the model's own probabilities taken one by one."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import refused, stirred, tiny_model
from qkv.engines import filler as module
from qkv.engines.filler import Filler
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Headed
from qkv.tasks.fill import Fill, MaskedTextConfig
from qkv.text.tokenizer import BOS, EOS, UNK, Tokenizer

TOKENIZER = Tokenizer.train(["red cat dog"] * 3, kind="wordpiece", vocab_size=40, specials=["<mask>"])
MASK, SPECIALS = TOKENIZER.special("<mask>"), set(TOKENIZER.specials.values())
WORDS = [number for number in range(len(TOKENIZER)) if number not in SPECIALS]
ONE, TWO = "red <mask> dog", "<mask> cat red <mask>"


def fillers(batch_tokens: int = 4096, **how: Any) -> Filler:
    model = stirred(tiny_model("bert", vocab_size=len(TOKENIZER), layers=2, max_length=12), 0.3)
    task = Fill(MaskedTextConfig(batch_tokens=batch_tokens), type(model))
    return task.open(Loaded(how.get("model", model), TOKENIZER, {"task": "fill"}, None))


def distribution(filler: Filler, ids: list[int], place: int) -> Tensor:
    """What stands at a place, by a plain softmax over all tokens (V,)."""
    with torch.inference_mode():
        logits: Tensor = filler.backbone(torch.tensor([ids])).logits[0, place]
    return logits.softmax(dim=-1)


def framed(text: str) -> list[int]:
    return [BOS, *TOKENIZER.encode(text, specials=True), EOS]


def holes(text: str) -> list[int]:
    return [place for place, number in enumerate(framed(text)) if number == MASK]


def spelled(token: int) -> str:
    return TOKENIZER.decode([token])


@pytest.mark.parametrize("text", [ONE, TWO])
def test_each_hole_has_the_models_own_probabilities_of_words(text: str) -> None:
    """Of all words, the best first; what special tokens get is nobody else's."""
    filler = fillers()
    found, few = ([answer] if text == ONE else answer for answer in (filler.fill(text, 1000), filler.fill(text, 3)))
    assert [words[:3] for words in found] == few
    for place, words in zip(holes(text), found, strict=True):
        p = distribution(filler, framed(text), place)
        best = sorted(WORDS, key=lambda number: -p[number])
        assert [word["token"] for word in words] == [spelled(number) for number in best]
        assert [word["probability"] for word in words] == pytest.approx(p[best].tolist(), abs=1e-6)
        assert sum(word["probability"] for word in words) == pytest.approx(1 - p[[*SPECIALS]].sum().item(), abs=1e-5)


def test_the_text_has_the_word_and_the_other_holes() -> None:
    first, last = ({word["token"]: word["text"] for word in words} for words in fillers().fill(TWO, k=1000))
    assert (first["dog"], last["dog"]) == ("dog cat red <mask>", "<mask> cat red dog")
    assert {word["token"]: word["text"] for word in fillers().fill(ONE, k=1000)}["cat"] == "red cat dog"


def test_jointly_is_the_chain_rule_over_every_way() -> None:
    """A beam as wide as the vocabulary loses nothing: all pairs, by a loop of one model call for each first word."""
    filler, ids = fillers(), framed(TWO)
    first, last = holes(TWO)
    before = distribution(filler, ids, first)
    ways = dict[tuple[str, ...], float]()
    for a in WORDS:
        after = distribution(filler, [*ids[:first], a, *ids[first + 1 :]], last)
        ways |= {(spelled(a), spelled(b)): (before[a] * after[b]).item() for b in WORDS}
    found = filler.fill(TWO, k=len(WORDS), jointly=True)
    expected = sorted(ways.items(), key=lambda one: -one[1])[: len(WORDS)]
    assert [tuple(one["tokens"]) for one in found] == [tokens for tokens, _ in expected]
    assert [one["probability"] for one in found] == pytest.approx([p for _, p in expected], rel=1e-4)
    assert sum(ways.values()) <= 1
    assert found[0]["text"].split()[1:3] == ["cat", "red"]


def test_jointly_differs_from_the_best_of_each_where_they_depend_on_each_other() -> None:
    filler = fillers()
    apart = [words[0]["token"] for words in filler.fill(TWO, k=1)]
    together = filler.fill(TWO, k=50, jointly=True)
    product = math.prod(words[0]["probability"] for words in filler.fill(TWO, k=1))
    same = next(one for one in together if one["tokens"] == apart)
    assert same["probability"] != pytest.approx(product, rel=1e-3)


def test_one_hole_is_filled_alike_in_both_ways() -> None:
    filler = fillers()
    apart, jointly = filler.fill(ONE, k=4), filler.fill(ONE, k=4, jointly=True)
    assert [one["tokens"] for one in jointly] == [[one["token"]] for one in apart]
    assert [one["probability"] for one in jointly] == pytest.approx([one["probability"] for one in apart])


@pytest.mark.parametrize("jointly", [False, True])
def test_answers_are_the_same_in_any_batch(jointly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one batch, one row at a time, and with the probabilities of one hole in memory."""
    texts = [TWO, ONE, "<mask> <mask> <mask>", "<mask>", ONE]
    together, narrow = fillers().fill(texts, jointly=jointly), fillers(batch_tokens=1)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    assert len(together) == len(texts)
    for text, answer in zip(texts, together, strict=True):
        assert flat(narrow.fill(text, jointly=jointly)) == flat(answer)
    assert fillers().fill([], jointly=jointly) == []


def flat(answer: Any) -> list[Any]:
    """The words and numbers of an answer in one row, numbers to five digits."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, list):
        return list(itertools.chain.from_iterable(map(flat, answer)))
    return [pytest.approx(answer, abs=1e-5) if isinstance(answer, float) else answer]


def test_heads_on_the_backbone_change_nothing() -> None:
    """A model that was pre-trained with more than hidden words fills in with its backbone."""
    plain = fillers()
    assert fillers(model=Headed(plain.backbone, {"classes": "classes(n=2)"})).fill(ONE) == plain.fill(ONE)


@refused({
    "red cat": r"^'red cat' has no <mask>; write it where a word is to be filled in$",
    "<mask> " * 11: r"^'<mask> .*…' has 11 tokens, but the model reads 12 at once; give a shorter text$",
    "": r"^'' has no <mask>; write it",
})  # fmt: skip
def test_what_cannot_be_filled_is_refused(wrong: str) -> object:
    return fillers().fill([ONE, wrong])


def test_so_is_no_word_at_all_and_a_vocabulary_without_the_mask(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 words were asked for; ask for at least 1"):
        fillers().fill(ONE, k=0)
    words = Tokenizer.train(["red cat dog"] * 3, kind="wordpiece", vocab_size=40)
    model = tiny_model("bert", vocab_size=len(words))
    with pytest.raises(InputError, match="this vocabulary has no <mask>, only <pad>, <s>, </s>, <unk>"):
        Fill(MaskedTextConfig(), type(model)).open(Loaded(model, words, {}, None))


def test_unknown_letters_are_read_and_never_offered() -> None:
    found = fillers().fill("☃ <mask>", k=1000)
    assert UNK in framed("☃ <mask>")
    assert len(found) == len(WORDS)
