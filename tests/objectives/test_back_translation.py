"""Back-translation: the model writes the source of its own question, in the language that a mark names."""

from typing import Any

import pytest
import torch

from kit import batch, tiny_model
from qkv.errors import InputError
from qkv.models import Transformer
from qkv.objectives import objective
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

TOKENIZER = Tokenizer.train(["two dogs play in the snow"] * 3, vocab_size=290, specials=["<mask>", "<en>", "<de>"])
EN, DE = TOKENIZER.special("<en>"), TOKENIZER.special("<de>")
ROWS = [[EN, 270, 271, 272, EOS], [DE, 273, 274, EOS], [EN, 275, EOS]]


@pytest.fixture(scope="module")
def model() -> Transformer:
    made = tiny_model("transformer", vocab_size=len(TOKENIZER), max_length=40, dropout=0.3)
    assert isinstance(made, Transformer)
    return made.train()


def ask(model: Transformer, rows: list[list[int]], text: str = "back_translation", seed: int = 1) -> Any:
    known = objective(text).knowing(TOKENIZER, model.inputs()).with_model(model)
    return known.prepare(batch(*[(row,) for row in rows]), torch.Generator().manual_seed(seed))


def written(asked: Any) -> list[list[int]]:
    """What was written for each row, without its mark and its padding."""
    return [[token for token in row[1:] if token != PAD] for row in asked.inputs["src"].tolist()]


def test_the_question_is_the_sentence_given_its_translation(model: Transformer) -> None:
    asked = ask(model, ROWS)
    src, tgt = asked.inputs["src"], asked.inputs["tgt"]
    assert src[:, 0].tolist() == [EN, DE, EN]  # what is to be written now: the sentence
    assert tgt.tolist() == [[BOS, EN, 270, 271, 272], [BOS, DE, 273, 274, EOS], [BOS, EN, 275, EOS, PAD]]
    assert asked.labels.tolist() == [[EN, 270, 271, 272, EOS], [DE, 273, 274, EOS, PAD], [EN, 275, EOS, PAD, PAD]]
    assert asked.count == 12
    assert not src.requires_grad
    for row in written(asked):
        assert row[-1] == EOS
        assert not set(row[:-1]) & set(TOKENIZER.specials.values())


def test_the_translation_is_what_greedy_search_finds_after_the_mark(model: Transformer) -> None:
    """In the other language, by the weights as they are, without dropout; each row read by itself, all at once."""
    found = written(ask(model, ROWS))
    assert model.training
    model.eval()
    for row, other, ids in zip(ROWS, (DE, EN, DE), found, strict=True):
        tokens = [BOS, other]
        while len(tokens) - 2 < len(ids) - 1:
            logits = model(torch.tensor([[other, *row[1:]]]), torch.tensor([tokens])).logits[0, -1]
            silent = [number for number in TOKENIZER.specials.values() if number != EOS]
            logits[silent] = -torch.inf
            tokens.append(int(logits.argmax()))
        assert tokens[2:] == ids[:-1]
    model.train()


def test_a_translation_ends_after_so_many_tokens_at_the_latest(model: Transformer) -> None:
    """1.3 times the longest row and 5 more; or what the model can read."""
    with torch.no_grad():
        before = model.vocabulary.weight[EOS].clone()
        model.vocabulary.weight[EOS] = 0.0
        longest = max(len(row) for row in written(ask(model, ROWS)))
        model.vocabulary.weight[EOS] = before
    assert longest <= int(1.3 * 5) + 5


def test_among_three_languages_another_one_is_drawn() -> None:
    tokenizer = Tokenizer.train(["two dogs"] * 3, vocab_size=280, specials=["<mask>", "<en>", "<de>", "<fr>"])
    marks = [tokenizer.special(f"<{code}>") for code in ("en", "de", "fr")]
    model = tiny_model("transformer", vocab_size=len(tokenizer), max_length=40)
    seen: list[tuple[int, int]] = []

    def start(given: torch.Tensor) -> Any:
        seen.extend(zip([0, 1, 2] * 20, given[:, 0].tolist(), strict=True))
        return type(model).start(model, given)  # type: ignore[attr-defined]

    model.start = start  # type: ignore[assignment, method-assign]
    known = objective("back_translation").knowing(tokenizer).with_model(model)
    known.prepare(batch(*[([mark, 270, EOS],) for mark in marks] * 20), torch.Generator().manual_seed(1))
    drawn = {own: {marks.index(other) for number, other in seen if number == own} for own in range(3)}
    assert drawn == {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}


@pytest.mark.parametrize("text", ["mass | back_translation", "back_translation + 0.5 * back_translation"])
def test_a_choice_and_a_sum_hand_the_model_on(model: Transformer, text: str) -> None:
    asked = [ask(model, ROWS, text, seed) for seed in range(6)]
    assert all(model(**one.inputs).hidden.isfinite().all() for one in asked)


@pytest.mark.parametrize("specials", [["<mask>"], ["<mask>", "<en>"]])
def test_a_vocabulary_of_one_language_is_refused(specials: list[str]) -> None:
    tokenizer = Tokenizer.train(["two dogs"] * 3, vocab_size=280, specials=specials)
    with pytest.raises(InputError, match="needs sentences of two languages"):
        objective("back_translation").knowing(tokenizer)
