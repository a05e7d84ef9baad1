"""The native engine: in float32 equal to the model, in 8 bits to a plain form of the same rounding."""

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kit import padded, refused, stirred, tiny_model
from native_engine import halved, rounded
from qkv.convert.native import ACTIVATIONS, can_write, checksum, has_native_form, quantised, stacks_of, write
from qkv.engines.native.kept import in_memory
from qkv.engines.native.library import HELD, Native, is_built
from qkv.engines.native.reader import native_reader, vectors
from qkv.engines.quantize import smoothing, tokens_agree
from qkv.errors import InputError
from qkv.models import Headed, Recurrent, RecurrentConfig
from qkv.positions import Places
from qkv.text.tokenizer import PAD

pytestmark = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
NAMES = ["bert", "roberta", "ernie2", "transformer_encoder", "gpt2", "gpt", "unilm"]
PATHS = ["avx512", "avx2", "plain"]  # a processor that has not the first takes the next
LENGTHS = [9, 5, 1, 7, 16, 2, 17, 33]
POSITIONS = ["sinusoidal", "learned", "learned(length=36, offset=2)", "none"]


def model(name: str = "bert", **given: Any) -> Any:
    sizes = {"layers": 2, "encoder_layers": 2, "n_heads": 4, "max_length": 40, "attention_bias": True, **given}
    return stirred(tiny_model(name, **sizes), 0.1).eval()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "model.qkv"


def opened(place: Path, model: Any, **how: Any) -> Native:
    write(place, model, **how)
    return Native(place)


def packed(ids: Tensor) -> tuple[Any, Any]:
    real = ids != PAD
    return real.sum(dim=1).numpy(), ids[real].numpy()


@pytest.fixture(params=PATHS)
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each path of the processor."""
    monkeypatch.setenv(HELD, request.param)
    return str(request.param)


# -- float32 -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(NAMES), norm=st.sampled_from(["post", "pre"]), activation=st.sampled_from(ACTIVATIONS),
    position=st.sampled_from(POSITIONS), bias=st.booleans(), heads=st.integers(1, 5), head_width=st.integers(1, 40),
    d_model=st.integers(2, 50).map(lambda half: 2 * half), d_ff=st.integers(1, 150), layers=st.integers(1, 3),
    held=st.sampled_from(PATHS), lengths=st.lists(st.integers(1, 36), min_size=1, max_size=6),
)  # fmt: skip
@torch.inference_mode()
def test_float32_is_the_model(
    name: str, norm: str, activation: str, position: str, bias: bool, heads: int, head_width: int, d_model: int,
    d_ff: int, layers: int, held: str, lengths: list[int], tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Of any sizes and options, on each path: states to 1e-5 of the largest."""
    plain = model(
        name, norm=norm, activation=activation, position=position, attention_bias=bias, n_heads=heads, d_k=head_width,
        d_model=d_model, d_ff=d_ff, layers=layers, encoder_layers=layers,
    )  # fmt: skip
    ids = padded(lengths, 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HELD, held)
        native = opened(tmp_path_factory.mktemp("native") / "model.qkv", plain, bits=32)
    expected = plain.encode(ids)[ids != PAD]
    found = torch.from_numpy(native.read(*packed(ids)))
    assert (found - expected).abs().max() < 1e-5 * max(1.0, float(expected.abs().max()))


@torch.inference_mode()
@pytest.mark.parametrize("pool", ["mean", "first", "last"])
def test_pools_are_those_of_the_states(pool: str, place: Path) -> None:
    plain, ids = model(), padded(LENGTHS, 40)
    native, rows = opened(place, plain, bits=32), [row[row != PAD].tolist() for row in ids]
    states = [plain.encode(torch.tensor([row]))[0].numpy() for row in rows]
    expected = [{"mean": one.mean(axis=0), "first": one[0], "last": one[-1]}[pool] for one in states]
    found = vectors(native, [*rows, []], pool)  # type: ignore[arg-type]
    assert np.allclose(found[:-1], expected, atol=1e-5)
    assert not found[-1].any()


# -- what is read around it --------------------------------------------------------------------------------------------


