"""Translation: what the model reads, what it is asked, and a loss that counts real tokens."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qkv.config import from_tree
from qkv.data import Batch
from qkv.errors import InputError
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import OBJECTIVES, Translation
from qkv.objectives.smoothing import disagreement

CONFIG = TransformerConfig(
    vocab_size=13, d_model=16, d_ff=16, n_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0, output_bias=True
)
BATCH = Batch(
    src=torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]),
    tgt=torch.tensor([[1, 9, 10, 11, 2], [1, 12, 2, 0, 0]]),
    pairs=np.zeros((2, 2), dtype=np.int64),
)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CONFIG)


def test_the_labels_are_the_target_one_place_on() -> None:
    (src, tgt), labels = Translation().prepare(BATCH)
    assert torch.equal(src, BATCH.src)
    assert tgt.tolist() == [[1, 9, 10, 11], [1, 12, 2, 0]]
    assert labels.tolist() == [[9, 10, 11, 2], [12, 2, 0, 0]]


def test_the_loss_is_summed_over_real_tokens(model: Transformer) -> None:
    objective = Translation(smoothing_form="torch")
    inputs, labels = objective.prepare(BATCH)
    outputs = model(*inputs)
    loss = objective.loss(outputs, labels)
    assert loss.tokens == 6
    expected = torch.nn.CrossEntropyLoss(ignore_index=0, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(loss.total, expected(outputs.logits.flatten(0, 1), labels.flatten()))
    plain = torch.nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
    torch.testing.assert_close(loss.parts["likelihood"], plain(outputs.logits.flatten(0, 1), labels.flatten()))


def test_two_readings_of_a_sentence_cost_their_mean_and_what_sets_them_apart(model: Transformer) -> None:
    """Without dropout the two are one, and R-Drop costs what the plain loss costs; with it, the divergence is added."""
    plain, twice = Translation(), Translation(agreement=4.0)
    inputs, labels = twice.prepare(BATCH)
    assert inputs[0].tolist() == BATCH.src.tolist() * 2
    alone = plain.loss(model.eval()(*plain.prepare(BATCH)[0]), plain.prepare(BATCH)[1])
    both = twice.loss(model(*inputs), labels)
    assert both.tokens == alone.tokens == 6
    torch.testing.assert_close(both.total, alone.total)
    torch.testing.assert_close(both.parts["likelihood"], alone.parts["likelihood"])

    noisy = Transformer(replace(CONFIG, dropout=0.5)).train()
    outputs = noisy(*inputs)
    first, second = outputs.logits.chunk(2)
    real = labels.chunk(2)[0] != 0
    expected = plain.loss(outputs, labels).total + 4 * disagreement(first[real], second[real])
    torch.testing.assert_close(twice.loss(outputs, labels).total, expected / 2)
    assert disagreement(first[real], second[real]) > 0.01


def test_more_padding_changes_neither_loss_nor_gradient(model: Transformer) -> None:
    wider = Batch(
        torch.nn.functional.pad(BATCH.src, (0, 3)), torch.nn.functional.pad(BATCH.tgt, (0, 2)), BATCH.pairs
    )  # fmt: skip
    found = []
    for batch in (BATCH, wider):
        model.zero_grad()
        inputs, labels = Translation().prepare(batch)
        loss = Translation().loss(model(*inputs), labels)
        loss.total.backward()
        found.append((loss, [p.grad.clone() for p in model.parameters()]))
    (narrow, gradients), (wide, wide_gradients) = found
    assert narrow.tokens == wide.tokens
    torch.testing.assert_close(narrow.total, wide.total, atol=1e-5, rtol=1e-6)
    for ours, theirs in zip(gradients, wide_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_two_halves_sum_to_the_whole(model: Transformer) -> None:
    """So that gradients may be gathered over several small batches."""
    objective = Translation()
    (src, tgt), labels = objective.prepare(BATCH)
    whole = objective.loss(model(src, tgt), labels)
    halves = [objective.loss(model(src[i : i + 1], tgt[i : i + 1]), labels[i : i + 1]) for i in range(2)]
    torch.testing.assert_close(whole.total, halves[0].total + halves[1].total, atol=1e-5, rtol=1e-6)
    assert whole.tokens == halves[0].tokens + halves[1].tokens


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"label_smoothing": 1.0}, "at least 0 and below 1, not 1.0"),
        ({"label_smoothing": -0.1}, "at least 0 and below 1, not -0.1"),
        ({"smoothing_form": "google"}, "'fairseq', 'torch', 'annotated' or 'tensor2tensor'"),
        ({"smoothing": 0.1}, "unknown key 'smoothing'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_tree(OBJECTIVES["translation"], wrong)
