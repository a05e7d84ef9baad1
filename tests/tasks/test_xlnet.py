"""XLNet as a task trains it: on windows that go on from each other, to the bit after a stop; what it fills in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from corpora import CORPORA
from kit import close, same_weights, stirred, tiny_model
from qkv import manifest
from qkv.data import RowsInMemory, Windows, generator
from qkv.data.batches import Place
from qkv.errors import InputError
from qkv.objectives import Carrying, PermutationLM
from qkv.opening import score_files
from qkv.tasks import TASKS
from qkv.text.tokenizer import Tokenizer

TINY = CORPORA["fill"]
TOKENIZER = Tokenizer.train(["a dog sees the cat"] * 3, vocab_size=300, specials=["<mask>"])


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    path = TINY.write(tmp_path)

    def run(out: str, training: dict[str, Any], **more: Any) -> Any:
        settings = {**TINY.settings(**training), **more}
        settings["model"] = {**TINY.model, "memory": 20, **more.get("model", {})}
        return qkv.train(path, task="fill", out=tmp_path / out, **{"architecture": "xlnet", **settings})

    return run


def test_it_is_asked_for_permutations_and_its_memory_survives_a_stop(train: Callable[..., Any], tmp_path: Path) -> None:
    straight = train("straight", {"steps": 7})
    assert straight.epochs % 1 > 0  # stopped between windows
    train("parted", {"steps": 3})
    train("parted", {"steps": 7})
    assert same_weights(tmp_path / "parted", tmp_path / "straight")
    recipe = (tmp_path / "straight" / "training" / "recipe.toml").read_text()
    assert 'objective = "permutation_lm(k=6, unit=' in recipe
    assert "carry = true" in recipe
    found = qkv.load(tmp_path / "straight").fill("a dog <mask> 12 .", 3)
    assert len(found) == 3
    config = tmp_path / "straight" / "config.json"
    told = json.loads(config.read_text())
    assert told.pop("objective").startswith("permutation_lm")
    config.write_text(json.dumps(told))  # as a folder of others', which names none
    manifest.seal(config.parent, ["config.json"])
    assert score_files(tmp_path / "straight", TINY.write(tmp_path))["perplexity"] > 1


def test_windows_see_those_before_them_in_training_and_in_validation() -> None:
    """What is measured with a memory is what is computed with the states in hand, and another figure without."""
    torch.manual_seed(0)
    model = stirred(tiny_model("xlnet", vocab_size=len(TOKENIZER), memory=9, dropout=0.0), 0.3).eval()
    text = torch.randint(5, 250, (100,), generator=torch.Generator().manual_seed(5)).tolist()
    windows = Windows(RowsInMemory([[text]]), length=7, batch=3, seed=1, carry=True)
    asks, state, losses, alone, counts = PermutationLM(k=3).knowing(TOKENIZER), (), [], [], []
    with torch.no_grad():
        for number, one in enumerate(windows.in_order()):
            asked = asks.prepare(one, generator(1, Place(0, number)))
            outputs = model(**asked.inputs, state=() if one.begins else state)
            state = outputs.state
            losses.append(asks.loss(outputs, asked).total)
            alone.append(asks.loss(model(**asked.inputs), asked).total)
            counts.append(asked.count)
    task = TASKS["fill"](TASKS["fill"].data_class(seed=1), type(model))
    assert task.measure(model, asks, windows)["loss"] == pytest.approx(float(sum(losses)) / sum(counts), rel=1e-5)
    assert abs(float(sum(alone)) - float(sum(losses))) > 1e-3


def test_what_is_carried_begins_anew_where_a_text_does() -> None:
    model, carrying = tiny_model("xlnet", vocab_size=len(TOKENIZER), memory=9, dropout=0.0).eval(), Carrying()
    windows = Windows(RowsInMemory([[[*range(5, 60)]]]), length=7, batch=2, seed=1, carry=True)
    asks = PermutationLM(k=3).knowing(TOKENIZER)
    one = next(windows.in_order())
    asked = asks.prepare(one, generator(1, Place()))
    first = carrying.ask(model, asked, one).hidden
    assert [part.shape[1] for part in carrying.state] == [8] * len(model.encoder.blocks)
    close(carrying.ask(model, asked, one).hidden, first)


REFUSED = {
    "asks for words of which <mask> takes the place": {"objective": "masked_lm"},
    "data.carry asks for windows": {"data": {**TINY.data, "carry": True}, "model": {"memory": 0}},
    "cannot be asked of a bert model": {"architecture": "bert", "objective": "permutation_lm", "model": TINY.model},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_is_refused(sentence: str, tmp_path: Path) -> None:
    settings = {"architecture": "xlnet", **TINY.settings(), **REFUSED[sentence]}
    with pytest.raises(InputError, match=sentence):
        qkv.train(TINY.write(tmp_path), task="fill", out=tmp_path / "model", **settings)
