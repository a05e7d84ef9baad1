"""A model folder loads as what was saved, and whatever is wrong with it is one sentence."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import qkv
from kit import tiny_model, tokenizer
from qkv import folder, manifest
from qkv.errors import InputError
from qkv.opening import load_translator, score_files
from qkv.weights import load_weights

TOKENIZER = tokenizer("the cat sat on the mat", "die Katze saß auf der Matte")
SRC = torch.tensor([[10, 70, 200, 2], [99, 2, 0, 0]])
TGT = torch.tensor([[1, 80, 90], [1, 60, 0]])


def model(**changes: Any) -> Any:
    sizes = {"vocab_size": len(TOKENIZER), "decoder_layers": 2, "max_length": 64}
    return tiny_model("transformer", **{**sizes, **changes}).eval()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder.save(tmp_path / "model", model(), TOKENIZER, {"source": "en", "target": "de"})
    return tmp_path / "model"


@pytest.mark.parametrize("tied", ["all", "decoder", "none"])
@pytest.mark.parametrize("changes", [{}, {"norm": "pre", "output_bias": True, "position": "learned(length=64)"}])
def test_what_is_loaded_computes_what_was_saved(tmp_path: Path, tied: str, changes: dict[str, Any]) -> None:
    ours = model(tied=tied, **changes)
    folder.save(tmp_path / "model", ours, TOKENIZER, {"source": "en", "target": "de", "note": "Größe"})
    torch.manual_seed(2)  # other first weights
    loaded = folder.load(tmp_path / "model")
    assert torch.equal(loaded.model(SRC, TGT).logits, ours(SRC, TGT).logits)
    assert not loaded.model.training
    assert loaded.model.config == ours.config
    assert loaded.tokenizer.fingerprint == TOKENIZER.fingerprint
    assert loaded.about == {"source": "en", "target": "de", "note": "Größe"}


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tied_tables_are_saved_once(tmp_path: Path, tied: str, tables: int) -> None:
    ours = model(tied=tied)
    folder.save(tmp_path / "model", ours, TOKENIZER, {})
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    assert sum(value.shape == (len(TOKENIZER), 16) for value in tensors.values()) == tables
    assert sum(value.numel() for value in tensors.values()) == sum(p.numel() for p in ours.parameters())
    again = folder.load(tmp_path / "model").model
    assert len({id(p) for p in again.parameters()}) == len(tensors)


def test_saving_twice_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    folder.save(tmp_path / "twin", model(), TOKENIZER, {"source": "en", "target": "de"})
    files = sorted(path.name for path in saved.iterdir())
    assert files == sorted(path.name for path in (tmp_path / "twin").iterdir())
    assert all((saved / name).read_bytes() == (tmp_path / "twin" / name).read_bytes() for name in files)


def test_whoever_may_read_one_file_may_read_all(saved: Path) -> None:
    assert len({path.stat().st_mode for path in saved.iterdir()}) == 1


@pytest.mark.skipif(os.name != "posix", reason="only where files have owners")
def test_weights_that_may_not_be_read_are_said(saved: Path) -> None:
    (saved / "model.safetensors").chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        for path in (saved, *saved.parents[:3]):
            path.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match=r"model.safetensors may not be read by this user; give .*chmod a\+r"):
            load_weights(saved / "model.safetensors")
    finally:
        os.seteuid(user)


def test_other_tools_find_the_special_tokens(saved: Path) -> None:
    pieces = TOKENIZER.pieces([0, 1, 2, 3])
    words = json.loads((saved / "special_tokens_map.json").read_text())
    ids = json.loads((saved / "generation_config.json").read_text())
    assert [pieces[ids[f"{name}_id"]] for name in words] == list(words.values())


# -- what can be wrong -----------------------------------------------------------------------------------------------


def config(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change config.json."""

    def damage(path: Path) -> None:
        tree = json.loads((path / "config.json").read_text())
        change(tree)
        (path / "config.json").write_text(json.dumps(tree))
        manifest.seal(path, ["config.json"])

    return damage


def sizes(**changes: Any) -> Callable[[Path], None]:
    return config(lambda tree: tree["transformer"].update(changes))


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    """Change model.safetensors."""

    def damage(path: Path) -> None:
        held = load_file(path / "model.safetensors")
        change(held)
        save_file(held, path / "model.safetensors")

    return damage


def cut(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-100]) and None


