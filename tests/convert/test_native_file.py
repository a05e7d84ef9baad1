"""A file of the native engine gives back the model that it was made of: exactly in 32 bits, else as it was rounded."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import tiny_model
from native_engine import FORMS, POSITIONS, in_float16, model
from qkv.convert.native import as_file, products_of, quantised, read, write
from qkv.errors import InputError
from qkv.layers import Embedding

NORMS = ["pre", "post"]


def again(plain: Any, **other: Any) -> Any:
    """The same architecture with other weights."""
    torch.manual_seed(5)
    return type(plain)(plain.config if not other else type(plain.config)(**{**vars(plain.config), **other})).eval()


def read_back(plain: Any, bits: int) -> Any:
    twin = again(plain)
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "model.qkv", plain, bits=bits)
        read(Path(place) / "model.qkv", twin)
    return twin


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(FORMS), st.sampled_from(POSITIONS), st.sampled_from(NORMS), st.booleans(), st.booleans(),
    st.sampled_from([(32, 4), (24, 2), (40, 4)]),
)  # fmt: skip
def test_every_weight_comes_back(
    name: str, position: str, norm: str, bias: bool, tied: bool, sizes: tuple[int, int]
) -> None:
    own = {"position": position, "norm": norm, "attention_bias": bias, "d_model": sizes[0], "n_heads": sizes[1]}
    plain = model(name, **own, **({"tie_embeddings": tied} if name == "transformer" else {}))
    twin = read_back(plain, 32)
    reached = {key for key, value in plain.named_parameters()}
    for key, value in twin.named_parameters():
        reached.discard(key)
        expected = plain.get_parameter(key)
        if "length=36" in position and "position" in key:
            rows = slice(2, 2 + 36)
            value, expected = value[rows], expected[rows]
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
    assert not reached


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("bits", [8, 16])
def test_what_is_rounded_stays_so(name: str, bits: int) -> None:
    plain = model(name)
    ours, theirs = products_of(read_back(plain, bits)), products_of(plain)
    for key, (weight, bias) in ours.items():
        exact, shift = theirs[key]
        values, scale = quantised(exact)
        expected = exact.half().float() if bits == 16 else values * scale[:, None]
        if key == "vocabulary":  # its table is there in float16
            expected = in_float16(next(part for part in plain.modules() if isinstance(part, Embedding)))
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-7)
        assert bias is None or torch.allclose(bias, shift)


@pytest.mark.parametrize("factor", [1e-8, 1e6])
def test_vectors_of_tokens_that_float16_cannot_hold_stay_as_they_are(factor: float) -> None:
    """It has few bits for the first, and no number so large as the second."""
    plain = model()
    small = len(as_file(plain, 8))
    with torch.no_grad():
        plain.source.weight *= factor
    assert len(as_file(plain, 8)) - small == 2 * plain.source.weight.numel(), "four bytes each, and not two"
    torch.testing.assert_close(read_back(plain, 8).source.weight, plain.source.weight, rtol=1e-6, atol=0)


def test_files_of_others_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    plain = model()
    whole, path = bytes(as_file(plain, 8)), tmp_path / "int8.qkv"
    for wrong in (b"", whole[:60], whole[:-64], whole + bytes(64), whole[:500] + b"\1" + whole[501:]):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match="is damaged, or of another model"):
            read(path, again(plain))
    path.write_bytes(whole)
    read(path, again(plain))
    for other in ({"d_ff": 48}, {"decoder_layers": 1}, {"norm": "pre"}, {"activation": "gelu"}):
        with pytest.raises(InputError, match="of another model"):
            read(path, again(plain, **other))
    with pytest.raises(InputError, match="is not enough to build a Bert"):
        read(path, tiny_model("bert"))
