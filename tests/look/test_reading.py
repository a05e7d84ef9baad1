"""Looking at models that read: what is shown is the softmax of their own queries and keys, whatever stands on them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import draw, refused, stirred, tiny_model, tokenizer
from qkv.attention import recording
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.look import look_at, view
from qkv.look.explain import explain
from qkv.look.gallery import PICTURES
from qkv.look.picture import Given
from qkv.look.view import Attention, architecture_view, positions_view
from qkv.models import MODELS, Backbone, CausalBackbone, Headed
from qkv.objectives.answers import reading
from qkv.text.tokenizer import Tokenizer

WORDS = Tokenizer.train(
    ["the cat sat on the mat, it was tired"] * 3, kind="wordpiece", vocab_size=80, specials=["<mask>", "<sep>", "<cls>"]
)
FIELDS = {name: kind.config_class.__dataclass_fields__ for name, kind in MODELS.items() if issubclass(kind, Backbone)}
BACKBONES = [name for name, fields in FIELDS.items() if "attention" in fields]  # others have nothing to look at
LAYERS, HEADS = 2, 4
TEXT, SECOND = "the <mask> sat", "it was"


def opened(name: str, *, headed: bool = False, **settings: Any) -> Loaded:
    sizes = {"layers": LAYERS, "encoder_layers": LAYERS, "n_heads": HEADS, "max_length": 20, "attention_bias": True}
    model: Any = stirred(tiny_model(name, vocab_size=len(WORDS), **sizes, **settings), 0.3).eval()
    return Loaded(Headed(model, {"tags": "tags(n=3)"}).eval() if headed else model, WORDS, {}, None)


def plain_weights(model: Any, ids: Tensor, *, causal: bool) -> list[Tensor]:
    """softmax(Q K^T / sqrt(d_k)) of each layer (H, T, T), from what each block reads, by the formula."""
    stack, found = getattr(model, "encoder", None) or model.decoder, list[Tensor]()

    def keep(attention: Any, given: tuple[Any, ...], _: Any) -> None:
        x = given[0][0]  # (T, D)
        q, k = (x @ part.weight.T + part.bias for part in (attention.query, attention.key))
        q, k = (one.view(len(x), HEADS, -1).transpose(0, 1) for one in (q, k))  # (H, T, K)
        scores = q @ k.transpose(1, 2) / q.size(-1) ** 0.5
        if causal:
            scores += torch.full_like(scores, -torch.inf).triu(diagonal=1)
        found.append(scores.softmax(dim=-1))

    handles = [block.attention.register_forward_hook(keep) for block in stack.blocks]
    with torch.inference_mode():
        model.encode(**reading(ids))
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("headed", [False, True], ids=["alone", "headed"])
@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("second", ["", SECOND])
def test_what_is_shown_is_the_softmax_of_queries_and_keys(name: str, headed: bool, second: str) -> None:
    given = opened(name, headed=headed)
    model: Any = given.model.backbone if headed else given.model
    is_causal = isinstance(model, CausalBackbone)
    texts = [WORDS.encode(text, specials=True) for text in (TEXT, second) if text]
    ids = torch.tensor([model.frame.join(WORDS, texts, 20)[0]])
    look = look_at(given, TEXT, second)
    kind = "decoder" if is_causal else "encoder"
    assert look.source == WORDS.pieces(ids[0].tolist())
    assert look.labels[kind] == (look.source, look.source)
    expected = plain_weights(model, ids, causal=is_causal)
    with recording(model) as maps:
        model.encode(**reading(ids))
    assert len(look.of_kind(kind)) == len(look.maps) == LAYERS
    for mine, own, recorded in zip(look.of_kind(kind), expected, maps.values(), strict=True):
        if model.config.position == "learned":  # else places have a part in the scores, which their own tests look at
            torch.testing.assert_close(mine, own, atol=1e-5, rtol=0)
        assert torch.equal(mine, recorded[0])
        torch.testing.assert_close(mine.sum(dim=-1), torch.ones(HEADS, len(look.source)))
        assert bool(mine.triu(diagonal=1).any()) is not is_causal, "a triangle, if it may not see ahead"


def test_the_page_names_all_of_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "look.md").read_text(encoding="utf-8")
    sentence = page.partition("## Models that read\n")[2].partition("), alone or")[0]
    assert {*re.findall(r"`(\w+)`", sentence)} == {*BACKBONES}


def test_special_tokens_stand_by_their_names() -> None:
    """BERT's frame of two texts, RoBERTa's and GPT-2's."""
    words = {"bert": "<s> the <mask> sat </s> it was </s>", "roberta": "<s> the <mask> sat </s> </s> it was </s>",
             "gpt2": "</s> the <mask> sat </s> it was </s>"}  # fmt: skip
    for name, frame in words.items():
        assert " ".join(look_at(opened(name), TEXT, SECOND).source) == frame


