"""Backbones in other programs' formats: what CTranslate2 and ONNX Runtime say of texts is what we say."""

from pathlib import Path
from typing import Any

import ctranslate2
import onnxruntime
import pytest
import torch

from kit import (
    FACTS,
    ROUNDED,
    TEXTS,
    close,
    padded,
    refused,
    save_untrained,
    save_untrained_task,
    sizes,
    stirred,
    tiny_model,
    tokenizer,
)
from qkv import folder
from qkv.attention import masks
from qkv.cli.apart import APART
from qkv.convert import exporting
from qkv.decoding import Plain, Search
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import MODELS, Headed
from qkv.text.tokenizer import PAD

WORDS = tokenizer(*TEXTS, size=300, kind="wordpiece")
LONG = [*TEXTS, "two", " ".join(TEXTS * 5)]  # of lengths that the graph was not traced with
FILLS, WRITES = {"task": "fill"}, {"task": "language_model"}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("bert", {"segments": 2, "layers": 2}, FILLS),
    "distilled": ("bert", {"segments": 0, "activation": "relu"}, FILLS),
    "roberta": ("roberta", {"predicts": False}, {"task": "embed"}),
    "ernie2": ("ernie2", {}, FILLS),
    "transformer_encoder": ("transformer_encoder", {}, {"task": "embed"}),
    "unilm": ("unilm", {"layers": 2}, FILLS),
    "gpt": ("gpt", {"layers": 2}, WRITES),
    "gpt2": ("gpt2", {"layers": 2, "silent": [0, 1]}, WRITES),
    "llama": ("llama", {"layers": 2, "position": "rotary(base=500.0)"}, {**WRITES, "bos": True}),
    "llama, tied": ("llama", {"tied": True, "position": "rotary(layout='interleaved')"}, WRITES),
}  # fmt: skip
UNHELD = {"onnx": ("llama", "llama, tied"), "ctranslate2": ("ernie2", "transformer_encoder", "unilm")}
HELD = [(to, name) for to, others in UNHELD.items() for name in KINDS if name not in others]


def model_of(name: str, **others: Any) -> Loaded:
    kind, settings, about = KINDS[name]
    model = stirred(tiny_model(kind, vocab_size=len(WORDS), **{**settings, **others}), 0.3).eval()
    return Loaded(model, WORDS, about)  # type: ignore[arg-type]


def written(to: str, loaded: Loaded, place: Path, **how: Any) -> float | None:
    (place / "model.safetensors").write_bytes(b"")
    with exporting(to, place, place / "out", loaded.model, loaded.tokenizer, loaded.about, **how):
        pass
    return APART[to](place / "out", loaded, LONG)


@pytest.mark.parametrize(("to", "name"), HELD)
def test_they_say_what_we_say(to: str, name: str, tmp_path: Path) -> None:
    """And one weight of the other sign is seen."""
    loaded = model_of(name)
    assert written(to, loaded, tmp_path) <= 1e-5  # type: ignore[operator]
    with torch.no_grad():
        key = next(key for key, _ in loaded.model.named_parameters() if key.endswith("blocks.0.attention.key.weight"))
        loaded.model.get_parameter(key)[0] *= -1
    assert APART[to](tmp_path / "out", loaded, LONG) > 1e-4  # type: ignore[operator]


