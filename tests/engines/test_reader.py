"""The forms of what reads: in float32 equal to the model, for every backbone; 8 bits agree with it."""

import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import qkv
from kit import TEXTS, close, package, padded, real, refused, save_untrained, stirred, tiny_model, tokenizer
from qkv import folder
from qkv.convert import digest
from qkv.convert.native import has_native_form, write
from qkv.engines import READERS, open_reader, tell_once
from qkv.engines.likeness import likeness
from qkv.engines.native import library
from qkv.engines.native.kept import in_memory
from qkv.engines.native.library import Native, is_built
from qkv.engines.native.reader import FILE, native_reader
from qkv.engines.quantize import smoothing
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Headed
from qkv.text.lines import read_lines
from qkv.text.tokenizer import PAD

LENGTHS = [9, 5, 1, 7, 2, 2]
NAMES = ["bert", "roberta", "transformer_encoder", "gpt2"]
needs_engine = pytest.mark.skipif(not is_built(), reason="the native engine is not built")


def model(name: str, **settings: Any) -> Any:
    given = {"n_heads": 4, "layers": 3, "encoder_layers": 3, "attention_bias": True, "max_length": 20, **settings}
    return stirred(tiny_model(name, **given), 0.1).eval()


def opened(plain: Any) -> Any:
    """In float32, by the native engine where it is built."""
    return open_reader(Loaded(plain, tokenizer(), {}), "float32")


@pytest.fixture
def ids() -> Tensor:
    return padded(LENGTHS, 40)


@torch.inference_mode()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("lengths", [LENGTHS, [9, 9, 8, 9, 9, 9, 9, 9], [6, 6], [1]], ids=str)
def test_states_at_real_tokens_are_those_of_the_plain_form(name: str, norm: str, lengths: list[int]) -> None:
    """Whatever padding there is."""
    plain, ids = model(name, norm=norm), padded(lengths, 40)
    found = opened(plain).encode(ids)
    assert found.shape == (*ids.shape, 16)
    close(found[ids != PAD], plain.encode(ids)[ids != PAD])


@torch.inference_mode()
@pytest.mark.parametrize("name", NAMES)
def test_masks_are_looked_through(name: str, ids: Tensor) -> None:
    """Of real tokens, whatever stands at the others; and of which token may see which."""
    plain = model(name)
    reader, real = opened(plain), ids != PAD
    other = ids.masked_fill(~real, 5)
    close(reader.encode(other, mask=real)[real], plain.encode(ids)[real])
    pairs = torch.ones(9, 9, dtype=torch.bool).tril(3).expand(6, -1, -1) & real[:, None] | torch.eye(
        9, dtype=torch.bool
    )
    close(reader.encode(ids, mask=pairs)[real], plain.encode(ids, mask=pairs)[real])


@torch.inference_mode()
def test_segments_and_heads_are_read(ids: Tensor) -> None:
    plain = stirred(Headed(model("bert"), {"classes": "classes(n=3, pool='first', dense=True)"}), 0.2).eval()
    segments = (torch.arange(9) > 3).long().expand(6, -1)
    expected, found = (each(ids, segments=segments).answer("classes") for each in (plain, opened(plain)))
    close(found, expected)
    assert (expected - plain(ids).answer("classes")).abs().max() > 1e-3


# -- 8 bits ------------------------------------------------------------------------------------------------------------


@needs_engine
def test_the_file_is_opened_by_name_and_auto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tokenizer(*TEXTS, size=300, kind="wordpiece")
    save_untrained(tmp_path, "bert", words, {"task": "fill"}, d_model=32, n_heads=4)
    loaded: Any = folder.load(tmp_path)
    smooth = smoothing(loaded.model, words.encode_batch(TEXTS))
    write(tmp_path / FILE, loaded.model, smooth=smooth, made_of=digest(tmp_path))
    exact, rounded, chosen = (
        qkv.load(tmp_path, task="embed", engine=e).embed(TEXTS) for e in ("float32", "int8", "auto")
    )
    assert np.array_equal(rounded, chosen)
    assert np.abs(rounded - exact).max() > 0
    cosines = (rounded * exact).sum(1) / np.linalg.norm(rounded, axis=1) / np.linalg.norm(exact, axis=1)
    assert cosines.min() > 0.99
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(library.HELD, "plain")  # a processor that multiplies no bytes
        assert np.allclose(qkv.load(tmp_path, task="embed", engine="auto").embed(TEXTS), exact, atol=1e-6)
    write(tmp_path / FILE, loaded.model, smooth=smooth)  # of whatever weights
    with pytest.raises(InputError, match=r"int8.qkv was made of other weights; make it with: qkv quantize"):
        open_reader(loaded, "int8")
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-64])
    with pytest.raises(InputError, match=r"int8.qkv cannot be used: it has .*; make it with: qkv quantize"):
        open_reader(loaded, "int8")
    assert np.array_equal(qkv.load(tmp_path, task="embed").embed(TEXTS), exact)
    assert "engine int8 is left out: " in capsys.readouterr().err
    (tmp_path / FILE).unlink()
    assert np.array_equal(qkv.load(tmp_path, task="embed", engine="auto").embed(TEXTS), exact)


