"""What heads are for: one head mixes the two tokens that it is asked for, several keep them apart."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.models import TransformerConfig
from qkv.positions import Places

WIDTH, VALUES, TOKENS = 16, 8, 10


def draw(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Ten tokens with a value each; one is flagged A, another B. The answer is the values of both."""
    values = torch.randint(VALUES, (rows, TOKENS), generator=generator)
    chosen = torch.rand(rows, TOKENS, generator=generator).argsort(dim=1)[:, :2]
    flags = F.one_hot(chosen, TOKENS).transpose(1, 2).float()  # (rows, TOKENS, 2)
    return flags, values, values.gather(1, chosen)


class Retrieval(nn.Module):
    """One learned query; flags are seen by the keys only, for values that carry them could be told apart in a sum."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.flags, self.values = nn.Linear(2, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.attention = MultiHead(TransformerConfig(d_model=WIDTH, n_heads=n_heads))
        self.answer = nn.Linear(WIDTH, 2 * VALUES)

    def forward(self, flags: Tensor, values: Tensor) -> Tensor:
        a = self.attention
        q, k, v = a.query(self.query), a.key(self.flags(flags)), a.value(self.values(values))
        at = Places(query=torch.zeros(1, dtype=torch.long), key=torch.arange(values.size(1)))
        context = a.attend(a.heads(q).expand(len(values), -1, -1, -1), a.heads(k), a.heads(v), at)
        return self.answer(a.output(context.transpose(1, 2).flatten(2))[:, 0]).unflatten(-1, (2, VALUES))


def accuracy(n_heads: int) -> float:
    """How often both values are right, on tokens never seen."""
    torch.manual_seed(1)
    model, generator = Retrieval(n_heads), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(500):
        flags, values, wanted = draw(128, generator)
        loss = F.cross_entropy(model(flags, values).flatten(0, 1), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    flags, values, wanted = draw(1000, torch.Generator().manual_seed(2))
    return (model(flags, values).argmax(-1) == wanted).all(dim=1).float().mean().item()


def test_one_head_cannot_hold_two_answers_and_four_can() -> None:
    assert accuracy(1) < 0.6
    assert accuracy(4) > 0.99
