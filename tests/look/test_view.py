"""What a page shows: every key, and numbers that are the model's own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kit import tiny_model, tokenizer
from qkv.decoding import Translator
from qkv.decoding.trace import trace
from qkv.errors import InputError
from qkv.look import view as module
from qkv.look.sentence import Look, look_at_ids
from qkv.look.steps import worked_example
from qkv.look.view import Attention, architecture_view, attention_view, curves_view, explain_view, positions_view, view
from qkv.models import Model, count_parameters

TOKENIZER = tokenizer("two dogs play in the snow")
TEXT = "two dogs play"
KEYS = {"model", "text", "translation", "score", "alternatives", "remarks", "source_tokens", "target_tokens",
        "token_scores", "source_words", "target_words", "alignment", "attention", "steps"}  # fmt: skip


def transformer(**others: Any) -> Model:
    return tiny_model("transformer", **{"vocab_size": len(TOKENIZER), "decoder_layers": 2, "max_length": 12, **others})


def recurrent() -> Model:
    return tiny_model("recurrent", vocab_size=len(TOKENIZER), max_length=12)


@pytest.mark.parametrize("make", [transformer, recurrent])
def test_a_view_is_plain_data_with_every_key(make: Any) -> None:
    translator = Translator(make(), TOKENIZER, {"source": "en", "target": "de"})
    found = view(translator, TEXT, beam=3, n_best=2)
    assert found.keys() == KEYS
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["model"].keys() == {"name", "source", "target", "architecture", "parameters", "config"}
    assert found["model"]["architecture"] == make.__name__
    assert found["model"]["parameters"] == count_parameters(translator.model)
    assert len(found["alternatives"]) == 2
    assert len(found["token_scores"]) == len(found["target_tokens"])
    for step in found["steps"]:
        assert step.keys() == {"live", "finished"}
        assert all(one.keys() == {"tokens", "score", "parent"} for one in step["live"])
        assert all(one.keys() == {"text", "score"} for one in step["finished"])
    for s, t in found["alignment"]:
        assert 0 <= s < len(found["source_words"])
        assert 0 <= t < len(found["target_words"])


def test_the_weights_are_the_models_own_and_stand_under_their_tokens() -> None:
    translator = Translator(transformer(), TOKENIZER, {})
    found = view(translator, TEXT)
    traced = trace(translator, TEXT)
    look = look_at_ids(translator, traced.source_ids, traced.target_ids)
    assert [one["name"] for one in found["attention"]] == list(look.maps)
    read = ["<s>", *found["target_tokens"][:-1]]
    labels = {"encoder": (found["source_tokens"], found["source_tokens"]), "decoder": (found["target_tokens"], read),
              "memory": (found["target_tokens"], found["source_tokens"])}  # fmt: skip
    for one in found["attention"]:
        assert (one["rows"], one["columns"]) == labels[one["kind"]]
        torch.testing.assert_close(torch.tensor(one["weights"]), look.maps[one["name"]], atol=5.1e-5, rtol=0)
        assert one["heads"] == len(one["weights"]) == 2
    assert [(one["kind"], one["layer"]) for one in found["attention"]] == [
        ("encoder", 0), ("decoder", 0), ("memory", 0), ("decoder", 1), ("memory", 1)]  # fmt: skip


def test_a_long_sentence_has_the_mean_of_its_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 tokens in 6 layers of 8 heads would be 12 million numbers of each kind."""
    weights = torch.rand(4, 30, 20).softmax(-1)
    names = {"encoder.blocks.0.attention": weights[:, :20], "decoder.blocks.0.memory_attention": weights}
    look = Look([f"s{i}" for i in range(20)], [f"t{i}" for i in range(30)], names)
    monkeypatch.setattr(module, "MOST", 2000)  # of numbers of one kind: 4 x 20 x 20 are fewer, 4 x 30 x 20 are more
    own, memory = attention_view(look)
    assert [(one["heads"], one["all_heads"]) for one in (own, memory)] == [(4, 4), (1, 4)]
    torch.testing.assert_close(torch.tensor(memory["weights"]), weights.mean(0, keepdim=True), atol=5.1e-5, rtol=0)
    assert own["remark"] == ""
    assert memory["remark"] == "the mean over 4 heads: each of them would be too many numbers for so long a sentence"


