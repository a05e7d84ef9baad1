"""The figures that a model is measured by: what each is called, how its numbers are written, and which way is up."""

from collections.abc import Mapping
from typing import NamedTuple


class Figure(NamedTuple):
    """What a figure is called, what one stands for, and how many digits are worth writing."""

    title: str
    unit: float
    digits: int
    after: str = ""
    lower: bool = False  # whether less is better
    beside: bool = False  # whether it is of something simple beside the model, whichever that is

    def text(self, value: float) -> str:
        return f"{value / self.unit:,.{self.digits}f}"


FIGURES = {
    "parameters": Figure("parameters", 1e6, 2, " M"),
    "loss": Figure("loss", 1, 3, lower=True),
    "mean": Figure("mean of the parts", 0.01, 2, " %"),
    "perplexity": Figure("perplexity", 1, 2, lower=True),
    "word_perplexity": Figure("perplexity by word", 1, 2, lower=True),
    "causal_lm_perplexity": Figure("perplexity of the texts", 1, 2, lower=True),  # of an auxiliary language model
    "bits_per_character": Figure("bits by character", 1, 3, lower=True),
    "bleu": Figure("BLEU", 1, 2),
    "bleu_back": Figure("BLEU back", 1, 2),
    "word_by_word": Figure("BLEU word by word", 1, 2),
    "word_by_word_back": Figure("BLEU word by word back", 1, 2),
    "rouge_1": Figure("ROUGE-1", 1, 2),
    "rouge_2": Figure("ROUGE-2", 1, 2),
    "rouge_l": Figure("ROUGE-L", 1, 2),
    **{
        f"{key}_rouge_{n}": Figure(f"{what} sentence ROUGE-{n.upper()}", 1, 2, beside=True)
        for key, what in {"lead": "first", "cut": "cut first", "oracle": "best"}.items()
        for n in "12l"
    },
    "accuracy": Figure("accuracy", 0.01, 2, " %"),
    "long_accuracy": Figure("accuracy over 512 tokens", 0.01, 2, " %"),
    "macro_f1": Figure("macro-F1", 0.01, 2, " %"),
    "mcc": Figure("Matthews correlation", 1, 3),
    "pearson": Figure("Pearson correlation", 1, 3),
    "spearman": Figure("Spearman correlation", 1, 3),
    "precision": Figure("precision", 0.01, 2, " %"),
    "recall": Figure("recall", 0.01, 2, " %"),
    "exact_match": Figure("exact match", 0.01, 2, " %"),
    "f1": Figure("F1", 0.01, 2, " %"),
    "stage_steps": Figure("steps of its stages", 1, 0),
    "stage_minutes": Figure("minutes of its stages", 1, 1, lower=True),
    "training_speed": Figure("training tokens/s", 1, 0),
    "example_speed": Figure("training examples/s", 1, 0),
    "decoding_speed": Figure("decoding tokens/s", 1, 0),
    "peak_memory": Figure("peak memory", 1e6, 0, " MB", lower=True),
}


def figure(name: str) -> Figure | None:
    """A known figure; or, of a part of a mixture, "rte.accuracy", that one with the part's name in its title."""
    part, _, own = name.rpartition(".")
    known = FIGURES.get(own)
    return known._replace(title=f"{part} {known.title}") if known and part else known


def is_of_part(name: str) -> bool:
    """Whether a figure says what one part of a mixture is worth: rte.accuracy, but no loss."""
    return "." in name and not name.endswith(".loss")


def better(name: str, value: float) -> float:
    """A number that is larger the better the figure is."""
    return -value if FIGURES[name].lower else value


def in_words(figures: Mapping[str, float]) -> str:
    """All known figures for people: "loss 0.412, accuracy 87.00 %"."""
    names = [*(name for name in FIGURES if name in figures), *(name for name in figures if "." in name)]
    known = [(one, figures[name]) for name in names if (one := figure(name))]
    return ", ".join(f"{one.title} {one.text(value)}{one.after}" for one, value in known)