def test_a_graph_of_unilm_reads_in_its_four_ways(tmp_path: Path) -> None:
    """By the segments that it is given, whatever those were that it was traced with."""
    loaded = model_of("unilm")
    written("onnx", loaded, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    ids, model = padded([9, 6], len(WORDS)), loaded.model
    pair = torch.tensor([masks.SOURCE] * 5 + [masks.TARGET] * 4)
    for segment in (0, pair, masks.LEFT_TO_RIGHT, masks.RIGHT_TO_LEFT):
        segments = torch.zeros_like(ids) + segment
        [found] = session.run(["hidden"], {"ids": ids.numpy(), "segments": segments.numpy()})
        with torch.no_grad():
            expected = model.encode(ids, segments=segments)  # type: ignore[operator]
        close(torch.from_numpy(found)[ids != PAD], expected[ids != PAD])


@pytest.mark.parametrize("task", FACTS)
def test_a_graph_answers_as_heads_do(task: str, tmp_path: Path) -> None:
    loaded = folder.load(save_untrained_task(tmp_path / "m", task, WORDS, FACTS[task]))
    assert written("onnx", loaded, tmp_path) <= 1e-5  # type: ignore[operator]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_ctranslate2_writes_the_same(name: str, tmp_path: Path) -> None:
    loaded = model_of(name)
    written("ctranslate2", loaded, tmp_path)
    rows = [WORDS.encode(text)[:6] for text in TEXTS]
    pieces = WORDS.vocabulary()
    theirs = ctranslate2.Generator(str(tmp_path / "out"), intra_threads=1).generate_batch(
        [[pieces[number] for number in row] for row in rows], max_length=12, include_prompt_in_result=False
    )
    ours = Plain(loaded.model).decode(rows, [12] * len(rows), Search(beam=1, ends="cut"))
    assert [one.sequences_ids[0] for one in theirs] == [some[0].tokens for some in ours]


def test_rounded_weights_may_differ_a_little(tmp_path: Path) -> None:
    apart = written("ctranslate2", model_of("bert"), tmp_path, quantization=ROUNDED)
    assert apart is not None
    assert 1e-5 < apart < 0.2


@refused(
    [
        (("ctranslate2", "ernie2", {}), "ctranslate2 cannot hold ernie2 models, only a transformer, bert,"),
        (("ctranslate2", "transformer_encoder", {}), "ctranslate2 cannot hold transformer_encoder models"),
        (("ctranslate2", "gpt2", {"attention": "additive"}), "because of its setting attention='additive'"),
        (("ctranslate2", "bert", {"position": "rotary"}), "because of its setting position='rotary'"),
        (("ctranslate2", "bert", {"d_k": 4}), "because of its setting d_k=4"),
        (
            ("onnx", "llama", {}),
            "onnx cannot hold llama models, only a transformer or a backbone with attention that has no RMS norms",
        ),
        (("onnx", "gpt2", {"position": "t5"}), "because of its setting position='t5'"),
    ],
    "to name others",
)
def test_what_they_cannot_hold(to: str, name: str, others: dict[str, Any], tmp_path: Path) -> None:
    written(to, model_of(name, **others), tmp_path)


def test_a_graph_reads_and_does_not_write(tmp_path: Path) -> None:
    """UniLM is one stack that reads, and translates by reading again and again."""
    loaded = Loaded(tiny_model("unilm", vocab_size=len(WORDS)), WORDS, {"task": "translate"})
    with pytest.raises(InputError, match=r"how unilm models read, and not how they write, .* \(task translate\)"):
        written("onnx", loaded, tmp_path)


def test_heads_are_for_onnx_alone(tmp_path: Path) -> None:
    config = MODELS["bert"].config_class(**sizes("bert", vocab_size=len(WORDS)))
    loaded = Loaded(Headed(MODELS["bert"](config), {"classes": "classes(n=2)"}), WORDS, {"task": "classify"})
    with pytest.raises(
        Exception, match=r"no place for what stands on this backbone, classes\(n=2\); export it --to onnx"
    ):
        written("ctranslate2", loaded, tmp_path)
    filler = Loaded(loaded.model, WORDS, {"task": "fill"})  # whose head was for training
    assert written("ctranslate2", filler, tmp_path) <= 1e-5  # type: ignore[operator]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qkv.cli.export import export

    place = save_untrained(tmp_path / "m", "bert", WORDS, {"task": "fill"}, max_length=64)
    export(place, to="onnx")
    assert (place / "onnx" / "model.onnx").exists()
    export(place, tmp_path / "c", to="ctranslate2")
    said = capsys.readouterr().out
    assert said.count("25 texts: states of tokens differ by at most") == 2
    assert "left out, since ctranslate2 has no place for it: what predicts words" in said
