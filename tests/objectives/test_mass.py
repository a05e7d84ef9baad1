"""MASS (Song et al. 2019): one fragment is hidden from the encoder, and the decoder writes it where it stood."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from kit import along, batch, close, tiny_model
from qkv.data import Batch
from qkv.models import Transformer
from qkv.objectives import Asked, Mass, Translation
from qkv.positions import Places
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

TOKENIZER = Tokenizer.train(
    ["two dogs play in the snow, and a cat sleeps"] * 3, vocab_size=300, specials=["<mask>", "<de>"]
)
MASK, MARK = TOKENIZER.special("<mask>"), TOKENIZER.special("<de>")
TEN = [*range(280, 289), EOS]  # m = 10


def rng(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ask(rows: list[list[int]], seed: int = 1, **how: Any) -> Asked:
    return Mass(**how).knowing(TOKENIZER).prepare(texts(rows), rng(seed))


def texts(rows: list[list[int]]) -> Batch:
    return batch(*[(row,) for row in rows])


def by_hand(asked: Asked) -> list[list[list[int]]]:
    """Encoder input, decoder input, target and places of each row, without padding."""
    found = []
    for src, tgt, places, labels in zip(*(asked.inputs[k].tolist() for k in ("src", "tgt", "places")),
                                        asked.labels.tolist(), strict=True):  # fmt: skip
        k = sum(label != PAD for label in labels)
        assert tgt[k:] == labels[k:] == [PAD] * (len(labels) - k)
        found.append([[token for token in src if token != PAD], tgt[:k], labels[:k], places[:k]])
    return found


@pytest.mark.parametrize(
    ("where", "first"), [({"start": 1.0, "end": 0.0}, 0), ({"start": 0.0, "end": 1.0}, 5)], ids=["start", "end"]
)
def test_ten_tokens_of_which_five_are_hidden(where: dict[str, float], first: int) -> None:
    """x1 .. x10, k = 5: five <mask>; the decoder reads what stands before each token that it is asked for."""
    [[src, tgt, labels, places]] = by_hand(ask([TEN], mask=1.0, keep=0.0, **where))
    if first == 0:
        assert src == [MASK, MASK, MASK, MASK, MASK, 285, 286, 287, 288, EOS]
        assert (tgt, labels) == ([BOS, 280, 281, 282, 283], [280, 281, 282, 283, 284])
        assert places == [0, 1, 2, 3, 4]
    else:
        assert src == [280, 281, 282, 283, 284, MASK, MASK, MASK, MASK, MASK]
        assert (tgt, labels) == ([284, 285, 286, 287, 288], [285, 286, 287, 288, EOS])
        assert places == [5, 6, 7, 8, 9]


def test_a_mark_before_the_sentence_is_read_by_both_sides_and_never_hidden() -> None:
    for seed in range(30):
        [[src, tgt, labels, places]] = by_hand(ask([[MARK, *TEN]], seed, mask=1.0, keep=0.0))
        assert src[0] == MARK
        assert len(labels) == 5
        assert MARK not in labels
        whole = [BOS, MARK, *TEN]
        assert tgt == [whole[place] for place in places]
        assert labels == [whole[place + 1] for place in places]
        assert [token for token in src if token != MASK] == [MARK, *(token for token in TEN if token not in labels)]


def test_rows_of_several_lengths_are_asked_like_each_alone() -> None:
    """Fragments differ in length and place; what a batch makes of a row, row by row, is a fragment of that row."""
    rows = [TEN, [280, EOS], [MARK, 285, 286, EOS], [281]]
    for src, tgt, labels, places in by_hand(ask(rows, seed=4, mask=1.0, keep=0.0)):
        (row,) = [row for row in rows if len(row) == len(src) and row[-1] in (src[-1], labels[-1])]
        assert labels == row[places[0] : places[0] + len(labels)]
        assert places == list(range(places[0], places[0] + len(labels)))
        assert tgt == [BOS, *row][places[0] : places[0] + len(labels)]
        assert len(labels) == max(1, round(0.5 * (len(row) - (row[0] == MARK))))


def test_hiding_everything_asks_what_translation_does_of_an_empty_source() -> None:
    """k = m: the targets of a language model, each token after all before it."""
    asked = ask([TEN, TEN[3:]], ratio=1.0, mask=1.0, keep=0.0)
    pairs = [([MASK] * len(row), [BOS, *row]) for row in (TEN, TEN[3:])]
    expected = Translation().prepare(batch(*pairs), rng())
    assert torch.equal(asked.inputs["src"], expected.inputs["src"])
    assert torch.equal(asked.labels, expected.labels)
    is_asked = asked.labels != PAD  # a translator also reads the last </s>, and is asked for nothing after it
    assert torch.equal(asked.inputs["tgt"][is_asked], expected.inputs["tgt"][is_asked])
    assert torch.equal(asked.inputs["places"], torch.arange(10).expand(2, 10))
    assert asked.count == expected.count


def test_hiding_one_token_asks_what_masked_language_modelling_does() -> None:
    """k = 1: one hole, one label, and the token before the hole."""
    seen = Counter[int]()
    for seed in range(200):
        [[src, tgt, [label], [place]]] = by_hand(ask([TEN], seed, ratio=0.0, mask=1.0, keep=0.0))
        assert src == [*TEN[:place], MASK, *TEN[place + 1 :]]
        assert (label, tgt) == (TEN[place], [[BOS, *TEN][place]])
        seen[place] += 1
    assert set(seen) == set(range(10))


def test_fragments_stand_where_the_paper_puts_them() -> None:
    """2 in 10 at the start, 2 in 10 at the end, the others at any of the six places with equal chances; of hidden
    tokens 8 in 10 are <mask>, and 1 in 10 stays. Shares of 20,000, within four standard deviations."""
    n = 20_000
    asked = ask([TEN] * n)
    first = Counter(asked.inputs["places"][:, 0].tolist())
    expected = {place: 0.1 + 0.2 * (place in (0, 5)) for place in range(6)}
    for place, share in expected.items():
        assert first[place] / n == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)
    ids, src = torch.tensor([TEN] * n), asked.inputs["src"]
    at = torch.arange(10) - asked.inputs["places"][:, :1]
    hidden = (at >= 0) & (at < 5)
    assert torch.equal(src[~hidden], ids[~hidden])
    found, were = src[hidden], ids[hidden]
    plain = len(TOKENIZER) - len(TOKENIZER.specials)  # a random token may be the same by chance
    spread = 4 * (0.16 / len(found)) ** 0.5
    assert (found == MASK).double().mean().item() == pytest.approx(0.8, abs=spread)
    assert (found == were).double().mean().item() == pytest.approx(0.1 + 0.1 / plain, abs=spread)
    others = found[(found != MASK) & (found != were)]
    assert not set(others.tolist()) & set(TOKENIZER.specials.values())


def transformer(**more: Any) -> Transformer:
    model = tiny_model("transformer", vocab_size=len(TOKENIZER), decoder_layers=2, **more)
    assert isinstance(model, Transformer)
    return model.double().eval()


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "shaw(clip=4)"])
def test_no_token_of_a_fragment_is_seen_before_it_is_written(position: str) -> None:
    """The Jacobian of each state by the decoder's inputs: zero at the token that is asked for, which is the next input,
    and behind it; not zero before. In the encoder's input nothing of the fragment is left."""
    model = transformer(position=position)
    asked = ask([TEN, [MARK, *TEN]], seed=5, mask=1.0, keep=0.0)
    src, places = asked.inputs["src"], asked.inputs["places"]
    x = model.target(asked.inputs["tgt"]).detach()  # (B, T, D)
    direction = along(x)

    def states(x: Tensor) -> Tensor:
        hidden = model.write(x, Places(places, places, causal=True), model.read(src))
        return (hidden * direction).sum(dim=2)  # (B, T)

    reach = torch.autograd.functional.jacobian(states, x).abs().sum(dim=4)  # (B, T, B, T), of states by input tokens
    for row in range(2):
        assert torch.equal(reach[row, :, row] > 0, torch.ones(5, 5).tril() > 0)
        assert not reach[row, :, 1 - row].any()
        assert not set(src[row].tolist()) & set(asked.labels[row].tolist())


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "shaw(clip=4)", "alibi", "none"])
def test_the_decoder_stands_where_the_fragment_does(position: str) -> None:
    """A fragment alone at its places equals the same tokens at the end of a longer row whose beginning is not seen;
    and places from 0 on are those that a decoder has anyway."""
    model = transformer(position=position)
    src, tgt = torch.tensor([TEN, TEN]), torch.tensor([[BOS, *TEN[:4]], TEN[3:8]])
    plain = model(src, tgt)
    close(model(src, tgt, torch.arange(5).expand(2, 5)).hidden, plain.hidden)
    moved = model(src, tgt, torch.tensor([[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]])).hidden
    close(moved[0], plain.hidden[0])
    # Relative positions know distances alone.
    assert torch.allclose(moved[1], plain.hidden[1]) != (position == "sinusoidal")


def test_a_fragment_costs_the_mean_of_its_tokens() -> None:
    """L = - sum log p, against the sum by a loop over places."""
    model, asked = transformer(), ask([TEN, TEN[4:]], seed=2)
    loss = Mass().loss(model(**asked.inputs), asked)
    log_p = model(**asked.inputs).logits.log_softmax(dim=-1)
    expected = -sum(
        log_p[b, t, label] for b, row in enumerate(asked.labels.tolist()) for t, label in enumerate(row) if label != PAD
    )
    close(loss.total, torch.as_tensor(expected))
    assert asked.count == 8


@pytest.mark.parametrize(
    "wrong", [{"ratio": 1.1}, {"ratio": -0.1}, {"start": 0.6, "end": 0.5}, {"mask": 1, "keep": 0.1}]
)
def test_what_is_no_share_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="are no shares"):
        Mass(**wrong)
