"""A head on every backbone: shapes, gradients, padding, saved and loaded; and transformers' own classifier."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from kit import along, close, padded, stirred, tiny_model, tokenizer
from qkv import folder
from qkv.models import MODELS, Backbone, Headed, Model, Transformer, TransformerConfig

TOKENIZER = tokenizer("a b c d", size=266, kind="characters")  # each of which is a word
V, B, T = len(TOKENIZER), 4, 9
LENGTHS = [T, 5, 1, 7]
BACKBONES = [name for name, kind in MODELS.items() if issubclass(kind, Backbone)]
HEADS = {
    "classes(n=3)": (B, 3),
    "classes(n=3, pool='mean')": (B, 3),
    "number": (B,),
    "tags(n=5)": (B, T, 5),
    "spans": (B, 2, T),
}
SIZES = {"vocab_size": V, "d_model": 16, "d_ff": 24, "n_heads": 4, "layers": 2, "encoder_layers": 2, "max_length": 20,
         "dropout": 0.0, "attention_bias": True}  # fmt: skip


def backbone(name: str) -> Backbone:
    built = stirred(tiny_model(name, **SIZES), 0.1)
    assert isinstance(built, Backbone)
    built.know(TOKENIZER)
    return built


@pytest.fixture(params=[(name, head) for name in BACKBONES for head in HEADS], ids=lambda part: "-".join(part))
def model(request: pytest.FixtureRequest) -> Headed:
    name, head = request.param
    return Headed(backbone(name), {"asked": head}).eval()


@pytest.fixture
def ids() -> Tensor:
    return padded(LENGTHS, V)


def test_the_answer_has_its_shape(model: Headed, ids: Tensor) -> None:
    outputs = model(ids)
    assert outputs.answer("asked").shape == HEADS[model.head_texts["asked"]]
    assert torch.equal(outputs.hidden, model.backbone.encode(ids))


def test_every_parameter_gets_a_finite_gradient(model: Headed, ids: Tensor) -> None:
    second = (torch.arange(ids.size(1)) > 2).expand_as(ids).long()
    answer = model(ids, **({"segments": second} if "segments" in model.inputs() else {})).answer("asked")
    answer = answer.where(answer.isfinite(), 0)
    (answer * along(answer)).sum().backward()
    for name, parameter in model.named_parameters():
        if ".projection." in name or name == "backbone.query":  # which no head asks
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if ".key.bias" not in name and ".back." not in name:  # softmax sees none; from the last word, no step back is
            assert parameter.grad.abs().max() > 1e-7, name


def test_a_row_alone_equals_the_row_in_a_batch(model: Headed, ids: Tensor) -> None:
    together = model(ids).answer("asked")
    for row, length in enumerate(LENGTHS):
        own = (slice(length),) if model.head_texts["asked"].startswith("tags") else (..., slice(length))
        alone = model(ids[row : row + 1, :length]).answer("asked")[0]
        found = together[row][own] if model.head_texts["asked"].startswith(("tags", "spans")) else together[row]
        close(found, alone)


def test_float64_equals_float32(model: Headed, ids: Tensor) -> None:
    narrow = model(ids).answer("asked")
    close(model.double()(ids).answer("asked").float(), narrow)


def test_what_is_saved_is_what_is_loaded(model: Headed, ids: Tensor, tmp_path: Path) -> None:
    folder.save(tmp_path, model, TOKENIZER, {"task": "classify"})
    loaded = folder.load(tmp_path).model
    assert isinstance(loaded, Headed)
    assert loaded.head_texts == model.head_texts
    assert loaded.backbone.config == model.backbone.config
    assert torch.equal(loaded(ids).answer("asked"), model(ids).answer("asked"))


def test_a_head_on_a_translators_encoder_begins_with_its_weights(ids: Tensor) -> None:
    torch.manual_seed(3)
    known = {key: value for key, value in SIZES.items() if key != "layers"}
    translator = Transformer(TransformerConfig(**known, decoder_layers=1)).eval()
    headed = Headed(MODELS["transformer_encoder"](translator.config), {"tags": "tags(n=2)"}).eval()
    taken, new = folder.start_from(headed, folder.Loaded(translator, TOKENIZER, {}), "a translator")
    assert new == ["heads.tags.output.weight", "heads.tags.output.bias"]
    assert len(taken) + len(new) == len(list(headed.named_parameters()))
    torch.testing.assert_close(headed(ids).hidden, translator.encode(ids)[0])


def test_a_model_with_hard_attention_begins_with_its_baselines() -> None:
    """Each is a number of its own, no table with rows."""
    old = stirred(tiny_model("recurrent", attention="hard"), 0.1)
    new = tiny_model("recurrent", attention="hard")
    assert isinstance(old, Model)
    assert folder.start_from(new, folder.Loaded(old, TOKENIZER, {}), "a translator")[1] == []
    assert all(torch.equal(a, b) for a, b in zip(new.parameters(), old.parameters(), strict=True))
    assert any(parameter.dim() == 0 for parameter in new.parameters())
