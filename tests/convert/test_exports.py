"""The same weights translate the same in CTranslate2, ONNX Runtime and transformers: token for token."""

import json
import random
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.convert.ctranslate2 import write_ctranslate2
from qkv.convert.export import write_hugging_face
from qkv.convert.families.marian import in_halves, write_marian
from qkv.convert.onnx import OnnxModel, write_onnx
from qkv.decoding import Hypothesis, Plain, Search, beam_search, padded
from qkv.decoding.greedy import greedy
from qkv.decoding.translator import longest_targets
from qkv.engines.ctranslate2 import CTranslate2, scored
from qkv.errors import InputError
from qkv.models import Transformer, TransformerConfig
from qkv.text.tokenizer import EOS, Tokenizer

Sources = list[list[int]]


def tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in some] for some in found]


# -- CTranslate2 -----------------------------------------------------------------------------------------------------


@pytest.fixture
def engine(variant: Transformer, tokenizer: Tokenizer, tmp_path: Path) -> CTranslate2:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    write_ctranslate2(tmp_path, variant, tokenizer, {})
    return CTranslate2(tmp_path, variant, tokenizer)


def test_ctranslate2_searches_as_we_do(engine: CTranslate2, variant: Transformer, sources: Sources) -> None:
    """Greedy and beams, with any length penalty; scores and whether the end was reached too."""
    for how in (
        Search(beam=1),
        Search(beam=4),
        Search(beam=4, alpha=0.0),
        Search(beam=3, alpha=2.5),
        Search(beam=2, alpha=4.0),
    ):
        limits = longest_targets(sources, variant.config.max_length)
        ours, theirs = Plain(variant).decode(sources, limits, how), engine.decode(sources, limits, how)
        assert tokens(theirs) == tokens(ours), how
        for own, other in zip(chain(*ours), chain(*theirs), strict=True):
            assert other.score == pytest.approx(own.score, abs=1e-4)
            assert other.log_probability == pytest.approx(own.log_probability, abs=1e-4)
            assert other.ended == own.ended


def test_ctranslate2_in_8_bits_scores_as_the_library_does(
    engine: CTranslate2, variant: Transformer, tokenizer: Tokenizer, tmp_path: Path, sources: Sources
) -> None:
    """The same folder, computed in bytes: other numbers than in float32, and those of CTranslate2 itself."""
    rounded = CTranslate2(tmp_path, variant, tokenizer, compute="int8")
    assert (engine.name, rounded.name) == ("ctranslate2", "ctranslate2-int8")
    own = engine.library.Translator(str(tmp_path), compute_type="int8", intra_threads=1)
    found, exact = (one.searched(sources, Search(beam=1), 20) for one in (rounded, engine))
    lengths = {"min_decoding_length": 0, "max_decoding_length": 20}
    spelled = [[rounded.words[number] for number in ids] for ids in sources]
    theirs = [result.hypotheses[0] for result in own.translate_batch(spelled, beam_size=1, **lengths)]
    assert [some[0].tokens for some in found] == [[rounded.ids[word] for word in words] for words in theirs]
    assert [some[0].log_probability for some in found] != [some[0].log_probability for some in exact]
    with pytest.raises(InputError, match="cannot compute in int8_float16 on this cpu; use ctranslate2"):
        CTranslate2(tmp_path, variant, tokenizer, compute="int8_float16")


@given(st.integers(2, 5), st.floats(0, 5), st.randoms(use_true_random=False))
def test_the_best_is_never_among_those_that_ctranslate2_drops(beam: int, alpha: float, rng: random.Random) -> None:
    """As a search leaves them: fewer than `beam` ended before the last step, and some, up to `beam`, in it."""
    last = rng.randint(2, 30)
    lengths = [rng.randint(1, last - 1) for _ in range(rng.randint(0, beam - 1))]
    lengths += [last] * rng.randint(beam - len(lengths), beam)
    ended = [scored([4] * (n - 1), -rng.uniform(9, 10), alpha) for n in lengths]
    kept = sorted(ended, key=lambda h: -h.log_probability)[:beam]
    assert max(h.score for h in kept) == max(h.score for h in ended)


