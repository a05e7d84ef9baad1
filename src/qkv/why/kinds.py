"""Kinds of attention: soft, hard and local; whose sentences are seen; one level, two levels, many heads."""

import torch
import torch.nn.functional as F

from qkv.attention import Soft, sentence_numbers
from qkv.look import draw
from qkv.why.claim import Measured
from qkv.why.instruments import apart, look, multi_head, places, small


def soft_hard_local() -> Measured:
    n, radius = 10, 2
    soft = Soft(small(d_model=8, n_heads=1))
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, n, 8)
    _, weights = soft.plain(q, k, k, places(n))  # (1, 1, 1, S)
    chosen = int(weights[0, 0, 0].multinomial(1))
    hard = F.one_hot(torch.tensor(chosen), n).float()
    near = (torch.arange(n) - chosen).abs() <= radius
    _, local = soft.plain(q, k, k, places(n), near)
    table = torch.stack((weights[0, 0, 0], hard, local[0, 0, 0]))  # (3, S)
    names = ["soft", "hard", "local"]
    seen = [int((row > 0).sum()) for row in table]
    rows = [(name, n, count, row.sum().item(), row.max().item())
            for name, count, row in zip(names, seen, table, strict=True)]  # fmt: skip
    return Measured(
        columns=("attention", "keys", "keys with weight", "sum of weights", "largest weight"),
        rows=list(rows),
        verdict="true",
        why=f"Soft weighs every key, hard draws one, local weighs the {int(near.sum())} keys around a drawn centre.",
        holds=seen == [n, 1, int(near.sum())] and bool(((table.sum(1) - 1).abs() < 1e-6).all()),
        picture=lambda path: draw(table, names, [f"key {i}" for i in range(n)], path, title="who is looked at"),
    )


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
    plain, based = earned * log_slope, (earned - earned.mean()) * log_slope
    slope = -2 * (values[drawn] - wanted)  # d reward / d context, where the drawn value stands
    # Backward as if the context had been the soft mixture: d context / d scores = (diag(a) - a a^T) V.
    straight = slope @ values.T @ (weights.diag() - weights.outer(weights)).detach()  # (samples, 4)
    rows, off = [], {}
    for name, estimate in (("REINFORCE", plain), ("REINFORCE, baseline", based), ("straight-through", straight)):
        error = estimate.std(dim=0) / samples**0.5
        off[name] = ((estimate.mean(dim=0) - exact).abs() / error).max().item()
        rows.append((name, apart(estimate.mean(dim=0), exact), off[name], estimate.var(dim=0).sum().item()))
    ratio = based.var(dim=0).sum().item() / plain.var(dim=0).sum().item()
    return Measured(
        columns=("estimate of the gradient", "off the exact one by", "in standard errors", "variance"),
        rows=[("backpropagation through the draw", "no gradient", "", ""), *rows],
        verdict="true with a correction",
        why="A draw has no gradient; REINFORCE's mean is the exact gradient, and a baseline leaves "
        f"{ratio:.2f} of its variance. The correction: reinforcement learning is not the only way - straight-through "
        "trains without it, at the price of a biased gradient.",
        holds=not drawn.requires_grad and off["REINFORCE"] < 4 and off["REINFORCE, baseline"] < 4 and ratio < 1
        and off["straight-through"] > 10,
    )  # fmt: skip


def general_and_local() -> Measured:
    """Two sentences of four and three tokens; the first is watched while the second changes."""
    ids = torch.tensor([[5, 6, 7, 2, 8, 9, 2]])
    number = sentence_numbers(ids, [2])[0]
    own = number[:, None] == number[None, :]  # (T, S)
    attention = multi_head()
    x = torch.randn(1, 7, 16, dtype=torch.float64)
    other = x.clone()
    other[0, 4:] = torch.randn(3, 16, dtype=torch.float64)
    at, first = places(7), slice(0, 4)
    moved = {
        scope: apart(attention(x, at, mask=mask)[:, first], attention(other, at, mask=mask)[:, first])
        for scope, mask in (("its own sentence (the notes' local)", own), ("all sentences (the notes' general)", None))
    }
    general = Soft(small(d_model=16, n_heads=1), score="general").double()
    with torch.no_grad():
        general.score.weight.copy_(torch.eye(16)[None])  # type: ignore[operator]
    q, k = torch.randn(2, 1, 1, 7, 16, dtype=torch.float64)
    bilinear = apart(general.score(q, k, at), Soft(small(), score="dot").score(q, k, at))
    near, far = moved.values()
    return Measured(
        columns=("measured", "number"),
        rows=[
            *((f"change of sentence 1 when sentence 2 changes, seeing {scope}", m) for scope, m in moved.items()),
            ("Luong's general score q W k with W = I, less the dot product", bilinear),
        ],
        verdict="true with a correction",
        why="As a rule of what may be seen it is right. But both words have a second meaning: Luong's general is a "
        "score, q W k, and Luong's local is a window of places; qkv keeps the names apart.",
        holds=near == 0 and far > 1e-3 and bilinear < 1e-12,
    )


def structures() -> Measured:
    """A text of 3 sentences of 4 words: how many softmaxes each structure makes, and that each sums to one."""
    sentences, words, heads = 3, 4, 4
    n = sentences * words
    x = torch.randn(1, n, 16, dtype=torch.float64)
    pool = Soft(small(n_heads=1, d_model=16)).double()
    query, above = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)
    _, single = pool.plain(query, x[None], x[None], places(n))
    parts = x.view(sentences, 1, words, 16)
    summaries, low = pool.plain(query.expand(sentences, -1, -1, -1), parts, parts, places(words))
    _, high = pool.plain(above, summaries.transpose(0, 2), summaries.transpose(0, 2), places(sentences))
    _, several = look(multi_head(n_heads=heads), x)
    product = (high.flatten()[:, None] * low.flatten(1)).sum().item()
    sums = [single.sum().item(), product, several[0, :, 0].sum(-1).mean().item()]
    counts = [single[..., 0].numel(), low[..., 0].numel() + high[..., 0].numel(), several[0, :, 0, 0].numel()]
    names = ["single level", "hierarchical (words, then sentences)", f"multi-head, {heads} heads"]
    return Measured(
        columns=("structure", "softmaxes for one question to the text", "weights of all words sum to"),
        rows=list(zip(names, counts, sums, strict=True)),
        verdict="true",
        why="One question makes one softmax, one for each sentence and one above them, or one for each head; "
        "each way the weights of the words sum to one.",
        holds=counts == [1, sentences + 1, heads] and all(abs(s - 1) < 1e-12 for s in sums),
    )


def side_by_side() -> Measured:
    """Each head as an attention of its own, with its rows of the projections; then concatenated, then W^O."""
    attention = multi_head()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    heads = []
    for h in range(4):
        rows = slice(4 * h, 4 * h + 4)
        q, k, v = (x @ part.weight[rows].T for part in (attention.query, attention.key, attention.value))
        weights = (q @ k.transpose(1, 2) / 4**0.5).softmax(dim=-1)
        heads.append(weights @ v)
    joined = torch.cat(heads, dim=-1)  # (B, T, D)
    whole = attention(x, places(7))
    with_output, without = apart(joined @ attention.output.weight.T, whole), apart(joined, whole)
    return Measured(
        columns=("four single attentions, compared with multi-head", "difference"),
        rows=[("concatenated, then W^O", with_output), ("concatenated only", without)],
        verdict="true with a correction",
        why="Several attentions side by side are multi-head attention only together with W^O, the matrix that "
        "mixes the heads again.",
        holds=with_output < 1e-12 and without > 1e-3,
    )
