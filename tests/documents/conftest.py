"""Translators to try documents with: made-up ones whose answers can be checked, and real models."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import kit
from kit import DIGITS, teach
from qkv.decoding import Translated, Translator
from qkv.decoding.translator import Scored
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import Translation
from qkv.text.tokenizer import BOS, EOS

Change = Callable[[str], str]


class MadeUp:
    """Changes each text by a rule; counts how often it is asked, and what."""

    def __init__(self, change: Change) -> None:
        self.change, self.calls = change, []
        self.about = {"source": "en", "target": "de"}

    def translate(self, texts: Sequence[str], **how: Any) -> list[Translated]:
        self.calls.append(list(texts))
        changed = [self.change(text) for text in texts]
        return [Translated(text, 0.0, [Scored(text, 0.0)] * int(how.get("n_best", 1))) for text in changed]


RULES: dict[str, Change] = {
    "upper": str.upper,  # loses nothing: numbers that stand for placeholders come back
    "reverse": lambda text: " ".join(text.split()[::-1]),
    "no numbers": lambda text: re.sub(r"\d+", "", text).upper(),  # loses all
    "double": lambda text: f"{text} {text}",
    "one word": lambda text: "Ja",
    "lines": lambda text: f" {text}\n\n",
    "nothing": lambda text: "",
}


@pytest.fixture
def upper() -> MadeUp:
    return MadeUp(str.upper)


@pytest.fixture(params=RULES)
def any_rule(request: pytest.FixtureRequest) -> MadeUp:
    return MadeUp(RULES[request.param])


@pytest.fixture
def made_up() -> type[MadeUp]:
    return MadeUp


@pytest.fixture
def both() -> Callable[[str], tuple[str, str]]:
    """An annotated file -> the file before and after `upper`: «text» is translated, ⟦text⟧ is only in the second."""

    def split(annotated: str) -> tuple[str, str]:
        before = re.sub(r"⟦.*?⟧", "", annotated, flags=re.DOTALL)
        after = re.sub(r"«(.*?)»", lambda match: match[1].upper(), annotated, flags=re.DOTALL)
        return re.sub("[«»]", "", before), re.sub("[⟦⟧]", "", after)

    return split


NAMES, LETTERS = DIGITS[:8], "ABCDEFGH"
SIZES = {"d_model": 32, "d_ff": 64, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
ABOUT: dict[str, object] = {"source": "en", "target": "de", "longest_source": 40}


@pytest.fixture(scope="session")
def babbler() -> Translator:
    """A real Transformer with random weights, which says anything at all."""
    tokenizer = kit.tokenizer(*NAMES, "the cat {sat} on %s")
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(vocab_size=len(tokenizer), max_length=64, tied="none", output_bias=True, **SIZES)
    )
    with torch.no_grad():
        model.vocabulary.bias[EOS] = 2.0
    return Translator(model, tokenizer, ABOUT)


@pytest.fixture(scope="session")
def backwards() -> Translator:
    """A real Transformer that has learned to name letters, the last first: "A B C" -> "two one zero"."""
    tokenizer = kit.tokenizer(*NAMES, *LETTERS, size=400)
    source, target = (torch.tensor([tokenizer.encode(word) for word in words])[:, 0] for words in (LETTERS, NAMES))
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=len(tokenizer), max_length=64, position="learned", **SIZES))
    optimiser, objective = torch.optim.Adam(model.parameters()), Translation(label_smoothing=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=250)
    start, end = torch.full((32, 1), BOS), torch.full((32, 1), EOS)
    for _ in range(250):
        digits = torch.rand(32, len(NAMES)).argsort(dim=1)[:, : int(torch.randint(1, 5, ()))]
        tgt = torch.cat((start, target[digits.flip(1)], end), dim=1)
        teach(model, optimiser, torch.cat((source[digits], end), dim=1), tgt, objective)
        schedule.step()
    return Translator(model, tokenizer, ABOUT)