@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "c++")), reason="there is no C++ compiler")
def test_the_engine_is_there_where_a_compiler_is() -> None:
    """Or else all its tests are skipped, and nobody notices."""
    assert is_built(), "build it: python native/build.py"


def test_where_no_engine_was_built_float32_reads_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_untrained(tmp_path, "bert", tokenizer(*TEXTS, size=300, kind="wordpiece"), {"task": "fill"})
    exact = qkv.load(tmp_path, task="embed", engine="plain").embed(TEXTS)
    tell_once.cache_clear()
    monkeypatch.setattr(library, "LIBRARY", str(tmp_path / "none.so"))
    library.library.cache_clear()
    try:
        for name in ("int8", "float32", "auto"):
            assert np.array_equal(qkv.load(tmp_path, task="embed", engine=name).embed(TEXTS), exact)
        with pytest.raises(InputError, match=r"the native engine is not built here .*; install one and qkv again"):
            library.Native(tmp_path / FILE)
    finally:
        library.library.cache_clear()
    assert capsys.readouterr().err.count("the native engine is not built here") == 1


@needs_engine
@torch.inference_mode()
def test_a_real_encoder_says_the_same_in_fewer_bits(tmp_path: Path) -> None:
    """MiniLM, whose channels differ as those of small random weights do not: 8 bits are better for the smoothing."""
    place, lines = package("minilm"), read_lines(real("wikitext-2", "valid.txt.gz"))
    texts = [one.strip() for line in islice(lines, 200) for one in line.split(" . ") if len(one) > 20][:70]
    embedder = qkv.load(place, engine="plain")
    exact, model, backbone = embedder.embed(texts[50:]), embedder.loaded.model, embedder.backbone
    smooth = smoothing(backbone, [ids[:254] for ids in embedder.tokenizer.encode_batch(texts[:50])])
    write(tmp_path / "rough.qkv", backbone)
    write(tmp_path / "smooth.qkv", backbone, smooth=smooth)
    forms = {
        "float32": (native_reader(model, in_memory(backbone)), 0.999999),
        **{name: (native_reader(model, Native(tmp_path / f"{name}.qkv")), 0.99) for name in ("rough", "smooth")},
    }  # fmt: skip
    means = {}
    for name, (embedder.reader, least) in forms.items():
        means[name] = (embedder.embed(texts[50:]) * exact).sum(axis=1).mean()
        assert means[name] > least, name
    assert 1 - means["smooth"] < 0.7 * (1 - means["rough"])


@pytest.mark.parametrize("head", ["pooled", "number", "classes(n=3)", "tags(n=3)"])
def test_labels_are_compared_where_a_head_names_classes(head: str) -> None:
    """And not where the (B, n) that it gives are anything else: a sentence encoder's pooler has no label."""
    plain = Headed(model("bert"), {head.partition("(")[0]: head}).eval()
    found = likeness(plain, opened(plain), [[5, 6, 7], [8, 9]])
    assert found["cosine"] > 0.9999
    assert ("same_labels" in found) == (head == "classes(n=3)")


# -- which -------------------------------------------------------------------------------------------------------------


def test_what_has_no_native_form_is_read_as_it_is() -> None:
    for other in (model("bert", position="rotary"), model("bert", attention="additive"), tiny_model("hierarchical")):
        assert not has_native_form(other)
        assert opened(other) is other
    plain = model("bert")
    assert open_reader(Loaded(plain, tokenizer(), {}), "plain") is plain
    assert (opened(plain) is not plain) == is_built()


def test_the_old_name_is_read_and_the_new_one_said(capsys: pytest.CaptureFixture[str]) -> None:
    open_reader(Loaded(model("bert"), tokenizer(), {}), "lean")
    assert "the engine lean is called float32 now; write float32\n" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["float32", "plain"])
def test_attention_is_recorded_whatever_the_engine(engine: str, tmp_path: Path) -> None:
    save_untrained(tmp_path, "bert", tokenizer(*TEXTS, size=300, kind="wordpiece"), {"task": "fill"})
    embedder = qkv.load(tmp_path, task="embed", engine=engine)
    before = embedder.reader
    with qkv.record_attention(embedder) as maps:
        embedder.embed("two dogs")
    assert [*maps] == ["encoder.blocks.0.attention"]
    assert embedder.reader is before


@refused({
    "int9": "unknown engine 'int9' for a model that reads; did you mean 'int8'",
    "int8": "has no int8.qkv; make it with: qkv quantize",
})  # fmt: skip
def test_what_cannot_be_read_is_refused(wrong: str, tmp_path: Path) -> None:
    save_untrained(tmp_path, "bert", tokenizer(), {"task": "fill"})
    qkv.load(tmp_path, task="embed", engine=wrong)


def test_every_reader_is_in_the_help() -> None:
    from qkv.cli.app import READERS as SAID

    assert all(name in SAID for name in READERS)
