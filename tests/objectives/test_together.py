"""Several objectives as one: a weighted sum of means against a computation by hand; texts that name no objective."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import batch, close, refused, tiny_model, tokenizer
from qkv.data import Place, generator
from qkv.errors import InputError
from qkv.objectives import (
    OBJECTIVES,
    Asked,
    CausalLM,
    Classes,
    Either,
    Together,
    Translation,
    in_full,
    leads,
    objective,
    plain,
)
from qkv.objectives.together import alternatives

BATCH = batch([[5, 6, 7, 9], [1]], [[8, 4], [0]], [[10, 11, 12], [1]])


class Both:
    """What a language model gives, and an answer beside it."""

    def __init__(self, outputs: Any, answer: Tensor) -> None:
        self.outputs, self.said = outputs, answer

    def answer(self, head: str) -> Tensor:
        assert head == "classes"
        return self.said

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outputs, name)


class Headed(nn.Module):
    """Reads a text, predicts its words, and its class from the mean of all states."""

    def __init__(self) -> None:
        super().__init__()
        self.body = tiny_model("gpt2", vocab_size=13)
        self.head = nn.Linear(16, 2)

    def forward(self, ids: Tensor, segments: Tensor | None = None, documents: Tensor | None = None) -> Both:
        outputs = self.body(ids, documents=documents)
        return Both(outputs, self.head(outputs.hidden.mean(dim=1)))


def asked_by(spec: str) -> tuple[Any, Asked]:
    found = objective(spec)
    return found, found.prepare(BATCH, generator(0, Place()))


def test_the_loss_is_the_weighted_sum_of_the_means() -> None:
    """3 texts and 6 words to predict: (1/3) sum of classes + (0.5/6) sum of words, by torch's own losses."""
    model = Headed()
    together, asked = asked_by("classes + 0.5 * causal_lm")
    assert asked.inputs.keys() == {"ids", "segments"}
    assert asked.inputs["ids"].shape == (3, 4)  # what the first objective reads
    assert asked.count == 3
    outputs = model(**asked.inputs)
    loss = together.loss(outputs, asked)
    labels, words = torch.tensor([1, 0, 1]), BATCH.columns[0][:, 1:]
    of_classes = F.cross_entropy(outputs.said, labels)
    of_words = F.cross_entropy(outputs.logits[:, :3].flatten(0, 1), words.flatten(), ignore_index=0)
    expected = of_classes + 0.5 * of_words
    close(loss.total / asked.count, expected)
    assert loss.counts == {"classes_loss": 3, "causal_lm_loss": 6, "causal_lm_likelihood": 6}
    close(loss.parts["classes_loss"] / 3, of_classes)
    close(loss.parts["causal_lm_loss"] / 6, of_words)
    close(loss.parts["causal_lm_likelihood"] / 6, of_words)
    assert loss.parts["accuracy"] == (outputs.said.argmax(1) == labels).sum()
    parameters = [*model.parameters()]
    found = torch.autograd.grad(loss.total / asked.count, parameters, retain_graph=True)
    for ours, theirs in zip(found, torch.autograd.grad(expected, parameters), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 2.0), (0.25, 3.0)])
