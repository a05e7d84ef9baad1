"""Translation: what the model reads, what it is asked, and a loss that counts real tokens."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from kit import batch, refused
from qkv.config import from_tree
from qkv.data import Batch, Place, generator
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import OBJECTIVES, Asked, Translation
from qkv.objectives.smoothing import disagreement

CONFIG = TransformerConfig(
    vocab_size=13, d_model=16, d_ff=16, n_heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0, output_bias=True
)
BATCH = batch([[5, 6, 7, 2], [1, 9, 10, 11, 2]], [[8, 2], [1, 12, 2]])
SRC, TGT = BATCH.columns


def prepared(objective: Translation, given: Batch = BATCH) -> Asked:
    return objective.prepare(given, generator(0, Place()))


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CONFIG)


def test_the_labels_are_the_target_one_place_on() -> None:
    asked = prepared(Translation())
    assert torch.equal(asked.inputs["src"], SRC)
    assert asked.inputs["tgt"].tolist() == [[1, 9, 10, 11], [1, 12, 2, 0]]
    assert asked.labels.tolist() == [[9, 10, 11, 2], [12, 2, 0, 0]]
    assert asked.count == 6


def test_the_loss_is_summed_over_real_tokens(model: Transformer) -> None:
    objective = Translation(smoothing_form="torch")
    asked = prepared(objective)
    outputs, labels = model(**asked.inputs), asked.labels
    loss = objective.loss(outputs, asked)
    expected = torch.nn.CrossEntropyLoss(ignore_index=0, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(loss.total, expected(outputs.logits.flatten(0, 1), labels.flatten()))
    plain = torch.nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
    torch.testing.assert_close(loss.parts["likelihood"], plain(outputs.logits.flatten(0, 1), labels.flatten()))


def test_two_readings_of_a_sentence_cost_their_mean_and_what_sets_them_apart(model: Transformer) -> None:
    """Without dropout the two are one, and R-Drop costs what the plain loss costs; with it, the divergence is added."""
    plain, twice = Translation(), Translation(r_drop=4.0)
    once, asked = prepared(plain), prepared(twice)
    assert asked.inputs["src"].tolist() == SRC.tolist() * 2
    alone = plain.loss(model.eval()(**once.inputs), once)
    both = twice.loss(model(**asked.inputs), asked)
    assert asked.count == once.count == 6
    torch.testing.assert_close(both.total, alone.total)
    torch.testing.assert_close(both.parts["likelihood"], alone.parts["likelihood"])

    noisy = Transformer(replace(CONFIG, dropout=0.5)).train()
    outputs = noisy(**asked.inputs)
    first, second = outputs.logits.chunk(2)
    real = asked.labels.chunk(2)[0] != 0
    expected = plain.loss(outputs, asked).total + 4 * disagreement(first[real], second[real])
    torch.testing.assert_close(twice.loss(outputs, asked).total, expected / 2)
    assert disagreement(first[real], second[real]) > 0.01


def test_more_padding_changes_neither_loss_nor_gradient(model: Transformer) -> None:
    wider = replace(BATCH, columns=(F.pad(SRC, (0, 3)), F.pad(TGT, (0, 2))))
    found = []
    for given in (BATCH, wider):
        model.zero_grad()
        asked = prepared(Translation(), given)
        assert asked.count == 6
        loss = Translation().loss(model(**asked.inputs), asked)
        loss.total.backward()
        found.append((loss, [p.grad.clone() for p in model.parameters()]))
    (narrow, gradients), (wide, wide_gradients) = found
    torch.testing.assert_close(narrow.total, wide.total, atol=1e-5, rtol=1e-6)
    for ours, theirs in zip(gradients, wide_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_two_halves_sum_to_the_whole(model: Transformer) -> None:
    """So that gradients may be gathered over several small batches."""
    objective = Translation()
    rows = [batch([[5, 6, 7, 2], [1, 9, 10, 11, 2]]), batch([[8, 2], [1, 12, 2]])]
    asked = [prepared(objective, given) for given in (BATCH, *rows)]
    whole, *halves = (objective.loss(model(**one.inputs), one) for one in asked)
    torch.testing.assert_close(whole.total, halves[0].total + halves[1].total, atol=1e-5, rtol=1e-6)
    assert asked[0].count == asked[1].count + asked[2].count


@refused(
    [
        ({"label_smoothing": 1.0}, "at least 0 and below 1, not 1.0"),
        ({"label_smoothing": -0.1}, "at least 0 and below 1, not -0.1"),
        ({"smoothing_form": "google"}, "'fairseq', 'torch', 'annotated' or 'tensor2tensor'"),
        ({"smoothing": 0.1}, "unknown key 'smoothing'"),
        ({"r_drop": -1.0}, "r_drop must be 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    from_tree(OBJECTIVES["translation"], wrong)