@torch.inference_mode()
def test_heads_segments_and_masks_say_what_they_say_with_the_model(place: Path) -> None:
    plain = stirred(Headed(model(segments=3), {"classes": "classes(n=3, pool='first', dense=True)"}), 0.2).eval()
    backbone: Any = plain.backbone
    reader = native_reader(plain, opened(place, backbone, bits=32))
    ids = padded(LENGTHS, 40)
    real, segments = ids != PAD, (torch.arange(33) % 3).expand(len(ids), -1)
    pairs = torch.ones(33, 33, dtype=torch.bool).tril(3) & real[:, None] | torch.eye(33, dtype=torch.bool)
    for more in ({}, {"segments": segments}, {"mask": real}, {"mask": pairs}, {"mask": real.flip(1) | (ids == 5)}):
        expected, found = (each(ids, **more) for each in (plain, reader))
        assert torch.allclose(found.hidden[real], expected.hidden[real], atol=1e-5), more
        assert torch.allclose(found.answer("classes"), expected.answer("classes"), atol=1e-5), more
    assert reader.inputs() == plain.inputs()
    assert plain.backbone is backbone
    assert "native" not in vars(backbone), "the model is as it was"


@torch.inference_mode()
@pytest.mark.parametrize(("name", "count"), [("roberta", 1), ("bert", 0), ("transformer_encoder", 0)])
def test_segments_that_a_model_does_not_tell_apart_are_not_read(name: str, count: int, place: Path) -> None:
    plain, ids = model(name, segments=count), padded([6, 4], 40)
    reader, segments = native_reader(plain, opened(place, plain, bits=32)), torch.ones_like(ids)
    expected, found = (each.encode(ids, segments=segments)[ids != PAD] for each in (plain, reader))
    assert torch.allclose(found, expected, atol=1e-5)


