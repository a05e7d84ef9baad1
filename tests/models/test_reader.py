"""The readers: against torch's packed GRU and a loop, with any padding, and on a task that only reading can solve."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.attention.over_attention import over_attention
from qkv.models.reader import BothWays, Reader, ReaderConfig, Reading
from qkv.objectives import Asked
from qkv.objectives.answers import Cloze

V = 23
LENGTHS, ASKED = torch.tensor([9, 4, 1]), torch.tensor([3, 5, 1])
ATTENTIONS = ["over_attention", "sum"]


def reader(attention: str) -> Reader:
    """With embeddings large enough for attention to choose."""
    torch.manual_seed(0)
    model = Reader(ReaderConfig(vocab_size=V, d_model=6, d_hidden=5, dropout=0.0, attention=attention)).eval()  # type: ignore[arg-type]
    nn.init.normal_(model.words.weight)
    return model


@pytest.fixture
def document() -> Tensor:
    ids = torch.randint(1, V, (3, 9), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(torch.arange(9) >= LENGTHS[:, None], 0)


@pytest.fixture
def question() -> Tensor:
    ids = torch.randint(1, V, (3, 5), generator=torch.Generator().manual_seed(2))
    return ids.masked_fill(torch.arange(5) >= ASKED[:, None], 0)


def packed(ways: BothWays, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """torch's own bidirectional GRU with the same weights: states, and the last of each direction."""
    gru = nn.GRU(x.size(2), ways.onward.hidden_size, batch_first=True, bidirectional=True)
    back = {f"{name}_reverse": value for name, value in ways.back.state_dict().items()}
    gru.load_state_dict({**ways.onward.state_dict(), **back})
    states, last = gru(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(states, batch_first=True)[0], torch.cat((last[0], last[1]), dim=1)


def test_reading_both_ways_is_torchs_packed_gru() -> None:
    torch.manual_seed(0)
    ways, x = BothWays(6, 5), torch.randn(3, 9, 6)
    real = torch.arange(9) < LENGTHS[:, None]
    states, last = ways(x, real)
    expected, expected_last = packed(ways, x, LENGTHS)
    torch.testing.assert_close(states * real[:, :, None], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(last, expected_last, atol=1e-6, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_whole_reader_is_its_equations(attention: str, document: Tensor, question: Tensor) -> None:
    """Each row alone, unpadded: GRUs by torch, M(i, j) and the attention sum by dot products."""
    model = reader(attention)
    found = model(document, question)
    for row in range(3):
        words, asked = document[row, : LENGTHS[row]], question[row, : ASKED[row]]
        h_doc, _ = packed(model.document, model.words(words)[None], LENGTHS[row : row + 1])
        h_query, last = packed(model.question, model.words(asked)[None], ASKED[row : row + 1])
        if attention == "sum":
            expected = torch.tensor([float(state @ last[0]) for state in h_doc[0]]).softmax(0)
        else:
            m = torch.tensor([[[float(d @ q) for q in h_query[0]] for d in h_doc[0]]])
            expected = over_attention(m, torch.ones(1, len(words)) > 0, torch.ones(1, len(asked)) > 0)[0][0]
        torch.testing.assert_close(found.weights[row, : len(words)], expected, atol=1e-5, rtol=0)
        assert not found.weights[row, len(words) :].any()


def test_a_word_that_occurs_twice_gets_both_weights() -> None:
    reading = Reading(torch.tensor([[0.1, 0.2, 0.3, 0.4]]), torch.tensor([[7, 8, 7, 9]]))
    assert reading.probability(torch.tensor([[7, 8, 9, 5]]))[0].tolist() == pytest.approx([0.4, 0.2, 0.4, 0.0])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_words_of_a_document_have_probability_one_together(
    attention: str, document: Tensor, question: Tensor
) -> None:
    reading = reader(attention)(document, question)
    everything = reading.probability(torch.arange(1, V).expand(3, -1))
    torch.testing.assert_close(everything.sum(dim=1), torch.ones(3))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_every_parameter_gets_a_gradient(attention: str, document: Tensor, question: Tensor) -> None:
    model = reader(attention)
    labels = document[:, :2], document[:, :1]
    Cloze().loss(model(document, question), Asked({}, labels, 3)).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_training_exchanges_names_alike_in_document_and_question() -> None:
    model = Reader(ReaderConfig(vocab_size=400, d_model=6, d_hidden=5))
    document, question = torch.tensor([[4, 259, 300, 4, 0], [5, 6, 3, 0, 0]]), torch.tensor([[4, 3], [300, 5]])
    new = [torch.cat(model.shuffled(document, question), dim=1) for _ in range(20)]
    kept = torch.tensor([[False, False, True, False, True, False, True], [False, False, True, True, True, True, False]])
    old = torch.cat((document, question), dim=1)
    for ids in new:
        assert torch.equal(ids[kept], old[kept])
        assert ids[~kept].min() >= 4
        assert ids[~kept].max() < 260
        assert ids[0, 0] == ids[0, 3] == ids[0, 5] != ids[0, 1]
        assert ids[1, 0] == ids[1, 6] != ids[1, 1]
    assert len({int(ids[0, 0]) for ids in new}) > 5  # 20 draws out of 256
    assert torch.equal(torch.cat(model.eval().shuffled(document, question), dim=1), old)


def test_the_loss_is_minus_log_p_and_accuracy_looks_at_candidates_only() -> None:
    weights = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [1.0, 0.0, 0.0]])
    reading = Reading(weights, torch.tensor([[5, 6, 7], [8, 9, 8], [5, 6, 7]]))
    candidates, answers = torch.tensor([[6, 7], [8, 9], [6, 7]]), torch.tensor([[7], [8], [6]])
    loss = Cloze().loss(reading, Asked({}, (candidates, answers), 3))
    # Row 0: 7 has 0.3, and beats 6; row 1: 8 has 0.2, and loses to 9; row 2: both have 0, the first counts.
    assert loss.parts["accuracy"].item() == 2
    tiny = torch.finfo(torch.float32).tiny
    assert loss.total.item() == pytest.approx(-math.log(0.3) - math.log(0.2) - math.log(tiny), rel=1e-5)


def after_the_cue(rows: int, seed: int) -> Asked:
    """The answer is the one of five anonymous words (ids 2-22, drawn anew) that stands behind the question's cue."""
    rng = torch.Generator().manual_seed(seed)
    cues = torch.stack([torch.randperm(5, generator=rng) for _ in range(rows)]) + 23  # (B, 5)
    names = torch.stack([torch.randperm(21, generator=rng)[:5] for _ in range(rows)]) + 2
    document = torch.stack((cues, names), dim=2).flatten(1)  # (B, 10): cue name cue name ..
    which = torch.randint(5, (rows, 1), generator=rng)
    question = torch.cat((torch.ones_like(which), cues.gather(1, which)), dim=1)
    return Asked({"document": document, "question": question}, (names, names.gather(1, which)), rows)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_it_learns_to_find_what_stands_behind_the_cue(attention: str) -> None:
    """Chance is one in five, and no word is more frequent than another."""
    torch.manual_seed(0)
    model = Reader(
        ReaderConfig(vocab_size=28, d_model=16, d_hidden=16, dropout=0.0, shuffle=False, attention=attention)
    )  # type: ignore[arg-type]
    learner = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(150):
        asked = after_the_cue(64, step)
        (Cloze().loss(model(**asked.inputs), asked).total / 64).backward()
        learner.step()
        learner.zero_grad()
    asked = after_the_cue(500, 10_000)
    assert Cloze().loss(model(**asked.inputs), asked).parts["accuracy"].item() / 500 > 0.9


@pytest.mark.parametrize("wrong", [{"d_hidden": 0}, {"dropout": 1.0}, {"vocab_size": 0}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReaderConfig(**wrong)  # type: ignore[arg-type]