def put(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(content) and None


def another_tokenizer(path: Path) -> None:
    tokenizer("some other text altogether").save(path / "tokenizer.json")


def smaller_tokenizer(path: Path) -> None:
    other = tokenizer("ab", size=262)
    other.save(path / "tokenizer.json")
    config(lambda tree: tree.update(tokenizer=other.fingerprint))(path)


FIRST = "encoder.blocks.0.feed_forward.inner.weight"
NOISE = bytes(torch.randint(0, 256, (3000,), generator=torch.Generator().manual_seed(0)).tolist())
WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda p: (p / "config.json").unlink(), "has no config.json, so it is not a model folder"),
    "no tokenizer": (lambda p: (p / "tokenizer.json").unlink(), "cannot read the tokenizer .*No such file"),
    "no weights": (lambda p: (p / "model.safetensors").unlink(), "model.safetensors is missing; copy the whole model"),
    "weights cut": (cut("model.safetensors"), "model.safetensors is damaged .*; copy the whole model folder again"),
    "weights empty": (put("model.safetensors", b""), "model.safetensors is damaged"),
    "weights noise": (put("model.safetensors", NOISE), "model.safetensors is damaged"),
    "weights text": (put("model.safetensors", b"version https://git-lfs"), "model.safetensors is damaged"),
    "tokenizer cut": (cut("tokenizer.json"), "tokenizer.json is damaged"),
    "tokenizer noise": (put("tokenizer.json", NOISE), "tokenizer.json is damaged"),
    "tokenizer foreign": (
        put("tokenizer.json", b'{"model": {}}'),
        "tokenizer.json is not a tokenizer that qkv trained",
    ),
    "config cut": (cut("config.json"), "config.json is damaged or not from qkv; copy the whole model folder again"),
    "config noise": (put("config.json", NOISE), "config.json is damaged or not from qkv"),
    "config a list": (put("config.json", b"[1, 2]"), "config.json is damaged or not from qkv"),
    "config a number": (put("config.json", b"7"), "config.json is damaged or not from qkv"),
    "config without a type": (config(lambda t: t.pop("model_type")), "config.json is damaged or not from qkv"),
    "other type": (config(lambda t: t.update(model_type="t5")), "unknown model 't5'; known: "),
    "type alike": (config(lambda t: t.update(model_type="qkv-transfomer")), "did you mean 'transformer'"),
    "no sizes": (config(lambda t: t.pop("transformer")), "unknown model 'transformer'|damaged"),
    "sizes a list": (config(lambda t: t.update(transformer=[1])), "a table of settings was expected, not"),
    "no version": (config(lambda t: t.pop("qkv_version")), "config.json is damaged or not from qkv"),
    "later": (config(lambda t: t.update(qkv_version=99)), "was written by a later qkv .layout 99.*; update qkv"),
    "unknown key": (sizes(d_modle=16), "config.json: unknown key 'd_modle'; did you mean 'd_model'"),
    "wrong language": (config(lambda t: t.update(source=7)), r"config.json: source: Input should be .* \(given: 7\)"),
    "wrong labels": (
        config(lambda t: t.update(labels=["a", 1])),
        "config.json: labels: Input should be",
    ),
    "wrong type": (sizes(d_model="16"), "config.json: d_model: Input should be a valid integer"),
    "impossible": (sizes(n_heads=3), "config.json: d_model=16 is not divisible by n_heads=3"),
    "negative": (sizes(max_length=-1), "config.json: max_length must be at least 1, not -1"),
    "too large": (
        sizes(max_length=10**15),
        "config.json: max_length must be at most 1,048,576, not 1,000,000,000,000,000",
    ),
    "other tokenizer": (another_tokenizer, "tokenizer.json is not the one this model was trained with"),
    "vocabulary": (smaller_tokenizer, "the vocabulary has 26[0-9] entries but the model expects"),
    "shape": (sizes(d_ff=32), r"feed_forward\.\S+ has shape \(24.*\), config.json expects \(32"),
    "missing tensor": (
        tensors(lambda t: t.pop(sorted(t)[3])),
        "model.safetensors lacks [a-z_.0-9]+; the weights do not",
    ),
    "extra tensor": (tensors(lambda t: t.update(x=torch.zeros(1))), "model.safetensors has an unknown x; the weights"),
    "fewer layers": (sizes(decoder_layers=1), r"model.safetensors has an unknown decoder\.blocks\.1\."),
    "position": (sizes(position="sinusodial"), "unknown name 'sinusodial'; did you mean 'sinusoidal'"),
    "code": (sizes(position="__import__('os').system('touch hacked')"), "does not name a part"),
    "code in options": (sizes(attention="scaled_dot(dropout=open('hacked', 'w'))"), "does not name a part"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_sentence(saved: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    damage, sentence = WRONG[wrong]
    damage(saved)
    with pytest.raises(InputError, match=sentence) as caught:
        folder.load(saved)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert [path.name for path in saved.parent.iterdir()] == ["model"]  # nothing was executed


@pytest.mark.parametrize("at", ["nowhere", "file"])
def test_a_folder_that_is_none(tmp_path: Path, at: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=f"no model folder at .*{at}; give the folder that `qkv train --out` wrote"):
        folder.load(tmp_path / at)


def test_one_flipped_bit_in_the_header_is_found_wherever_it_is(saved: Path) -> None:
    """The header of the weights says what is where: no bit of it may be wrong without an error (or it is a space)."""
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    expected = load_file(path)
    header = 8 + int.from_bytes(whole[:8], "little")
    for at in range(0, header, 37):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        try:
            loaded = folder.load(saved)
        except InputError:
            continue
        found = folder.weights(loaded.model)
        assert all(torch.equal(found[name], expected[name]) for name in expected), at


def test_a_folder_of_a_task_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """By everything that opens one: a later qkv may have written it."""
    folder.save(tmp_path / "model", model(), TOKENIZER, {"task": "clasify"})
    for opens in (qkv.load, load_translator, score_files):
        with pytest.raises(InputError, match="task 'clasify', which this qkv does not have; did you mean 'classify'"):
            opens(tmp_path / "model")
