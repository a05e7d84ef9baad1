"""Why heads: one head mixes the two tokens that it is asked for, several keep them apart."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.look.curves import curves
from qkv.why.claim import Measured, Row
from qkv.why.instruments import learn, places, small

WIDTH, VALUES, TOKENS = 16, 8, 10


class Retrieval(nn.Module):
    """Ten tokens with a value each, one flagged A, another B: name both values, with one learned query.

    Flags are seen by the keys only, since values that carried them could be told apart even in a sum.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.flags, self.values = nn.Linear(2, WIDTH), nn.Embedding(VALUES, WIDTH)
        self.attention = MultiHead(small(d_model=WIDTH, n_heads=n_heads))
        self.answer = nn.Linear(WIDTH, 2 * VALUES)

    def forward(self, flags: Tensor, values: Tensor) -> Tensor:
        a = self.attention
        q, k, v = a.query(self.query), a.key(self.flags(flags)), a.value(self.values(values))
        context = a.attend(a.heads(q).expand(len(values), -1, -1, -1), a.heads(k), a.heads(v), places(TOKENS))
        answer: Tensor = self.answer(a.output(context.transpose(1, 2).flatten(2))[:, 0]).unflatten(-1, (2, VALUES))
        return answer

    def answers(self, rows: int) -> tuple[Tensor, Tensor]:
        """Of tokens drawn anew: what it says of the two values (rows, 2, VALUES), and what they are (rows, 2)."""
        values = torch.randint(VALUES, (rows, TOKENS))
        chosen = torch.rand(rows, TOKENS).argsort(dim=1)[:, :2]
        return self(F.one_hot(chosen, TOKENS).transpose(1, 2).float(), values), values.gather(1, chosen)


def accuracy(n_heads: int) -> float:
    """How often both values are right, on tokens never seen."""
    torch.manual_seed(1)
    model = Retrieval(n_heads)

    def loss() -> Tensor:
        given, wanted = model.answers(128)
        return F.cross_entropy(given.flatten(0, 1), wanted.flatten())

    learn(model, loss, steps=400)
    given, wanted = model.answers(1000)
    return float((given.argmax(-1) == wanted).all(dim=1).float().mean())


def two_targets() -> Measured:
    found = {n: accuracy(n) for n in (1, 2, 4)}
    rows: list[Row] = [(n, WIDTH // n, right) for n, right in found.items()]
    return Measured(
        columns=("heads", "width of each", "both values right"),
        rows=rows,
        verdict="true",
        why="One softmax gives one mixture: asked for two tokens, it can only add their values, and the sum does not "
        f"say which was which. Heads fetch them apart. Guessing gives {1 / VALUES**2:.3f}.",
        holds=found[4] > 0.95 and found[1] < 0.6,
        picture=lambda path: curves(path, {"": (list(found), list(found.values()))}, x="heads", y="both values right",
                                    title="two tokens asked for at once"),
    )  # fmt: skip
