"""Learned positions: a table with an end, and a clear word when a text passes it."""

import gzip

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import real, tiny_model
from qkv.attention import causal
from qkv.config import build
from qkv.errors import InputError
from qkv.layers import Embedding, Stack
from qkv.models import TransformerConfig
from qkv.positions import POSITIONS, Learned, Places

CPU = torch.device("cpu")
SIZES = TransformerConfig(d_model=8, n_heads=1, max_length=6)


def test_each_place_has_its_own_row() -> None:
    position = Learned(SIZES)
    x = torch.randn(2, 3, 8)
    found = position.embed(x, Places.span(2, 5, CPU))
    assert torch.equal(found, x + position.weight[2:5])


def test_the_table_ends_at_max_length_or_at_the_given_length() -> None:
    assert Learned(SIZES).weight.shape == (6, 8)
    assert build(POSITIONS, "learned(length=4)", SIZES).weight.shape == (4, 8)


def test_offset_rows_in_front_stay_unused() -> None:
    """RoBERTa: 512 places, padding_idx + 1 = 2 rows in front, 514 rows in all."""
    position = Learned(SIZES, length=512, offset=2)
    assert position.weight.shape == (514, 8)
    position.embed(torch.zeros(1, 512, 8), Places.span(0, 512, CPU)).pow(2).sum().backward()
    assert not position.weight.grad[:2].any()
    assert position.weight.grad[2:].any(dim=1).all()


def test_its_size_is_that_of_a_scaled_embedding_divided_by_the_root_of_the_width() -> None:
    torch.manual_seed(0)
    weight = Learned(TransformerConfig(d_model=64, n_heads=1, max_length=1000)).weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)


def test_a_place_beyond_the_table_is_refused() -> None:
    position = Learned(SIZES)
    position.embed(torch.zeros(1, 1, 8), Places.span(5, 6, CPU))
    with pytest.raises(InputError, match="place 6 is beyond the 6 learned positions"):
        position.embed(torch.zeros(1, 1, 8), Places.span(6, 7, CPU))


def test_a_model_refuses_a_text_that_is_too_long() -> None:
    model = tiny_model("transformer", position="learned(length=4)")
    model(torch.ones(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(InputError, match="place 4 is beyond the 4 learned positions"):
        model(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(InputError, match="place 4 is beyond the 4 learned positions"):
        model(torch.ones(1, 4, dtype=torch.long), torch.ones(1, 5, dtype=torch.long))


@pytest.mark.parametrize("spec", ["learned(length=0)", "learned(length=-3)", "learned(offset=-1)"])
def test_a_table_of_no_size_is_refused(spec: str) -> None:
    with pytest.raises(InputError, match="give a length of at least 1 and an offset of 0 or more"):
        build(POSITIONS, spec, SIZES)


def train_on_letters(letters: Tensor, length: int, steps: int) -> Tensor:
    """A language model of one layer over so many letters at a time, and its table of positions once trained."""
    sizes = TransformerConfig(d_model=32, d_ff=64, n_heads=2, dropout=0.0, norm="pre", max_length=length,
                              position="learned")  # fmt: skip
    decoder = Stack(sizes, layers=1)
    tokens = Embedding(int(letters.max()) + 1, 32)
    optimiser = torch.optim.Adam([*decoder.parameters(), *tokens.parameters()], lr=3e-3)
    at = Places.span(0, length, CPU, causal=True)
    for _ in range(steps):
        starts = torch.randint(len(letters) - length, (32, 1))
        text = letters[starts + torch.arange(length + 1)]  # (B, T + 1)
        logits = decoder(tokens(text[:, :-1]), at, causal(at)) @ tokens.weight.T  # (B, T, V)
        loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return decoder.position.weight.detach()


def test_after_training_neighbours_are_more_alike_than_other_places() -> None:
    """Nobody told the table that place 5 is beside place 6: at first all cosines are near 0, whatever the distance.

    Measured with three seeds: 0.42 to 0.44 for neighbours, 0.04 to 0.08 for all pairs.
    """
    path = real("tinyshakespeare", "input.txt.gz")
    text = gzip.decompress(path.read_bytes())[:200_000]
    letters = torch.unique(torch.tensor(list(text)), return_inverse=True)[1]
    torch.manual_seed(0)
    table = F.normalize(train_on_letters(letters, length=16, steps=400), dim=1)
    cosine, place = table @ table.T, torch.arange(16)
    distance = (place[:, None] - place[None, :]).abs()
    assert cosine[distance == 1].mean() > 0.2 + cosine[distance > 0].mean()
    assert cosine[(distance == 1) | (distance == 2)].mean() > cosine[distance > 4].mean()