@pytest.mark.parametrize(
    "how",
    [
        Search(beam=1, no_repeat=2),
        Search(beam=3, no_repeat=2),
        Search(sampling=True, n_best=3, top_k=5, seed=7),
        Search(beam=3, alpha=-4.0),
    ],
    ids=["greedy without repetitions", "beam without repetitions", "sampling", "short ones"],
)
def test_what_ctranslate2_does_otherwise_is_done_by_ours(
    how: Search, model: Transformer, tokenizer: Tokenizer, sources: Sources, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed; pip install 'qkv[ctranslate2]'")
    write_ctranslate2(tmp_path, model, tokenizer, {})
    plain, engine = Plain(model), CTranslate2(tmp_path, model, tokenizer)
    limits = longest_targets(sources, model.config.max_length)
    ours = tokens(plain.decode(sources, limits, how))
    assert tokens(engine.decode(sources, limits, how)) == ours
    assert ours != tokens(plain.decode(sources, limits, Search(beam=how.beam)))


# -- ONNX ------------------------------------------------------------------------------------------------------------


def test_onnx_graphs_step_as_we_do(
    variant: Transformer, tokenizer: Tokenizer, sources: Sources, tmp_path: Path
) -> None:
    """Our own searches over the graphs: other batch sizes and lengths than those of the trace, beams that move."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed; pip install 'qkv[onnx]'")
    write_onnx(tmp_path, variant, tokenizer, {})
    graphs, src, limits = OnnxModel(tmp_path), padded(sources), longest_targets(sources, variant.config.max_length)
    for own, other in zip(greedy(variant, src, limits), greedy(graphs, src, limits), strict=True):
        assert other.tokens == own.tokens
        assert other.score == pytest.approx(own.score, abs=1e-4)
    ours, theirs = (beam_search(model, src, limits, beam=3) for model in (variant, graphs))
    assert tokens(theirs) == tokens(ours)


# -- Hugging Face ----------------------------------------------------------------------------------------------------


def test_transformers_generates_as_we_do(
    variant: Transformer, tokenizer: Tokenizer, sources: Sources, tmp_path: Path
) -> None:
    """With no length penalty, both rank by log p."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")
    write_marian(tmp_path, variant, tokenizer, {})
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, local_files_only=True)
    src = padded(sources)
    for beam in (1, 4):
        rows = theirs.generate(
            input_ids=src, attention_mask=(src != 0).long(), num_beams=beam, length_penalty=0.0, early_stopping=beam > 1
        ).tolist()  # fmt: skip
        limits = longest_targets(sources, variant.config.max_length)
        for found, own in zip(rows, Plain(variant).decode(sources, limits, Search(beam=beam, alpha=0.0)), strict=True):
            if own[0].ended:
                assert found[1 : found.index(EOS)] == own[0].tokens


def test_transformers_reads_text_as_we_do(model: Transformer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")
    write_marian(tmp_path, model, tokenizer, {})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in ("two dogs", "Schnee, äh? 漢字 🙂", "a </s> b <pad>", "x" * 30):
        assert theirs(text).input_ids == [*tokenizer.encode(text), EOS]
        assert theirs.decode(theirs(text).input_ids, skip_special_tokens=True) == text


def test_columns_in_another_order_are_the_same_model(model: Transformer, sources: Sources) -> None:
    """Sines before cosines, in weights and positions alike: the same logits."""
    sizes = {name: getattr(model.config, name) for name in ("vocab_size", "d_model", "d_ff", "n_heads", "max_length")}
    other = Transformer(
        TransformerConfig(**sizes, encoder_layers=2, decoder_layers=2, position="sinusoidal(layout='halves')")
    ).eval()
    other.load_state_dict(in_halves(model.state_dict(), 32))
    src = padded(sources)
    with torch.no_grad():
        torch.testing.assert_close(other(src, src).logits, model(src, src).logits, atol=1e-4, rtol=0)


# -- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_ctranslate2, write_onnx, write_hugging_face])
def test_our_own_weights_stay_as_they_are(
    write: Callable[..., None], model: Transformer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """CTranslate2 rounds what it is given in place; it must be a copy."""
    before = [weight.clone() for weight in model.parameters()]
    write(tmp_path, model, tokenizer, {}, "int8")
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_rounded_weights_are_smaller(model: Transformer, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for name in ("", "int8"):
        (tmp_path / f"m{name}").mkdir()
        write_ctranslate2(tmp_path / f"m{name}", model, tokenizer, {}, name)
    sizes = [(tmp_path / f"m{name}" / "model.bin").stat().st_size for name in ("", "int8")]
    assert sizes[1] < 0.5 * sizes[0]
    assert json.loads((tmp_path / "m" / "config.json").read_text())["add_source_eos"] is True
    with pytest.raises(InputError, match="unknown quantization 'int7'; did you mean 'int8'"):
        write_ctranslate2(tmp_path, model, tokenizer, {}, "int7")
