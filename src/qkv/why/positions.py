"""Why positions, and what the sinusoidal ones are and are not."""

import math

import torch
from torch import Tensor

from qkv.attention import causal
from qkv.errors import InputError
from qkv.look import draw
from qkv.look.charts import curves
from qkv.look.gallery.parts import frequencies, rotation, sinusoids
from qkv.positions import Learned, Places, Position, Sinusoidal
from qkv.why.claim import Measured, amended, apart, identity, look, multi_head, noise, places, small, stack, true, wrong


def bag_of_words() -> Measured:
    """Words in another order: does each word's vector change, does the mean of all?"""
    x, order = noise(1, 7, 16), torch.tensor([3, 0, 6, 1, 5, 2, 4])
    at, rows = places(7), []
    for name, position, mask in (
        ("encoder, no positions", "none", None),
        ("causal decoder, no positions", "none", causal(at)),
        ("encoder, sinusoidal positions", "sinusoidal", None),
    ):
        part = stack(position=position)
        before, after = part(x, at, mask), part(x[:, order], at, mask)
        rows.append((name, apart(before[:, order], after), apart(before, after), apart(before.mean(1), after.mean(1))))
    encoder, decoder, told = rows
    return amended(
        columns=("words shuffled", "a word's own vector moves by", "the vector at a place", "the mean of all"),
        rows=rows,
        why="The precise word is equivariant: shuffle the words and the vectors are shuffled along, the same for each "
        "word. Only a pooled output is invariant, a bag of words. And a causal decoder is not order-blind even "
        "without positions: its mask tells it how many words stand before.",
        holds=encoder[1] < 1e-12 and encoder[2] > 1e-2 and encoder[3] < 1e-12
        and min(decoder[1], decoder[3], told[1], told[3]) > 1e-3,
    )  # fmt: skip


def any_length() -> Measured:
    learned, sinusoidal = Learned(small(), length=64), Sinusoidal(small(max_length=64))
    far = (1e6 * frequencies(16)).sin()  # by the formula: a table up to a million would only cost time
    answers = [value_at(sinusoidal, 63), value_at(sinusoidal, 64), span(far)]
    answers += [value_at(learned, place) for place in (63, 64, 1_000_000)]
    names = ["sinusoidal"] * 3 + ["learned(length=64)"] * 3
    shown = [answer if answer.startswith("values") else "refused" for answer in answers]
    return true(
        columns=("position", "place", "answer"),
        rows=list(zip(names, (63, 64, 1_000_000) * 2, shown, strict=True)),
        why=f"A formula has a value at every place, a table ends with its last row. qkv says so: {answers[4]!r}",
        holds=[answer == "refused" for answer in shown] == [False] * 4 + [True] * 2
        and "64 learned positions" in answers[4],
    )


def value_at(part: Position, place: int) -> str:
    """What is added at a place, or qkv's sentence that there is nothing."""
    at = torch.tensor([place])
    try:
        return span(part.embed(torch.zeros(1, 1, 16), Places(at, at)))
    except InputError as error:
        return str(error)


def span(y: Tensor) -> str:
    return f"values in [{y.min().item():.1f}, {y.max().item():.1f}]"


def raw_indices() -> Measured:
    """Words of unit size with their index added to every coordinate; attention with Q = K = V = X."""
    rows = []
    part = identity(multi_head(n_heads=1))
    for n in (10, 100, 1000):
        words = noise(1, n, 16)
        found: list[float] = []
        for position in (torch.arange(n, dtype=torch.float64)[:, None].expand(-1, 16), sinusoids(n, 16)):  # (T, D)
            _, weights = look(part, words + position)
            found += [position[-1].norm().item(), weights[0, 0, :, -1].mean().item()]
        rows.append((n, *found, 1 / n))
    lengths, indices, _, waves, *_ = zip(*rows, strict=True)
    return true(
        columns=("words", "norm of the last index", "mean weight of the last word", "norm of the last sinusoid",
                 "mean weight of the last word, sinusoid", "even share"),
        rows=rows,
        why="An index grows without end, drowns the word it is added to, and draws nearly all weight to the last "
        "word. A sinusoid has the same norm, sqrt(d/2), at every place.",
        holds=all(row[2] > 0.8 and row[4] < 5 * row[5] and abs(row[3] - 8**0.5) < 1e-9 for row in rows)
        and rows[2][1] > 50 * rows[0][1],
        picture=lambda path: curves(path, {"index": (lengths, indices), "sinusoid": (lengths, waves)}, log_x=True,
                                    log_y=True, x="place", y="norm", title="what is added to a word"),
    )  # fmt: skip