@torch.inference_mode()
def test_a_unilm_is_told_by_its_segments_how_to_read(place: Path) -> None:
    plain, ids = model("unilm"), padded([6, 6], 40)
    reader = native_reader(plain, opened(place, plain, bits=32))
    for number in (0, 1, 3, 5):
        segments = torch.full_like(ids, number)
        assert torch.allclose(reader.encode(ids, segments=segments), plain.encode(ids, segments=segments), atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("is_in_memory", [True, False])
@pytest.mark.parametrize("name", ["bert", "gpt2", "transformer_encoder"])
def test_a_file_without_a_name_is_the_model(
    name: str, is_in_memory: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds what a file of float32 does, nothing of it is left behind, and the weights may change afterwards."""
    if not is_in_memory:  # as on systems that have no such files
        monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(place.parent))
    plain, ids = model(name), padded(LENGTHS, 40)
    native = in_memory(plain)
    assert not [*place.parent.iterdir()]
    expected = opened(place, plain, bits=32).read(*packed(ids))
    next(plain.parameters()).add_(1.0)
    assert native.bits == 32
    assert np.array_equal(native.read(*packed(ids)), expected)
    with pytest.raises(InputError, match="the model in float32 cannot read this: token 40 is none of the 40"):
        native.read(np.array([1]), np.array([40]))


# -- which -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transformer", "gpt2"])
def test_other_attentions_and_positions_have_no_form(name: str) -> None:
    assert can_write(model(name))
    for others in ("rotary", "shaw(clip=4)"):
        assert not has_native_form(model(name, position=others))
    for others in ("additive", "top_k(k=2)"):
        assert not has_native_form(model(name, attention=others))


@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_other_norms_gates_and_models_have_no_form(position: str) -> None:
    assert not has_native_form(tiny_model("llama", position=position))
    assert not has_native_form(Recurrent(RecurrentConfig(vocab_size=20, d_model=8)))
    assert has_native_form(model("bert"))
    assert not can_write(model("bert"))


# -- 8 bits ------------------------------------------------------------------------------------------------------------


def test_weights_are_rounded_by_rows() -> None:
    weight = torch.randn(5, 40) * torch.tensor([1e-3, 1.0, 10.0, 1e3, 0.0])[:, None]
    values, scale = quantised(weight)
    assert values.dtype == torch.int8
    assert values.abs().amax(dim=1)[:4].tolist() == [127] * 4
    assert ((values * scale[:, None] - weight).abs() <= scale[:, None] / 2 * 1.001).all()


def test_agreement_of_tokens() -> None:
    assert tokens_agree([[1, 2, 3]], [[1, 2, 3]]) == 1
    assert tokens_agree([[1, 2, 3], [4]], [[1, 9, 3], [4, 5]]) == 3 / 5
    assert tokens_agree([], []) == 0


@torch.inference_mode()
def test_smoothing_is_the_papers(place: Path) -> None:
    """Xiao et al. 2023, Eq. 4, by hand, for what goes into the first block; and it leaves the model as it was."""
    plain, rows = model("gpt2"), [[5, 6, 7], [8, 9], [4]]
    found = smoothing(plain, rows)
    block = plain.decoder.blocks[0]
    given = torch.cat(
        [
            plain.tokens(torch.tensor([row]))[0]
            + plain.decoder.position.embed(
                torch.zeros(1, len(row), plain.config.d_model), Places.span(0, len(row), torch.device("cpu"))
            )[0]
            for row in rows
        ]
    )
    x = block.attention_residual.norm(given)
    own = block.attention
    weight = torch.cat((own.query.weight * plain.config.head_width**-0.5, own.key.weight, own.value.weight))
    expected = x.abs().amax(dim=0) ** 0.75 / weight.abs().amax(dim=0) ** 0.25
    assert torch.allclose(found["decoder.0.qkv"], expected, rtol=1e-4)
    assert {name.rpartition(".")[2] for name in found} == {"qkv", "output", "expand", "contract"}
    assert not any(module._forward_pre_hooks for module in plain.modules())


@torch.inference_mode()
def test_smoothing_saves_narrow_channels(place: Path) -> None:
    """A channel a hundred times as wide as the others costs them little."""
    plain, ids = model("bert", d_model=48), padded(LENGTHS, 40)
    plain.encoder.blocks[0].attention_residual.norm.weight[3] *= 100
    plain.encoder.blocks[0].feed_forward.expand.weight[:, 3] /= 100
    rows = [row[row != PAD].tolist() for row in ids]
    exact = plain.encode(ids)[ids != PAD].numpy()

    def error(smooth: dict[str, Tensor]) -> float:
        return float(np.square(opened(place, plain, smooth=smooth).read(*packed(ids)) - exact).mean())

    assert error(smoothing(plain, rows)) < error({}) / 2


@torch.inference_mode()
@pytest.mark.parametrize("name", ["bert", "gpt2", "transformer_encoder"])
def test_eight_bits_are_the_rounding_that_they_say(name: str, place: Path, held: str) -> None:
    """A number on the edge of two levels may fall to either side, and moves a few states by a level; nothing else may.
    And both are near the model."""
    plain, ids = model(name, d_model=48, d_ff=100), padded([*range(1, 30)], 40)
    real, rows = ids != PAD, [row[row != PAD].tolist() for row in ids]
    smooth = smoothing(plain, rows)
    found = torch.from_numpy(opened(place, plain, smooth=smooth).read(*packed(ids)))
    expected = rounded(plain, smooth).encode(ids)[real]
    assert (found - expected).abs().median() < 1e-5
    assert (found - expected).abs().max() < 0.1
    assert torch.cosine_similarity(found, plain.encode(ids)[real]).min() > 0.999


@torch.inference_mode()
@pytest.mark.parametrize("name", ["bert", "gpt2", "transformer_encoder"])
def test_sixteen_bits_are_float32_with_rounded_weights(name: str, place: Path, held: str) -> None:
    plain, ids = model(name, d_model=48, d_ff=100), padded(LENGTHS, 40)
    check_halves(plain, ids, opened(place, plain, bits=16))


@torch.inference_mode()
def test_weights_that_sixteen_bits_have_few_for(place: Path, held: str) -> None:
    """Below 2^-14 a float16 loses bit after bit. A norm makes all that these weights do large again."""
    plain, ids = model("transformer_encoder", position="none", norm="post", eps=1e-12, d_model=48), padded(LENGTHS, 40)
    plain.source.weight *= 1e-6
    weight = plain.encoder.blocks[0].attention.output.weight
    weight *= 1e-5 / weight.abs().max()
    check_halves(plain, ids, opened(place, plain, bits=16))


def check_halves(plain: Any, ids: Tensor, native: Native) -> None:
    found, real = torch.from_numpy(native.read(*packed(ids))), ids != PAD
    expected = halved(plain).encode(ids)[real]
    assert native.bits == 16
    assert (found - expected).abs().max() < 1e-5 * max(1.0, float(expected.abs().max()))
    assert (expected - plain.encode(ids)[real]).abs().max() > 1e-4, "the rounding is seen"


@torch.inference_mode()
def test_all_paths_find_the_same_in_eight_bits(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, ids = model(d_model=48), padded(LENGTHS, 40)
    write(place, plain)
    found = {}
    for name in PATHS:
        monkeypatch.setenv(HELD, name)
        native = Native(place)
        assert native.processor in PATHS[PATHS.index(name) :]
        found[name] = native.read(*packed(ids))
    for name in PATHS[1:]:
        assert np.median(np.abs(found[name] - found["avx512"])) < 1e-6
        assert np.abs(found[name] - found["avx512"]).max() < 0.1


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_neighbours_order_and_threads_change_no_bit(bits: int, place: Path, held: str) -> None:
    """Sentences of all lengths: in groups, alone, backwards, by several threads of ours and of Python's."""
    rng = np.random.default_rng(1)
    rows = [rng.integers(1, 40, size=n).tolist() for n in [*range(1, 41), *[3] * 60]]
    native = opened(place, model(d_model=48), bits=bits)

    def read(some: list[list[int]], threads: int = 1) -> Any:
        return native.read(np.array([*map(len, some)]), np.concatenate(some), pool="mean", threads=threads)

    whole = read(rows)
    assert np.array_equal(whole, np.concatenate([read([row]) for row in rows]))
    assert np.array_equal(whole, read(rows[::-1])[::-1])
    assert np.array_equal(whole, read(rows, threads=3))
    found: list[Any] = []
    callers = [threading.Thread(target=lambda: found.append(read(rows, threads=2))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(np.array_equal(one, whole) for one in found)
    assert len(found) == 4


# -- what is wrong -----------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "empty": (lambda whole: b"", "it is no file of this engine"),
    "cut": (lambda whole: whole[:-64], "bytes and should have"),
    "longer": (lambda whole: whole + bytes(64), "bytes and should have"),
    "another kind": (lambda whole: b"safetens" + whole[8:], "it is no file of this engine"),
    "another version": (lambda whole: whole[:8] + b"\x03" + whole[9:], "its version is 3, and this engine reads 2"),
    "one bit": (lambda whole: whole[:999] + bytes([whole[999] ^ 1]) + whole[1000:], "its checksum is wrong"),
    "more layers": (lambda whole: signed(whole[:48] + b"\x09" + whole[49:]), "it is shorter than its sizes say"),
    "fewer layers": (lambda whole: signed(whole[:48] + b"\x01" + whole[49:]), "it is longer than its sizes say"),
    "no width": (
        lambda whole: signed(whole[:32] + bytes(4) + whole[36:]),
        "d_model is 0, which is not from 1 to 65520",
    ),
    "no vocabulary": (
        lambda whole: signed(whole[:108] + b"\x02" + whole[109:]),
        "it has a decoder and no vocabulary",
    ),
    "odd bits": (lambda whole: signed(whole[:12] + b"\x07" + whole[13:]), "its weights have 7 bits, not 8, 16 or 32"),
}


def signed(whole: bytes) -> bytes:
    """With the checksum that it should have."""
    return whole[:24] + checksum(whole).to_bytes(8, "little") + whole[32:]


@refused({name: said for name, (_, said) in WRONG.items()})
def test_a_wrong_file_is_refused(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "model.qkv"
    write(path, model())
    path.write_bytes(WRONG[wrong][0](path.read_bytes()))
    Native(path)


ASKED: dict[str, tuple[Any, str]] = {
    "an id": (([3], [1, 2, 40]), "token 40 is none of the 40 that the model has"),
    "a negative id": (([3], [1, -2, 4]), "token -2 is none of the 40"),
    "a segment": (([3], [1, 2, 3], [0, 1, 2]), "segment 2 is none of the 2 that the model has"),
    "too few segments": (([3], [1, 2, 3], [0, 1]), "there are 3 ids and 2 segments"),
    "a length": (([2, 2], [1, 2, 3]), "the lengths of the sentences are not those of the tokens"),
    "no length": (([0, 3], [1, 2, 3]), "the lengths of the sentences are not those of the tokens"),
    "left over": (([2], [1, 2, 3]), "the lengths of the sentences are not those of the tokens"),
    "too long": (([41], [1] * 41), "it has 41 tokens, and the model has 40 places"),
}


@refused({name: said for name, (_, said) in ASKED.items()})
def test_what_cannot_be_read_is_refused(wrong: str, tmp_path: Path) -> None:
    native = opened(tmp_path / "model.qkv", model(vocab_size=40))
    native.read(*map(np.array, ASKED[wrong][0]))


@refused({
    "path": "QKV_CPU: this engine has no path sse; it has avx512, avx2 and plain",
    "model": r"only a Transformer, or a backbone of BERT's or GPT-2's form.* and this is a Bert .*; use another engine",
})  # fmt: skip
def test_what_there_is_not_is_refused(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if wrong == "model":
        stacks_of(model(position="rotary"))
    monkeypatch.setenv(HELD, "sse")
    opened(tmp_path / "model.qkv", model())
