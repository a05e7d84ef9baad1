"""Language modelling: against torch's cross-entropy of the same logits, and documents counted by a loop."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kit import batch, close, tiny_model
from qkv.attention import Choice
from qkv.data import Place, generator
from qkv.models import Model
from qkv.objectives import Asked, CausalLM
from qkv.objectives.causal_lm import documents
from qkv.text.tokenizer import EOS, PAD

BATCH = batch([[5, 6, 7, EOS, 9, 4]], [[8, EOS, 3]])


@pytest.fixture
def model() -> Model:
    return tiny_model("gpt2", vocab_size=13, layers=2)


def prepared(**settings: Any) -> Asked:
    return CausalLM(**settings).prepare(BATCH, generator(0, Place()))


def test_each_token_is_asked_for_after_those_before_it() -> None:
    asked = prepared()
    assert asked.inputs.keys() == {"ids"}
    assert asked.inputs["ids"].tolist() == [[5, 6, 7, EOS, 9], [8, EOS, 3, PAD, PAD]]
    assert asked.labels.tolist() == [[6, 7, EOS, 9, 4], [EOS, 3, PAD, PAD, PAD]]
    assert asked.count == 7


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torchs_cross_entropy(model: Model, smoothing: float) -> None:
    """torch spreads e over all V words: its e is V / (V - 1) times ours, which leaves the right word out."""
    asked = prepared(label_smoothing=smoothing)
    outputs = model(**asked.inputs)
    loss = CausalLM(label_smoothing=smoothing).loss(outputs, asked)
    logits, labels = outputs.logits.flatten(0, 1), asked.labels.flatten()
    how = {"ignore_index": PAD, "reduction": "sum"}
    expected = F.cross_entropy(logits, labels, label_smoothing=smoothing * 13 / 12, **how)
    close(loss.total, expected)
    close(loss.parts["likelihood"], F.cross_entropy(logits, labels, **how))
    table = dict(model.named_parameters())
    found, theirs = (torch.autograd.grad(x, [*table.values()], retain_graph=True) for x in (loss.total, expected))
    for ours, other in zip(found, theirs, strict=True):
        close(ours, other)


def test_what_a_model_read_beyond_the_labels_is_not_asked_for(model: Model) -> None:
    """As beside a task of its own, which reads the last token too."""
    asked = prepared()
    longer = model(BATCH.columns[0])
    close(CausalLM().loss(longer, asked).total, CausalLM().loss(model(**asked.inputs), asked).total)


@given(st.lists(st.lists(st.sampled_from([EOS, 5, 6]), min_size=4, max_size=4), min_size=1, max_size=3))
def test_documents_are_counted_as_a_loop_does(rows: list[list[int]]) -> None:
    expected = []
    for row in rows:
        number, counted = 0, []
        for token in row:
            counted.append(number)
            number += token == EOS  # its own last token is still of it
        expected.append(counted)
    assert documents(torch.tensor(rows)).tolist() == expected


def test_documents_that_are_apart_do_not_see_each_other(model: Model) -> None:
    """What stands before a document may change, and nothing of the document's own predictions does."""
    asked = prepared(apart=True)
    assert asked.inputs["documents"].tolist() == [[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]
    before = model(**asked.inputs).logits
    changed = asked.inputs["ids"].clone()
    changed[0, 1] = 11
    after = model(changed, documents=asked.inputs["documents"]).logits
    assert torch.equal(before[0, 4], after[0, 4])
    assert not torch.equal(before[0, 3], after[0, 3])
    assert not torch.equal(model(**prepared().inputs).logits[0, 4], model(changed).logits[0, 4])  # joined, it does


def test_the_loss_of_a_hard_attention_has_its_term() -> None:
    """REINFORCE, as in a translation: its scores learn by nothing else. A model may have read one token more."""
    model = tiny_model("gpt2", vocab_size=13, layers=1, attention="hard(sampling=1.0)").train()
    asked, scores = prepared(), [p for name, p in model.named_parameters() if "attention.query" in name]
    assert scores
    for ids in (asked.inputs["ids"], BATCH.columns[0]):
        outputs = model(ids)
        loss = CausalLM().loss(outputs, asked)
        per_token = F.cross_entropy(
            outputs.logits[:, : asked.labels.size(1)].transpose(1, 2), asked.labels, ignore_index=PAD, reduction="none"
        )
        tokens = (asked.labels != PAD).sum(1)
        term = surrogate_by_hand(outputs.choices[0], -per_token.sum(1) / tokens, tokens)
        close(loss.parts["likelihood"], per_token.sum())
        close(loss.total, per_token.sum() + term)
        assert all(g.any() for g in torch.autograd.grad(loss.total, scores))
        with torch.no_grad():
            outputs.choices[0].baseline.zero_()


def surrogate_by_hand(choice: Choice, reward: Tensor, tokens: Tensor) -> Tensor:
    """With a baseline of 0."""
    return -(choice.reward_weight * tokens * reward * choice.log_p + choice.entropy_weight * choice.entropy).sum()


@pytest.mark.parametrize("wrong", [1.0, -0.1, float("nan")])
def test_smoothing_that_cannot_be_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="label_smoothing must be at least 0 and below 1"):
        CausalLM(label_smoothing=wrong)