def test_weights_scale_the_gradients_of_their_parts(weights: tuple[float, float]) -> None:
    model = Headed()
    parts = [Classes(), CausalLM()]
    together = Together([(w, name, one) for w, name, one in zip(weights, ("classes", "causal_lm"), parts, strict=True)])
    asked = together.prepare(BATCH, generator(0, Place()))
    parameters = [*model.parameters()]

    def slopes(total: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(total, parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]

    expected = [torch.zeros_like(p) for p in parameters]
    for weight, part in zip(weights, parts, strict=True):
        own = part.prepare(BATCH, generator(0, Place()))
        means = slopes(part.loss(model(BATCH.columns[0]), own).total / own.count)
        expected = [total + weight * slope for total, slope in zip(expected, means, strict=True)]
    for ours, theirs in zip(slopes(together.loss(model(**asked.inputs), asked).total / 3), expected, strict=True):
        close(ours, theirs)


def test_a_question_of_several_is_moved_whole() -> None:
    _, asked = asked_by("classes + 0.5 * causal_lm")
    moved = asked.to("meta")
    for one, before in zip([moved, *moved.parts], [asked, *asked.parts], strict=True):
        assert {one.inputs["ids"].device.type, one.labels.device.type} == {"meta"}
        assert one.count == before.count
    assert [part.count for part in asked.parts] == [3, 6]


def test_what_a_text_names() -> None:
    assert objective("translation") == Translation()
    assert objective("translation(label_smoothing=0.2, smoothing_form='torch')") == Translation(
        label_smoothing=0.2, smoothing_form="torch"
    )
    assert alternatives("classes") == [(1.0, [(1.0, "classes")])]
    assert alternatives("classes(label_smoothing=0.1) + 0.5 * causal_lm + 2*heads") == [
        (1.0, [(1.0, "classes(label_smoothing=0.1)"), (0.5, "causal_lm"), (2.0, "heads")])
    ]
    assert alternatives("0.5 * (classes + 0.5 * causal_lm)") == [(1.0, [(0.5, "classes"), (0.25, "causal_lm")])]
    assert alternatives("classes | 3 * (heads + causal_lm) | 0 * heads") == [
        (1.0, [(1.0, "classes")]), (3.0, [(1.0, "heads"), (1.0, "causal_lm")]), (0.0, [(1.0, "heads")]),
    ]  # fmt: skip
    half = objective("0.5 * classes")
    assert isinstance(half, Together)
    assert half.parts == [(0.5, "classes", Classes())]


@pytest.mark.parametrize(
    "spec",
    [*OBJECTIVES, "0.5 * classes", "classes(label_smoothing=0.1) + 2 * causal_lm", "classes | causal_lm",
     "0 * classes | 2 * causal_lm | 0.5 * (classes + 2 * causal_lm) | (3 * classes + causal_lm) | classes"],
)  # fmt: skip
def test_a_text_with_every_option_names_the_same(spec: str) -> None:
    whole = in_full(spec)
    assert in_full(whole) == whole
    first, again = objective(spec), objective(whole)
    assert type(first) is type(again)
    assert [*plain(first)] == [*plain(again)]
    if isinstance(first, Together | Either) and isinstance(again, Together | Either):
        assert [part[:2] for part in first.parts] == [part[:2] for part in again.parts]
    assert alternatives(whole) == [
        (weight, [(inner, in_full(text)) for inner, text in terms]) for weight, terms in alternatives(spec)
    ]
    assert in_full("classes + 2 * causal_lm") == (
        "classes(label_smoothing=0.0) + 2.0 * causal_lm(label_smoothing=0.0, apart=False)"
    )


@pytest.mark.parametrize(
    "spec",
    ["", " ", "0.5", "classes +", "classes - causal_lm", "classes * 0.5", "classes * causal_lm", "-1 * classes",
     "1e999 * classes", "'a' * classes", "1j * classes", "classes; heads", "classes\nheads", "[classes]", "x = classes",
     "lambda: 0", "(" * 500 + "classes" + ")" * 500, "classes.__class__"],
)  # fmt: skip
def test_what_names_no_objective_is_refused_in_one_sentence(spec: str) -> None:
    with pytest.raises(InputError) as caught:
        objective(spec)
    assert "names no objective; write name, name(key=value), or a sum: classes + 0.5 * causal_lm" in str(caught.value)
    assert "\n" not in str(caught.value)


@refused(
    {
        "clases": "unknown name 'clases'; did you mean 'classes'?",
        "classes + causal_ml": "unknown name 'causal_ml'; did you mean 'causal_lm'?",
        "classes(smoothing=0.1)": "'classes' has no option 'smoothing'; did you mean 'label_smoothing'?",
        "classes + causal_lm(label_smoothing=1.5)": "causal_lm(label_smoothing=1.5): label_smoothing must be at",
        "translation(label_smoothing='much')": "translation(label_smoothing='much'): Input should be a valid number",
        "__import__('os')": "__import__",
    },
    "spec",
    plain=True,
)
def test_what_an_objective_cannot_be_is_refused(spec: str) -> None:
    objective(spec)


def test_a_part_that_asks_for_nothing_costs_nothing() -> None:
    """Texts of one word have no next one: the mean over none is 0, not a number that is not one."""
    together = objective("classes + causal_lm")
    asked = together.prepare(batch([[5], [1]], [[8], [0]]), generator(0, Place()))
    model = Headed()
    loss = together.loss(model(**asked.inputs), asked)
    close(loss.total, F.cross_entropy(model(**asked.inputs).said, torch.tensor([1, 0]), reduction="sum"))
    assert math.isfinite(loss.total.item())


def test_documents_are_of_the_tokens_that_the_model_reads() -> None:
    """All of them, beside an objective that reads the last one too; and nothing else bears that name."""
    rows = [[5, 2, 7, 9], [1]], [[8, 4, 2], [0]]
    together = objective("classes + causal_lm(apart=True)")
    asked = together.prepare(batch(*rows), generator(0, Place()))
    assert asked.inputs["ids"].tolist() == [[5, 2, 7, 9], [8, 4, 2, 0]]
    assert asked.inputs["documents"].tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]
    assert together.loss(Headed()(**asked.inputs), asked).total.isfinite()
    other_way = objective("causal_lm(apart=True) + classes").prepare(batch(*rows), generator(0, Place()))
    assert other_way.inputs["documents"].shape == other_way.inputs["ids"].shape == (2, 4)
    by_sentence = batch([[5, 2, 7, 9], [2, 2], [1]])
    assert "documents" not in Classes().prepare(by_sentence, generator(0, Place())).inputs


