"""Models of several tasks that have learned nothing: what an attack needs is that they answer."""

from pathlib import Path

from kit import FACTS, save_untrained, save_untrained_task
from qkv.text.tokenizer import Tokenizer


def save_models(place: Path) -> list[Path]:
    """A translator, a language model, one that fills in and one that labels, in folders with these names."""
    words = Tokenizer.train(["the cat sat on the mat"] * 3, vocab_size=300, specials=["<mask>"])
    about = {"source": "en", "target": "de"}
    return [
        save_untrained(place / "mt", "transformer", words, about),
        save_untrained(place / "lm", "gpt2", words, {"task": "language_model"}),
        save_untrained(place / "bert", "bert", words, {"task": "fill"}),
        save_untrained_task(place / "critic", "pair", words, FACTS["pair"]),
    ]
