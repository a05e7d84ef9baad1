"""Tiny models, trained in a few seconds: one knows some words, others next to nothing; and servers in this process."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

import qkv
from kit import pad, save_untrained, teach
from qkv import Translator, folder
from qkv.models import Transformer, TransformerConfig
from qkv.opening import load_translator
from qkv.serving import Models, Service, make_app
from qkv.text.tokenizer import BOS, EOS, Tokenizer

WORDS = {
    "dog": "Hund", "cat": "Katze", "house": "Haus", "tree": "Baum", "snow": "Schnee", "child": "Kind", "red": "rot",
    "old": "alt", "runs": "rennt", "sees": "sieht", "and": "und", "the": "das", "water": "Wasser", "boat": "Boot",
}  # fmt: skip
SIZES: dict[str, Any] = {"d_model": 32, "d_ff": 64, "n_heads": 2, "dropout": 0.0, "norm": "pre"}
LAYERS: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1}
STEPS = 200


def sentence(rng: random.Random) -> tuple[str, str]:
    """Word by word, so that every sentence has one right translation."""
    words = rng.choices(list(WORDS), k=rng.randint(1, 6))
    return " ".join(words) + ".", " ".join(WORDS[word] for word in words) + "."


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """en -> de, as `qkv train` would write it."""
    rng = random.Random(1)
    torch.manual_seed(1)
    tokenizer = Tokenizer.train([text for _ in range(300) for text in sentence(rng)], vocab_size=330)
    model = Transformer(TransformerConfig(vocab_size=len(tokenizer), max_length=64, **SIZES, **LAYERS))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = 5e-3 * min(1, (STEPS - step) / 60)
        pairs = [sentence(rng) for _ in range(32)]
        src = pad([*tokenizer.encode(source), EOS] for source, _ in pairs)
        teach(model, optimiser, src, pad([BOS, *tokenizer.encode(target), EOS] for _, target in pairs))
    place = tmp_path_factory.mktemp("serving") / "en-de"
    folder.save(place, model.eval(), tokenizer, {"source": "en", "target": "de", "longest_source": 20})
    return place


QUICK = {"threads": 1, "precision": "float32"}


@pytest.fixture(scope="session")
def lm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that knows one sentence by heart, with a number in it, and what may stand after its end."""
    place = tmp_path_factory.mktemp("lm")
    (place / "book.txt").write_text("\n".join(f"the old king saw {i} stars and a queen ." for i in range(300)))
    qkv.train(
        place / "book.txt", out=place / "lm", quiet=True, data={"vocab_size": 320, "window": 64},
        model={"d_model": 32, "n_heads": 2, "layers": 1, "max_length": 64, "dropout": 0.0},
        training={"steps": 60, "learning_rate": 0.01, **QUICK},
    )  # fmt: skip
    return place / "lm"


@pytest.fixture(scope="session")
def critic_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of films."""
    place = tmp_path_factory.mktemp("critic")
    lines = [f"{('good', 'bad')[i % 2]}\tfilm {i} is {('fine', 'dull')[i % 2]} .\n" for i in range(60)]
    (place / "train.tsv").write_text("".join(lines))
    qkv.train(
        place / "train.tsv", task="classify", out=place / "critic", quiet=True, data={"vocab_size": 300},
        model={"d_embedding": 8, "d_model": 8}, training={"steps": 10, **QUICK},
    )  # fmt: skip
    return place / "critic"


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that fills in, and has learned nothing."""
    texts = ["the old king saw two stars and a queen"] * 3
    words = Tokenizer.train(texts, kind="wordpiece", vocab_size=300, specials=["<mask>"])
    return save_untrained(tmp_path_factory.mktemp("bert") / "bert", "bert", words, {"task": "fill"}, max_length=32)


@pytest.fixture(scope="session")
def tldr_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A summariser that has learned nothing."""
    words = Tokenizer.train(["the old king saw two stars and a queen ."] * 3, vocab_size=300)
    about = {"task": "summarise", "max_length": 24, "max_target": 12}
    return save_untrained(tmp_path_factory.mktemp("tldr") / "tldr", "gpt2", words, about, max_length=48)


@pytest.fixture(scope="session")
def translator(model_folder: Path) -> Translator:
    return load_translator(model_folder)


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    rng = random.Random(2)
    return [sentence(rng)[0] for _ in range(60)]


Serve = Callable[..., TestClient]


@pytest.fixture
def serve(model_folder: Path) -> Iterator[Serve]:
    """`serve(key="secret", limits=Limits(...))` is a client of a server with these settings; it stops with the test."""
    running: list[Service] = []

    def start(*others: Path, alone: bool = False, **settings: Any) -> TestClient:
        service = Service(Models.load([*others] if alone else [model_folder, *others]), **settings)
        running.append(service)
        app = make_app(service)
        app.state.service = service
        return TestClient(app)

    yield start
    for service in running:
        service.close()


@pytest.fixture(scope="module")
def client(model_folder: Path) -> Iterator[TestClient]:
    """A server with the defaults, for tests that change nothing in it."""
    service = Service(Models.load([model_folder]))
    yield TestClient(make_app(service))
    service.close()


@pytest.fixture(scope="module")
def mixed(model_folder: Path, lm_folder: Path, critic_folder: Path, bert_folder: Path) -> Iterator[TestClient]:
    """A server with models of several tasks."""
    service = Service(Models.load([model_folder, lm_folder, critic_folder, bert_folder]))
    yield TestClient(make_app(service))
    service.close()
