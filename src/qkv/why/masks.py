"""Masks: what may be seen, what padding does, and why an encoder needs no second direction."""

import torch
from torch import Tensor, nn

from qkv.attention import causal, from_blocked, padding
from qkv.look import draw
from qkv.text.tokenizer import PAD
from qkv.why.claim import Measured
from qkv.why.instruments import apart, influence, look, multi_head, places, stack


def masks() -> Measured:
    """Two sentences of 6 and 4 words in one batch; and a decoder's triangle."""
    ids = torch.tensor([[5, 6, 7, 8, 9, 4], [5, 6, 7, 8, PAD, PAD]])
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    dirty = x.clone()
    dirty[1, 4:] = 100.0
    encoder, at = stack(), places(6)
    real = padding(ids, PAD)
    together, alone = encoder(x, at, real)[1:, :4], encoder(x[1:, :4], places(4), None)
    junk = encoder(dirty, at, real)[1:, :4]
    leak = apart(encoder(dirty, at, None)[1:, :4], encoder(x, at, None)[1:, :4])
    triangle = causal(at)
    feels = influence(lambda y: encoder(y, at, triangle), x[:1])
    _, weights = look(multi_head(), x[:1], triangle)
    nothing, _ = look(multi_head(), x[:1], torch.zeros(6, 6, dtype=torch.bool))
    drawn = from_blocked(torch.ones(6, 6).triu(diagonal=1))  # a picture in which 0 means useful
    rows = [
        ("padded batch, less the sentence alone", apart(together, alone)),
        ("... when the padding holds junk", apart(together, junk)),
        ("... without the mask", leak),
        ("causal: influence of later words on earlier ones", feels.triu(diagonal=1).max().item()),
        ("causal: least influence of an earlier word", feels[triangle].min().item()),
        ("causal: weight of the first word on itself", weights[0, :, 0, 0].min().item()),
        ("a word that may see nothing: largest output", nothing.abs().max().item()),
        ("cells that differ, mask of 0 = useful read as such", int((drawn ^ triangle).sum())),
    ]
    names = [f"word {i}" for i in range(6)]
    return Measured(
        columns=("measured", "number"),
        rows=list(rows),
        verdict="true",
        why="A blocked score becomes -inf, its weight exactly 0: padding and the future change nothing. The two "
        "masks are joined by and. In qkv True means may look; masks and pictures of the other kind (0 = useful) go "
        "through `from_blocked`.",
        holds=max(rows[0][1], rows[1][1]) < 1e-12 and leak > 1e-2 and rows[3][1] == 0 and rows[4][1] > 0
        and rows[5][1] == 1 and rows[6][1] == 0 and rows[7][1] == 0,
        picture=lambda path: draw(triangle.double(), names, names, path, title="dark passes, white is blocked"),
    )  # fmt: skip


def directions() -> Measured:
    """How much of the text before and after it a word feels; and what reading backwards changes."""
    n = 8
    x = torch.randn(1, n, 16, dtype=torch.float64)
    encoder, at = stack(), places(n)
    lstm = nn.LSTM(16, 16, batch_first=True).double()
    parts = {
        "encoder": lambda y: encoder(y, at, None),
        "decoder (causal)": lambda y: encoder(y, at, causal(at)),
        "LSTM": lambda y: lstm(y)[0],
    }
    rows = []
    for name, f in parts.items():
        feels = influence(f, x) > 0
        before, after = feels.tril(diagonal=-1).sum().item(), feels.triu(diagonal=1).sum().item()
        rows.append((name, before / 28, after / 28, backwards(f, x)))  # 28 = 8 * 7 / 2 pairs
    found = {row[0]: row[1:] for row in rows}
    return Measured(
        columns=("model without positions", "earlier words felt", "later words felt", "difference, read backwards"),
        rows=list(rows),
        verdict="true with a correction",
        why="An encoder sees both sides at once and has no first word: read backwards it gives the same vectors. A "
        "causal decoder is one-directional, as an LSTM is; of it the sentence is not true.",
        holds=found["encoder"][:2] == (1, 1) and found["encoder"][2] < 1e-12
        and all(found[name][:2] == (1, 0) and found[name][2] > 1e-3 for name in ("decoder (causal)", "LSTM")),
    )  # fmt: skip


def backwards(f: object, x: Tensor) -> float:
    """The difference between reading x forwards and reading it backwards, place by place."""
    with torch.no_grad():
        return apart(f(x.flip(1)).flip(1), f(x))  # type: ignore[operator]
