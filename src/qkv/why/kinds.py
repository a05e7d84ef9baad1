"""Kinds of attention: soft, hard and local; whose sentences are seen; one level, two levels, many heads, and why."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft, sentence_numbers
from qkv.look import draw
from qkv.look.charts import curves
from qkv.why.claim import Measured, amended, apart, look, multi_head, noise, places, small, taught, true

WIDTH, VALUES, TOKENS = 16, 8, 10  # of the task for heads


def soft_hard_local() -> Measured:
    n, radius = 10, 2
    soft = Soft(small(d_model=8, n_heads=1))
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, n, 8)
    _, weights = soft.plain(q, k, k, places(n))  # (1, 1, 1, S)
    chosen = int(weights[0, 0, 0].multinomial(1))
    near = (torch.arange(n) - chosen).abs() <= radius
    _, local = soft.plain(q, k, k, places(n), near)
    hard = F.one_hot(torch.tensor(chosen), n).float()
    table = {"soft": weights[0, 0, 0], "hard": hard, "local": local[0, 0, 0]}  # (S,) each
    rows = [(name, n, int((row > 0).sum()), row.sum().item(), row.max().item()) for name, row in table.items()]
    return true(
        columns=("attention", "keys", "keys with weight", "sum of weights", "largest weight"),
        rows=rows,
        why=f"Soft weighs every key, hard draws one, local weighs the {int(near.sum())} keys around a drawn centre.",
        holds=[row[2] for row in rows] == [n, 1, int(near.sum())] and all(abs(row[3] - 1) < 1e-6 for row in rows),
        picture=lambda path: draw(torch.stack(list(table.values())), list(table), [f"key {i}" for i in range(n)], path,
                                  title="who is looked at"),
    )  # fmt: skip


def hard_gradient() -> Measured:
    """Four keys, each with a reward R: the gradient of E[R] = sum a_i R_i, exact and by three estimates."""
    samples = 20_000
    scores = torch.tensor([0.5, -0.3, 0.1, 0.8], dtype=torch.float64, requires_grad=True)
    values = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.5], [1.0, -1.5]], dtype=torch.float64)
    wanted = torch.tensor([1.0, 0.5], dtype=torch.float64)
    rewards = 3.0 - (values - wanted).square().sum(-1)  # (4,)
    weights = scores.softmax(dim=0)
    (exact,) = torch.autograd.grad((weights * rewards).sum(), scores, retain_graph=True)
    drawn = weights.multinomial(samples, replacement=True)
    log_slope = F.one_hot(drawn, 4).double() - weights.detach()  # d log a_s / d scores
    earned = rewards[drawn][:, None]
    slope = -2 * (values[drawn] - wanted)  # d reward / d context, where the drawn value stands
    estimates = {
        "REINFORCE": earned * log_slope,
        "REINFORCE, baseline": (earned - earned.mean()) * log_slope,
        # Backward as if the context had been the soft mixture: d context / d scores = (diag(a) - a a^T) V.
        "straight-through": slope @ values.T @ (weights.diag() - weights.outer(weights)).detach(),
    }  # (samples, 4) each
    rows = []
    for name, estimate in estimates.items():
        off = (estimate.mean(dim=0) - exact).abs()
        errors = off / (estimate.std(dim=0) / samples**0.5)
        rows.append((name, off.max().item(), errors.max().item(), estimate.var(dim=0).sum().item()))
    (_, _, plain, spread), (_, _, based, narrower), (_, _, straight, _) = rows
    return amended(
        columns=("estimate of the gradient", "off the exact one by", "in standard errors", "variance"),
        rows=[("backpropagation through the draw", "no gradient", "", ""), *rows],
        why="A draw has no gradient; REINFORCE's mean is the exact gradient, and a baseline leaves "
        f"{narrower / spread:.2f} of its variance. The correction: reinforcement learning is not the only way - "
        "straight-through trains without it, at the price of a biased gradient.",
        holds=not drawn.requires_grad and max(plain, based) < 4 and narrower < spread and straight > 10,
    )


def general_and_local() -> Measured:
    """Two sentences of four and three tokens; the first is watched while the second changes."""
    ids = torch.tensor([[5, 6, 7, 2, 8, 9, 2]])
    number = sentence_numbers(ids, [2])[0]
    own = number[:, None] == number[None, :]  # (T, S)
    attention = multi_head()
    x = noise(1, 7, 16)
    other = x.clone()
    other[0, 4:] = noise(3, 16)
    at, first = places(7), slice(0, 4)
    moved = {
        scope: apart(attention(x, at, mask=mask)[:, first], attention(other, at, mask=mask)[:, first])
        for scope, mask in (("its own sentence (the notes' local)", own), ("all sentences (the notes' general)", None))
    }
    general = Soft(small(d_model=16, n_heads=1), score="general").double()
    nn.init.eye_(general.score.weight[0])  # type: ignore[index]
    q, k = noise(2, 1, 1, 7, 16)
    bilinear = apart(general.score(q, k, at), Soft(small(), score="dot").score(q, k, at))
    near, far = moved.values()
    return amended(
        rows=[
            *((f"change of sentence 1 when sentence 2 changes, seeing {scope}", m) for scope, m in moved.items()),
            ("Luong's general score q W k with W = I, less the dot product", bilinear),
        ],
        why="As a rule of what may be seen it is right. But both words have a second meaning: Luong's general is a "
        "score, q W k, and Luong's local is a window of places; qkv keeps the names apart.",
        holds=near == 0 and far > 1e-3 and bilinear < 1e-12,
    )


def structures() -> Measured:
    """A text of 3 sentences of 4 words: how many softmaxes each structure makes, and that each sums to one."""
    sentences, words, heads = 3, 4, 4
    n = sentences * words
    x = noise(1, n, 16)
    pool = Soft(small(n_heads=1, d_model=16)).double()
    query, above = noise(2, 1, 1, 1, 16)
    _, single = pool.plain(query, x[None], x[None], places(n))
    parts = x.view(sentences, 1, words, 16)
    summaries, low = pool.plain(query.expand(sentences, -1, -1, -1), parts, parts, places(words))
    _, high = pool.plain(above, summaries.transpose(0, 2), summaries.transpose(0, 2), places(sentences))
    product = (high.flatten()[:, None] * low.flatten(1)).sum().item()
    several = look(multi_head(n_heads=heads), x)[1][0, :, 0]  # (H, S)
    rows = [
        ("single level", single[..., 0].numel(), single.sum().item()),
        ("hierarchical (words, then sentences)", low[..., 0].numel() + high[..., 0].numel(), product),
        (f"multi-head, {heads} heads", len(several), several.sum(-1).mean().item()),
    ]
    return true(
        columns=("structure", "softmaxes for one question to the text", "weights of all words sum to"),
        rows=rows,
        why="One question makes one softmax, one for each sentence and one above them, or one for each head; "
        "each way the weights of the words sum to one.",
        holds=[row[1] for row in rows] == [1, sentences + 1, heads] and all(abs(row[2] - 1) < 1e-12 for row in rows),
    )


def side_by_side() -> Measured:
    """Each head as an attention of its own, with its rows of the projections; then concatenated, then W^O."""
    attention = multi_head()
    x = noise(2, 7, 16)
    parts = (attention.query, attention.key, attention.value)
    projected = ([x @ rows.T for rows in part.weight.split(4)] for part in parts)  # head by head
    heads = [(q @ k.transpose(1, 2) / 4**0.5).softmax(dim=-1) @ v for q, k, v in zip(*projected, strict=True)]
    joined = torch.cat(heads, dim=-1)  # (B, T, D)
    whole = attention(x, places(7))
    with_output, without = apart(joined @ attention.output.weight.T, whole), apart(joined, whole)
    return amended(
        columns=("four single attentions, compared with multi-head", "difference"),
        rows=[("concatenated, then W^O", with_output), ("concatenated only", without)],
        why="Several attentions side by side are multi-head attention only together with W^O, the matrix that "
        "mixes the heads again.",
        holds=with_output < 1e-12 and without > 1e-3,
    )


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

    def answers(self, rows: int) -> tuple[Tensor, Tensor]:
        """Of tokens drawn anew: what it says of the two values (rows, 2, VALUES), and what they are (rows, 2)."""
        values = torch.randint(VALUES, (rows, TOKENS))
        chosen = torch.rand(rows, TOKENS).argsort(dim=1)[:, :2]
        flags, a = F.one_hot(chosen, TOKENS).transpose(1, 2).float(), self.attention
        q, k, v = a.query(self.query), a.key(self.flags(flags)), a.value(self.values(values))
        context = a.attend(a.heads(q).expand(rows, -1, -1, -1), a.heads(k), a.heads(v), places(TOKENS))
        said = self.answer(a.output(context.transpose(1, 2).flatten(2))[:, 0]).unflatten(-1, (2, VALUES))
        return said, values.gather(1, chosen)


def two_targets() -> Measured:
    found = {}
    for n_heads in (1, 2, 4):
        torch.manual_seed(1)
        found[n_heads] = taught(Retrieval(n_heads), steps=400, rows=128)
    return true(
        columns=("heads", "width of each", "both values right"),
        rows=[(n, WIDTH // n, right) for n, right in found.items()],
        why="One softmax gives one mixture: asked for two tokens, it can only add their values, and the sum does not "
        f"say which was which. Heads fetch them apart. Guessing gives {1 / VALUES**2:.3f}.",
        holds=found[4] > 0.95 and found[1] < 0.6,
        picture=lambda path: curves(path, {"": (list(found), list(found.values()))}, x="heads", y="both values right",
                                    title="two tokens asked for at once"),
    )  # fmt: skip
