"""8-bit products and engines: near float32, the same whatever the neighbours, refused where they cannot be."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kit import TEXTS
from qkv import folder
from qkv.decoding import Plain, Search
from qkv.engines import open_engine
from qkv.engines.lean import Lean
from qkv.engines.products import Calibration, Int8, has_kernel, input_levels, quantised
from qkv.engines.quantize import FILE, int8_engine, load, open_int8, quantize, save, stored, tokens_agree
from qkv.errors import InputError
from qkv.models import Transformer, TransformerConfig
from qkv.opening import load_translator
from qkv.weights import save_weights


@pytest.mark.parametrize("activation", ["", "relu", "gelu"])
def test_a_product_is_that_of_the_rounded_numbers(activation: str) -> None:
    """Against whole numbers in numpy: round x and W, multiply exactly, scale, add the bias, cut by the activation."""
    torch.manual_seed(1)
    x, weight, bias = torch.randn(7, 33).clamp(-2, 3), torch.randn(19, 33), torch.randn(19)
    values, scale = quantised(weight)
    found = Int8(values, scale, bias, -2.0, 3.0, activation)(x)
    levels = input_levels() - 1
    step = 5.0 / levels
    zero = round(2.0 / step)
    bytes_ = np.clip(np.rint(x.numpy().astype(np.float64) / step) + zero, 0, 255).astype(np.int64)
    sums = (bytes_ - zero) @ values.numpy().astype(np.int64).T
    expected = torch.from_numpy(sums * step * scale.numpy() + bias.numpy()).float()
    apply = {"": lambda y: y, "relu": torch.relu, "gelu": torch.nn.functional.gelu}[activation]
    torch.testing.assert_close(found, apply(expected), rtol=1e-4, atol=2e-2)  # one step of rounding in a few places
    torch.testing.assert_close(found, apply(x @ weight.T + bias), rtol=0, atol=0.25)


def test_weights_are_rounded_by_rows() -> None:
    weight = torch.randn(5, 40) * torch.tensor([1e-3, 1.0, 10.0, 1e3, 0.0])[:, None]
    values, scale = quantised(weight)
    assert values.dtype == torch.int8
    assert values.abs().amax(dim=1)[:4].tolist() == [127] * 4
    assert ((values * scale[:, None] - weight).abs() <= scale[:, None] / 2 * 1.001).all()


def test_what_is_outside_the_range_is_cut() -> None:
    values, scale = quantised(torch.eye(3))
    product = Int8(values, scale, None, -1.0, 1.0)
    found = product(torch.tensor([[0.5, -7.0, 7.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.5, -1.0, 1.0]]), rtol=0, atol=2 / (input_levels() - 1))


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(1)
    values, scale = quantised(torch.randn(64, 64))
    product, x = Int8(values, scale, torch.randn(64), -4.0, 4.0), torch.randn(70, 64)
    x[1] *= 100  # which would spoil a range that is measured over the batch
    assert torch.equal(product(x)[:1], product(x[:1]))
    assert torch.equal(product(x)[5:6], product(x[5:6]))


def test_ranges_are_those_seen() -> None:
    watched = Calibration()
    product = watched("p", torch.eye(2), None, "")
    for row in ([1.0, -3.0], [5.0, 0.0], [2.0, -1.0]):
        assert torch.equal(product(torch.tensor([row])), torch.tensor([row]))
    assert (watched.low["p"].tolist(), watched.high["p"].tolist()) == ([1.0, -3.0], [5.0, 0.0])
    ends = stored(watched)["p"].range
    assert ends.tolist() == [-3.0, 5.0]


def test_an_engine_of_a_trained_model_translates_alike(model: Transformer, sources: list[list[int]]) -> None:
    given = [row[:-1] for row in sources]
    engine = int8_engine(model, quantize(model, given))
    for beam in (1, 4):
        limits, how = [len(row) + 50 for row in given], Search(beam=beam)
        ours, exact = ([some[0].tokens for some in one.decode(given, limits, how)] for one in (engine, Lean(model)))
        assert tokens_agree(ours, exact) > 0.85  # the model is half trained: many choices are near
    assert engine.name == "int8"


def test_agreement_of_tokens() -> None:
    assert tokens_agree([[1, 2, 3]], [[1, 2, 3]]) == 1
    assert tokens_agree([[1, 2, 3], [4]], [[1, 9, 3], [4, 5]]) == 3 / 5
    assert tokens_agree([], []) == 0


@pytest.fixture
def saved(saved: Path) -> Path:
    """With its 8-bit form."""
    loaded = folder.load(saved)
    save(saved, quantize(loaded.model, [loaded.tokenizer.encode(text) for text in TEXTS]))
    return saved


def test_a_folder_keeps_it(saved: Path) -> None:
    translator = load_translator(saved, engine="int8")
    assert translator.engine.name == "int8"
    made = int8_engine(translator.model, quantize(translator.model, [translator.tokenizer.encode(t) for t in TEXTS]))
    read = [line.text for line in translator.translate(TEXTS, beam=3)]
    translator.engine = made
    assert [line.text for line in translator.translate(TEXTS, beam=3)] == read


def test_eight_bits_need_a_quarter(saved: Path) -> None:
    kept = load(saved)
    products = sum(stored.values.numel() for stored in kept.values())
    assert products < (saved / FILE).stat().st_size < 2 * products


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / FILE).unlink(), "has no int8.safetensors; make it with: qkv quantize"),
        (lambda path: (path / FILE).write_bytes(b"nonsense" * 9), "is damaged .* make it anew with: qkv quantize"),
        (lambda path: other_weights(path), "was made of other weights; make it anew with: qkv quantize"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(saved: Path, spoil: object, message: str) -> None:
    spoil(saved)  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        load_translator(saved, engine="int8")


def test_another_device_has_no_form_for_cpus(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = folder.load(saved)
    assert type(open_int8(saved, loaded, "cuda")) is Plain
    assert capsys.readouterr().err == "there are no 8-bit kernels for cuda here: writing in float32\n"
    with pytest.raises(InputError, match=r"has no shortlist; use lean\+shortlist or .* on a CPU"):
        open_engine("int8+shortlist", saved, loaded, "cuda")


def other_weights(path: Path) -> None:
    loaded = folder.load(path)
    loaded.model.decoder.blocks[0].attention.query.weight.data += 1
    save_weights(path / "model.safetensors", folder.weights(loaded.model))


def test_what_is_not_standard_is_refused() -> None:
    model = Transformer(TransformerConfig(vocab_size=300, d_model=16, d_ff=16, n_heads=2, position="rotary"))
    with pytest.raises(InputError, match="only a Transformer or a GPT-2 with scaled dot products and sinusoidal"):
        quantize(model, [[5, 6]])


def test_this_machine_has_the_kernel() -> None:
    assert has_kernel(), "8-bit engines are not tested on this machine"
