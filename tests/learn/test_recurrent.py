"""What recurrent layers forget, and what attention does about it: minutes, `make test-slow`."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers import Recurrence

SYMBOLS, WIDTH = 8, 64
pytestmark = pytest.mark.slow


def accuracy(cell: str, length: int, steps: int = 500) -> float:
    """Read `length` random symbols, then name the first one: how often it is right on sentences never seen."""
    torch.manual_seed(0)
    table, layer, answer = (
        nn.Embedding(SYMBOLS, WIDTH),
        Recurrence(cell, WIDTH, WIDTH, layers=1),
        nn.Linear(WIDTH, SYMBOLS),
    )
    optimiser = torch.optim.Adam([*table.parameters(), *layer.parameters(), *answer.parameters()], lr=3e-3)
    generator = torch.Generator().manual_seed(1)

    def guess(ids: Tensor) -> Tensor:
        return answer(layer(table(ids))[0][:, -1])

    for _ in range(steps):
        ids = torch.randint(SYMBOLS, (64, length), generator=generator)
        loss = F.cross_entropy(guess(ids), ids[:, 0])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimiser.step()
        if loss.item() < 0.01:
            break
    ids = torch.randint(SYMBOLS, (1000, length), generator=generator)
    with torch.no_grad():
        return (guess(ids).argmax(-1) == ids[:, 0]).float().mean().item()


def test_a_plain_recurrent_layer_forgets_the_first_token_first() -> None:
    """One in eight is right by chance."""
    found = {(cell, length): accuracy(cell, length) for cell in ("rnn", "lstm") for length in (4, 10, 50)}
    print(found)
    assert found["rnn", 4] > 0.95
    assert found["lstm", 4] > 0.95
    assert found["lstm", 10] > 0.9
    assert found["rnn", 50] < 0.3
    assert found["rnn", 10] < found["lstm", 10] - 0.1