def sum_of_angles() -> Measured:
    a, b = 6.3 * torch.rand(2, 10_000, dtype=torch.float64)
    minus, plus = (a.cos() * b.cos() - a.sin() * b.sin()), (a.cos() * b.cos() + a.sin() * b.sin())
    rows = [
        ("cos a cos b - sin a sin b, against cos(a + b)", apart(minus, (a + b).cos())),
        ("cos a cos b + sin a sin b, against cos(a + b)", apart(plus, (a + b).cos())),
        ("cos a cos b + sin a sin b, against cos(a - b)", apart(plus, (a - b).cos())),
        ("PE(p + 7) from PE(p), with the minus", shift_error(128, 7, sign=-1)),
        ("PE(p + 7) from PE(p), with the plus", shift_error(128, 7, sign=1)),
    ]
    return wrong(
        columns=("formula", "largest error"),
        rows=rows,
        why="A sign slipped: cos(a + b) = cos a cos b - sin a sin b; with plus it is cos(a - b). Proof: at "
        "a = b = pi/2 the left is cos(pi) = -1, the printed right side is 0 + 1 = 1.",
        holds=max(rows[0][1], rows[2][1]) < 1e-12 and rows[3][1] < 1e-10 and min(rows[1][1], rows[4][1]) > 0.1,
    )


def shift_error(d_model: int, k: int, *, sign: int = -1) -> float:
    """How far PE(p + k) = T(k) PE(p) is off; `sign` is that of N16."""
    rows = sinusoids(100, d_model)
    return apart(rows[k:], rows[:-k] @ rotation(d_model, k, sign=sign).T)


def wavelengths() -> Measured:
    rows = []
    waves = {d: 2 * math.pi / frequencies(d) for d in (64, 128, 512, 1024)}
    for d, length in waves.items():
        step, values = (length[1:] / length[:-1]).mean().item(), sinusoids(500, d)
        rows.append((d, d // 2, length[0].item(), length[-1].item(), step, values.min().item(), values.max().item()))
    return wrong(
        columns=("d_model", "waves", "shortest", "longest", "each longer by", "least value", "largest value"),
        rows=rows,
        why="Values lie between -1 and 1 for every d. The wavelengths run in equal ratios from 2 pi towards "
        "10000 * 2 pi = 62,832, whatever d is: a larger d_model puts more waves between the same ends, so it is "
        "finer, not wider.",
        holds=all(abs(row[2] - 2 * math.pi) < 1e-9 and -1 <= row[5] < row[6] <= 1
                  and abs(row[3] / (2 * math.pi) - 10000 ** (1 - 2 / row[0])) < 1e-3 for row in rows),
        picture=lambda path: curves(
            path, {f"d_model {d}": ([i / len(w) for i in range(len(w))], w.tolist()) for d, w in waves.items()},
            log_y=True, x="2i / d_model", y="wavelength", title="the same range, more finely"),
    )  # fmt: skip


def linear_shift() -> Measured:
    rows = []
    for d, k in ((128, 1), (128, 7), (512, 7), (512, 50)):
        t = rotation(d, k)
        unit = apart(t @ t.T, torch.eye(d, dtype=torch.float64))
        rows.append((d, k, shift_error(d, k), unit, apart(rotation(d, 3) @ t, rotation(d, k + 3))))
    square = rotation(16, 2).abs()
    names = [f"{name} {i}" for i in range(8) for name in ("sin", "cos")]
    return true(
        columns=("d_model", "k", "error of PE(p+k) = T(k) PE(p)", "error of T T^T = 1", "error of T(3) T(k) = T(k+3)"),
        rows=rows,
        why="One matrix T(k), the same for every place p, moves every position by k: each pair (sin, cos) is turned "
        "by the angle k times its frequency. Turns keep lengths, and turns add up.",
        holds=all(cell < 1e-10 for row in rows for cell in row[2:]),
        picture=lambda path: draw(square, names, names, path, title="|T(2)|: one turn for each pair"),
    )


def dot_products() -> Measured:
    rows, found = [], {}
    for d, ripple in ((128, 12), (512, 44)):
        gram = sinusoids(101, d) @ sinusoids(101, d).T  # (101, 101)
        by = [gram.diagonal(k).mean().item() for k in range(101)]
        steady = max(apart(gram.diagonal(k), torch.full((101 - k,), by[k], dtype=torch.float64)) for k in range(101))
        first = next(k for k in range(1, 101) if by[k] > by[k - 1])
        bands = [sum(by[a:b]) / (b - a) for a, b in ((1, 11), (11, 51), (51, 101))]
        is_falling = by[0] > max(by[1:]) and bands == sorted(bands, reverse=True)
        found[d] = by, first == ripple and steady < 1e-10 and is_falling
        rows.append((d, by[0], by[1], by[10], by[50], first, by[first - 1], by[first], *bands))
    return wrong(
        columns=("d_model", "k=0", "k=1", "k=10", "k=50", "first rise at k", "just before", "there",
                 "mean, k=1-10", "mean, k=11-50", "mean, k=51-100"),
        rows=rows,
        why="The product is largest with itself and falls on the whole, but not at every step: it is a sum of "
        "cosines, and first rises again at k = 12 for d = 128, at k = 44 for d = 512. It depends on the distance "
        "only, and is the same to the left and to the right.",
        holds=all(as_said for _, as_said in found.values()),
        picture=lambda path: curves(path, {f"d_model {d}, as part of k=0": (range(101), [v / by[0] for v in by])
                                           for d, (by, _) in found.items()},
                                    x="distance k", y="PE(p) . PE(p+k)", title="smaller the farther? with ripples"),
    )  # fmt: skip