def test_the_table_names_every_objective() -> None:
    assert list(OBJECTIVES)[:2] == ["translation", "causal_lm"]
    for name, kind in OBJECTIVES.items():
        assert isinstance(objective(name), kind)
        assert (kind.__doc__ or "").split("\n")[0].strip()


# -- one of several ----------------------------------------------------------------------------------------------------


def test_each_batch_asks_one_of_several_drawn_by_their_weights() -> None:
    either = objective("classes | 2 * causal_lm | 0 * classes")
    assert isinstance(either, Either)
    assert [name for _, name, _ in either.parts] == ["classes", "causal_lm", "classes_3"]
    asked = [either.prepare(BATCH, generator(0, Place(0, n))) for n in range(3000)]
    shares = [sum(one.chosen == i for one in asked) / len(asked) for i in range(3)]
    assert shares[2] == 0
    assert shares[0] == pytest.approx(1 / 3, abs=0.03)
    assert either.prepare(BATCH, generator(0, Place(0, 7))).chosen == asked[7].chosen
    model = Headed()
    for one in asked[:6]:
        alone = (Classes(), CausalLM())[one.chosen]
        own = alone.prepare(BATCH, generator(0, Place()))
        assert one.count == own.count
        assert one.to("cpu").chosen == one.chosen
        close(either.loss(model(**one.inputs), one).total, alone.loss(model(**own.inputs), own).total)


def test_a_model_that_reads_it_is_told_the_number_of_the_task() -> None:
    words = tokenizer()
    either = objective("classes | causal_lm").knowing(words, {"ids", "task"})
    found = [either.prepare(BATCH, generator(0, Place(0, n))) for n in range(8)]
    assert {one.inputs["task"] for one in found} == {0, 1}
    assert all(one.inputs["task"] == one.chosen for one in found)
    silent = objective("classes | causal_lm").knowing(words, {"ids"})
    assert "task" not in silent.prepare(BATCH, generator(0, Place())).inputs


def test_the_figures_of_several_are_means_by_their_weights() -> None:
    either = objective("classes | 3 * causal_lm")
    given = iter([{"loss": 1.0, "accuracy": 0.5}, {"loss": 2.0, "perplexity": 7.0}])
    asked = list[Any]()
    found = either.measured(lambda one: asked.append(one) or next(given))  # type: ignore[func-returns-value]
    assert [type(*plain(one)) for one in asked] == [Classes, CausalLM]
    assert found == {"loss": 1.75, "accuracy": 0.5, "classes_loss": 1.0, "classes_accuracy": 0.5, "causal_lm_loss": 2.0,
                     "causal_lm_perplexity": 7.0}  # fmt: skip


def test_one_objective_and_a_sum_are_measured_as_they_are() -> None:
    for spec in ("classes", "classes + causal_lm"):
        one = objective(spec)
        assert one.measured(lambda asked: {"loss": float(asked is one)}) == {"loss": 1.0}  # noqa: B023


@pytest.mark.parametrize(
    ("spec", "own"),
    [("masked_lm", True), ("2 * masked_lm(rate=0.2) + next_sentence", True), ("next_sentence + masked_lm", False),
     ("masked_lm | masked_lm(unit='span')", False), ("span_boundary", False)],
)  # fmt: skip
def test_the_loss_is_that_of_the_first_objective_of_a_sum(spec: str, own: bool) -> None:
    assert leads("masked_lm", spec) is own


@refused(
    {
        "0 * classes | 0 * heads": "every objective has the weight 0",
        "next_sentence + sentence_order": "next_sentence and sentence_order each put sentences in an order",
        "classes | ": "names no objective",
        "classes || heads": "names no objective",
        "classes & heads": "names no objective",
        "classes + (heads | cloze)": "names no objective",
    },
    "spec",
    plain=True,
)
def test_what_cannot_be_asked_by_turns_is_refused(spec: str) -> None:
    objective(spec)
