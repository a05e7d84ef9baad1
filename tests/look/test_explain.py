"""qkv explain: the worked example's numbers, and that a model's steps are the model's own."""

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from kit import tiny_model, tokenizer
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.look import page
from qkv.look.explain import explain
from qkv.look.steps import Step, worked_example

TOKENIZER = tokenizer("two dogs play in the snow")
TEXT = "two dogs play"


@pytest.fixture(params=["post", "pre"])
def translator(request: pytest.FixtureRequest) -> Translator:
    model = tiny_model(
        "transformer", vocab_size=len(TOKENIZER), n_heads=4, encoder_layers=2, decoder_layers=2, max_length=1024,
        norm=request.param, dropout=0.1, position="learned",
    )  # fmt: skip
    return Translator(model, TOKENIZER, {})


def by_title(steps: list[Step]) -> dict[str, Tensor]:
    assert len({step.title for step in steps}) == len(steps)
    return {step.title: step.values for step in steps}


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected.double(), atol=1e-5, rtol=1e-5)


def softmax_by_hand(row: list[float]) -> list[float]:
    largest = max(row)
    raised = [math.exp(value - largest) for value in row]
    return [value / sum(raised) for value in raised]


def test_the_lectures_example_gives_the_lectures_numbers() -> None:
    """The six printed decimals of the lecture: Z = softmax(X X^T) X."""
    steps = by_title(worked_example(scaled=False))
    assert steps["scores"].tolist() == [[14, 10, 9], [10, 11, 6], [9, 6, 6]]
    printed = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]
    torch.testing.assert_close(steps["context"], torch.tensor(printed, dtype=torch.float64), atol=5e-7, rtol=0)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_the_example_is_what_a_loop_gives(scaled: bool, causal: bool) -> None:
    steps = by_title(worked_example(scaled=scaled, causal=causal))
    x = [[1, 3, 2], [1, 1, 3], [1, 2, 1]]
    for i in range(3):
        seen = range(i + 1) if causal else range(3)
        scores = [sum(a * b for a, b in zip(x[i], x[j], strict=True)) / (math.sqrt(3) if scaled else 1) for j in seen]
        weights = softmax_by_hand(scores)
        assert steps["weights"][i].tolist() == pytest.approx([*weights, 0, 0][:3], abs=1e-12)
        context = [sum(weights[j] * x[j][d] for j in seen) for d in range(3)]
        assert steps["context"][i].tolist() == pytest.approx(context, abs=1e-12)
    assert ("scaled scores" in steps, "masked scores" in steps) == (scaled, causal)


def test_it_begins_with_the_embeddings_and_ends_with_what_the_next_block_reads(translator: Translator) -> None:
    model = translator.model
    first, second = (by_title(explain(translator, TEXT, layer=layer)) for layer in (1, 2))
    ids = torch.tensor([*TOKENIZER.encode(TEXT), 2])
    close(first["embeddings"], model.source.weight[ids] * 4)
    close(first["positions"], first["embeddings"] + model.encoder.position.weight[: len(ids)])
    close(first["input of the block"], first["positions"])
    close(first["output of the block"], second["input of the block"])
    close(model.encoder.norm(second["output of the block"].float()), model.encode(ids[None])[0][0])


def test_no_hook_is_left_and_the_model_gives_the_same(translator: Translator) -> None:
    before = translator.translate(TEXT)
    explain(translator, TEXT)
    assert translator.translate(TEXT) == before
    assert not any(module._forward_hooks for module in translator.model.modules())


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"layer": 3}, "there is no layer 3 in this encoder; give 1 to 2"),
        ({"layer": 0}, "there is no layer 0"),
        ({"head": 5}, "there is no head 5 in this encoder; give 1 to 4"),
    ],
)
def test_what_is_not_there_is_refused(translator: Translator, asked: dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        explain(translator, TEXT, **asked)
    with pytest.raises(InputError, match="there is no text to explain"):
        explain(translator, " ")


def test_a_page_and_a_picture_hold_every_number(translator: Translator, tmp_path: Path) -> None:
    steps = explain(translator, '<b> "two" & dogs', stack="decoder")
    drawn = ElementTree.fromstring(page.save(steps, tmp_path / "steps.svg", "title").read_text(encoding="utf-8"))
    texts = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    for step in steps:
        assert f"{step.title}:  {step.equation}" in texts
        for row in step.values[:, :16].tolist():
            for value in row:
                assert page.number(value) in texts
    written = page.save(steps, tmp_path / "steps.html", "<b>").read_text(encoding="utf-8")
    assert "<b>" not in written
    assert "//" not in written.replace("http://www.w3.org/2000/svg", "")  # nothing from outside
    with pytest.raises(InputError, match=r"neither .html nor .svg"):
        page.save(steps, tmp_path / "steps.pdf", "")


def test_json_has_no_infinity() -> None:
    tree = [step.to_tree() for step in worked_example(causal=True)]
    again = json.loads(json.dumps(tree, allow_nan=False))
    masked = next(step for step in again if step["title"] == "masked scores")
    assert masked["values"][0][1:] == [None, None]


@pytest.mark.parametrize(
    ("attention", "score", "weights"),
    [
        ("scaled_dot", "q k^T / sqrt(4) = q k^T / 2", "softmax, head 1"),
        ("dot", "dot(q, k)", "softmax, head 1"),
        ("additive", "additive(q, k)", "softmax, head 1"),
        ("local_p", "q k^T / sqrt(4) = q k^T / 2", "local_p, head 1"),
        ("window(radius=1)", "q k^T / sqrt(4) = q k^T / 2", "softmax, head 1"),
    ],
)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_what_is_said_is_true_of_this_attention(attention: str, score: str, weights: str, stack: Any) -> None:
    model = tiny_model("transformer", vocab_size=len(TOKENIZER), n_heads=4, attention=attention)
    steps = {step.title: step for step in explain(Translator(model, TOKENIZER, {}), TEXT, stack=stack)}
    assert steps["scaled scores" if "sqrt" in score else "scores"].equation == score
    assert steps["weights"].equation == weights
    sums = steps["weights"].values.sum(-1)
    assert ("Each row sums to 1." in steps["weights"].about) == torch.allclose(sums, torch.ones_like(sums))
    if "masked scores" in steps:
        is_causal = not bool(steps["masked scores"].values.isfinite().triu(1).any())
        assert ("before it" in steps["masked scores"].about) == is_causal
