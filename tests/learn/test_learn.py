"""A model learns: one batch by heart, and to copy what it has never seen."""

import pytest
import torch
from torch import Tensor

from kit import teach
from qkv.models import Transformer, TransformerConfig
from qkv.objectives import Translation


def model_of(vocab_size: int, **others: object) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_ff": 64, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(vocab_size=vocab_size, **(sizes | others)))


def train(model: Transformer, step: int, optimiser: torch.optim.Optimizer, src: Tensor, tgt: Tensor) -> float:
    """One step with a linear warm-up of 50; the loss for each token."""
    for group in optimiser.param_groups:
        group["lr"] = 3e-3 * min(1, (step + 1) / 50)
    return teach(model, optimiser, src, tgt, Translation(label_smoothing=0.0))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_one_batch_is_learned_by_heart(norm: str, position: str) -> None:
    model = model_of(40, norm=norm, position=position, max_length=16)
    generator = torch.Generator().manual_seed(1)
    src, tgt = torch.randint(4, 40, (8, 9), generator=generator), torch.randint(4, 40, (8, 8), generator=generator)
    tgt[:, 0] = 1
    src[::2, 6:], tgt[1::2, 5:] = 0, 0
    optimiser = torch.optim.Adam(model.parameters())
    losses = [train(model, step, optimiser, src, tgt) for step in range(150)]
    assert losses[-1] < 0.05


def sequences(rows: int, generator: torch.Generator) -> Tensor:
    """The first example of the Annotated Transformer: V = 11, ten symbols from 1 to 10, of which the first is a 1."""
    data = torch.randint(1, 11, (rows, 10), generator=generator)
    data[:, 0] = 1
    return data


@torch.no_grad()
def write(model: Transformer, src: Tensor) -> Tensor:
    """From the first symbol on, each next one is the most probable."""
    state, tokens = model.start(src)[1], src[:, :1]
    while tokens.size(1) < src.size(1):
        tokens = torch.cat((tokens, model.step(tokens[:, -1], state).argmax(-1, keepdim=True)), dim=1)
    return tokens


def test_copying_is_learned_exactly_within_2000_steps() -> None:
    model = model_of(11, d_model=64, encoder_layers=1, decoder_layers=1)
    optimiser = torch.optim.Adam(model.parameters())
    generator = torch.Generator().manual_seed(1)
    unseen = sequences(200, torch.Generator().manual_seed(2))
    counting = torch.arange(1, 11)[None]  # what the Annotated Transformer tries at the end
    for step in range(2000):
        data = sequences(32, generator)
        train(model, step, optimiser, data, data)
        if step % 100 == 99 and torch.equal(write(model, unseen), unseen):
            break
    assert torch.equal(write(model, unseen), unseen)
    assert torch.equal(write(model, counting), counting)
