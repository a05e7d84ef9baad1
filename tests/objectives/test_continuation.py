"""Continuation against a loop over single tokens: what is asked for, what stands before it, and what it costs."""

import pytest
import torch

from kit import batch, tiny_model
from qkv.objectives import Continuation
from qkv.text.tokenizer import BOS, EOS, PAD

ROWS = [([5, 6, 7, EOS], [BOS, 8, 9, EOS]), ([5, EOS], [BOS, 6, EOS]), ([7, 7, 8, 9, 5, EOS], [BOS, 10, 5, 6, EOS])]


@torch.no_grad()
@pytest.mark.parametrize("whole", [False, True])
def test_each_token_of_a_summary_by_the_document_and_those_before(whole: bool) -> None:
    model = tiny_model("gpt2", vocab_size=12, max_length=16, layers=2).eval()
    objective = Continuation(label_smoothing=0.0, whole=whole)
    asked = objective.prepare(batch(*ROWS), torch.Generator())
    expected, count = 0.0, 0
    for document, summary in ROWS:
        text = [*document[:-1], *summary]  # x .. <s> y .. </s>
        for place in range(1 if whole else len(document), len(text)):
            logits = model(torch.tensor([text[:place]])).logits[0, -1]
            expected -= float(logits.log_softmax(dim=-1)[text[place]])
            count += 1
    loss = objective.loss(model(**asked.inputs), asked)
    assert asked.count == count
    assert float(loss.total) == pytest.approx(expected, rel=1e-5)
    assert float(loss.parts["likelihood"]) == pytest.approx(expected, rel=1e-5)


def test_padding_stands_on_the_right() -> None:
    asked = Continuation().prepare(batch(*ROWS), torch.Generator())
    assert asked.inputs["ids"].tolist() == [
        [5, 6, 7, BOS, 8, 9, EOS, PAD, PAD], [5, BOS, 6, EOS, PAD, PAD, PAD, PAD, PAD], [7, 7, 8, 9, 5, BOS, 10, 5, 6],
    ]  # fmt: skip
    assert asked.labels.tolist() == [
        [0, 0, 0, 8, 9, EOS, 0, 0, 0], [0, 6, EOS, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 10, 5, 6, EOS],
    ]  # fmt: skip
    assert asked.read == 7 + 4 + 10