def test_one_layer_or_one_head_of_a_long_sentence_is_given_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.rand(2, 4, 20, 20).softmax(-1)
    words = [f"s{i}" for i in range(20)]
    look = Look(words, words, {f"encoder.blocks.{i}.attention": weights[i] for i in range(2)})
    monkeypatch.setattr(module, "MOST", 1000)
    (second,) = attention_view(look, Attention(kind="encoder", layer=1))
    torch.testing.assert_close(torch.tensor(second["weights"]), weights[1], atol=5.1e-5, rtol=0)
    for layer, one in enumerate(attention_view(look, Attention(head=2))):
        torch.testing.assert_close(torch.tensor(one["weights"]), weights[layer, 2:3], atol=5.1e-5, rtol=0)
        assert (one["layer"], one["heads"], one["all_heads"]) == (layer, 1, 4)
    assert [one["heads"] for head in (-1, 4) for one in attention_view(look, Attention(head=head))] == [0] * 4
    assert attention_view(look, Attention(kind="memory")) == attention_view(look, Attention(layer=2)) == []
    monkeypatch.setattr(module, "MOST_OF_LAYER", 1599)  # 4 x 20 x 20 are one more
    assert [one["heads"] for one in attention_view(look, Attention(layer=1))] == [1]


def test_positions_and_their_products() -> None:
    found = positions_view(Translator(transformer(), TOKENIZER, {}))["positions"]
    table = torch.tensor(found["table"])
    assert table.shape == (12, 16)
    torch.testing.assert_close(table[0], torch.tensor([0.0, 1.0] * 8))  # sin 0, cos 0
    torch.testing.assert_close(torch.tensor(found["gram"]), table @ table.T, atol=2e-3, rtol=0)
    for model in (transformer(position="rotary"), recurrent()):
        assert positions_view(Translator(model, TOKENIZER, {})) == {"positions": {"table": [], "gram": []}}


def test_the_other_views(tmp_path: Path) -> None:
    translator = Translator(transformer(), TOKENIZER, {})
    (first, *_) = architecture_view(translator)["architecture"]["boxes"]
    assert first == {"stack": "encoder", "label": "Input embedding", "about": f"{len(TOKENIZER)} x 16",
                     "parameters": 16 * len(TOKENIZER), "times": 1, "around": 0, "from_encoder": False}  # fmt: skip
    assert curves_view(tmp_path) == {"curves": {"train": [], "valid": []}}
    train = [{"event": "train", "step": step, "loss": 3.0 - step} for step in (1, 2)]
    valid = [{"event": "valid", "step": 1, "loss": 1.5}, {"event": "valid", "step": 2, "loss": 1.2, "bleu": 7.5}]
    events = [*train, *valid]
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert curves_view(tmp_path) == {
        "curves": {"train": [[1, 2.0], [2, 1.0]], "valid": [[1, 1.5, None], [2, 1.2, 7.5]]}
    }
    steps = explain_view(translator, TEXT, "decoder", 2)["steps"]
    assert steps[0].keys() == worked_example()[0].to_tree().keys()
    json.dumps(steps, allow_nan=False)
    cells = [cell for step in steps for row in step["values"] for cell in row if cell is not None]
    assert all(cell == round(cell, 4) for cell in cells)


def test_mistakes_are_said_in_words() -> None:
    translator = Translator(transformer(), TOKENIZER, {})
    with pytest.raises(InputError, match="there is no text to look at"):
        view(translator, "")
    with pytest.raises(InputError, match="there is no stack 'middle' in a transformer; give encoder or decoder"):
        explain_view(translator, TEXT, "middle")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no layer 3 in this decoder; give 1 to 2"):
        explain_view(translator, TEXT, "decoder", 3)
    with pytest.raises(InputError, match="look at one sentence at a time"):
        explain_view(translator, TEXT * 9)