def test_segments_are_those_of_the_two_texts() -> None:
    """Other vectors for what comes second change the weights of two texts, and leave those of one as they were."""
    given: Any = opened("bert")
    two, one = look_at(given, TEXT, SECOND), look_at(given, f"{TEXT} {SECOND}")
    with torch.no_grad():
        given.model.tokens.segments[1] += draw(given.model.width)
    for before, after in zip(two.maps.values(), look_at(given, TEXT, SECOND).maps.values(), strict=True):
        assert not torch.allclose(before, after, atol=1e-3)
    for before, after in zip(one.maps.values(), look_at(given, f"{TEXT} {SECOND}").maps.values(), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_view_is_plain_data(name: str) -> None:
    given = opened(name)
    found = view.view(given, TEXT, second=SECOND)
    assert found.keys() == {"model", "text", "second", "tokens", "attention"}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["model"]["architecture"] == name
    look = look_at(given, TEXT, SECOND)
    for layer, (one, weights) in enumerate(zip(found["attention"], look.maps.values(), strict=True)):
        assert (one["layer"], one["heads"], one["rows"], one["columns"]) == (layer, HEADS, look.source, look.source)
        torch.testing.assert_close(torch.tensor(one["weights"]), weights, atol=5.1e-5, rtol=0)
    (second,) = view.view(given, TEXT, Attention(layer=1, head=2))["attention"]
    assert (second["layer"], second["heads"], second["all_heads"]) == (1, 1, HEADS)
    (first, *_) = architecture_view(given)["architecture"]["boxes"] or [None]
    assert first is None or "parameters" in first


def test_positions_are_those_of_the_backbone() -> None:
    given = opened("gpt2", headed=True)
    table = torch.tensor(positions_view(given)["positions"]["table"])
    own = given.model.backbone.decoder.positions[0].weight  # type: ignore[union-attr, index]
    torch.testing.assert_close(table, own.detach(), atol=5.1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_pictures_of_an_encoder_are_drawn_of_any_backbone(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib; pip install 'qkv[look]'")
    given = opened(name)
    PICTURES["heat-map"](Given(given, "the cat sat, it was tired")).save(tmp_path / "map.png")
    data = json.loads((tmp_path / "map.json").read_text())
    weights = [*look_at(given, "the cat sat, it was tired").maps.values()][data["layer"]][data["head"]]
    torch.testing.assert_close(torch.tensor(data["weights"]), weights)
    assert data["tokens"][data["query"]] == "it"
    with pytest.raises(InputError, match="this picture shows a translator at work, and the model is none; give one"):
        PICTURES["decoding"](Given(given))


@pytest.mark.parametrize("headed", [False, True], ids=["alone", "headed"])
@pytest.mark.parametrize("name", BACKBONES)
def test_its_computation_is_told_step_by_step(name: str, headed: bool) -> None:
    """The weights are those that are shown, and the last step of the last block is what the stack gives."""
    given = opened(name, headed=headed)
    model: Any = given.model.backbone if headed else given.model
    steps = {step.title: step for step in explain(given, TEXT, layer=LAYERS, head=3)}
    look = look_at(given, TEXT)
    assert steps["weights"].rows == steps["weights"].columns == look.source
    torch.testing.assert_close(steps["weights"].values.float(), [*look.maps.values()][-1][2], atol=1e-5, rtol=0)
    ids = torch.tensor([model.frame.join(WORDS, [WORDS.encode(TEXT, specials=True)], 20)[0]])
    stack = getattr(model, "encoder", None) or model.decoder
    with torch.inference_mode():
        last = model.encode(**reading(ids))[0]
    torch.testing.assert_close(stack.norm(steps["output of the block"].values.float()), last, atol=1e-5, rtol=0)
    is_causal = isinstance(model, CausalBackbone)
    assert ("masked scores" in steps) is is_causal
    if is_causal:
        assert "itself and what stands before it" in steps["masked scores"].about
    if name == "bert":
        assert steps["embeddings"].equation == "E[token] + S[segment]"
        assert steps["positions"].equation == "LayerNorm(E + P)"
    with pytest.raises(InputError, match=r"there is no head 5 in this (en|de)coder; give 1 to 4"):
        explain(given, TEXT, head=5)


@refused({
    (" ", ""): "there is no text to look at; give a sentence",
    ("cat", " "): "there is no text to look at; give a sentence",
    ("the cat " * 6, SECOND * 3): r"the text has \d+ tokens, but the model reads 20 at once, special ones among them",
}, "text second")  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str, second: str) -> object:
    return look_at(opened("bert"), text, second)


def test_a_model_of_another_kind_has_nothing_to_look_at() -> None:
    model = tiny_model("reader")
    with pytest.raises(InputError, match="reader models neither translate nor read a text token by"):
        look_at(Loaded(model, tokenizer(), {}, None), "the cat")


@pytest.mark.parametrize("headed", [False, True], ids=["alone", "headed"])
def test_a_model_without_attention_has_nothing_to_look_at(headed: bool) -> None:
    given = opened("awd_lstm", headed=headed)
    with pytest.raises(InputError, match="awd_lstm models neither translate nor read"):
        look_at(given, TEXT)
    with pytest.raises(InputError, match="only models of attention blocks have these steps, not awd_lstm models"):
        explain(given, TEXT)
