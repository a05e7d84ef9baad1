"""The parts of the Transformer and their sizes: what depends on what, and what each part is for."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers import FeedForward
from qkv.look import draw
from qkv.models import PRESETS, Transformer, TransformerConfig, count_parameters
from qkv.why.claim import Measured, Row
from qkv.why.instruments import apart, influence, learn, look, multi_head, places, small


def layers() -> Measured:
    rows: list[Row] = []
    for name in ("base", "big"):
        with torch.device("meta"):  # sizes without weights
            model = Transformer(TransformerConfig(**PRESETS[name]))
        blocks = len(model.encoder.blocks), len(model.decoder.blocks)
        rows.append((name, *blocks, count_parameters(model)))
    return Measured(
        columns=("model", "encoder blocks", "decoder blocks", "parameters"),
        rows=rows,
        verdict="true",
        why="True of both models of the paper. The number is a setting: with 2 layers Table 3 of the paper gives 23.7 "
        "BLEU, with 4 25.3, with 6 25.8, with 8 25.5.",
        holds=all(row[1:3] == (6, 6) for row in rows),
    )


def sizes_of_base() -> Measured:
    with torch.device("meta"):
        attention = Transformer(TransformerConfig(**PRESETS["base"])).encoder.blocks[0].attention
    word = torch.empty(1, 1, 512, device="meta")
    one = attention.heads(attention.query(word))[0, 0]  # type: ignore[operator, union-attr]
    weight = attention.query.weight.unflatten(0, (8, -1))[0].T  # type: ignore[union-attr, operator]
    shapes = {"word vector": word[0], "W of one head": weight, "q of one head": one}
    return Measured(
        columns=("of the base model", "shape"),
        rows=[(name, " x ".join(map(str, shape.shape))) for name, shape in shapes.items()],
        verdict="true",
        why="Eight heads of 512/8 = 64 each; k and v are like q. qkv keeps the eight W in one matrix, 512 x 512.",
        holds=[tuple(shape.shape) for shape in shapes.values()] == [(1, 512), (512, 64), (1, 64)],
    )


def widths() -> Measured:
    """Heads of any width over words of width 16; only the rows of W must match the width of a word."""
    rows: list[Row] = []
    x = torch.randn(1, 5, 16, dtype=torch.float64)
    for d_k in (1, 3, 4, 64):
        part = multi_head(d_k=d_k)
        shapes = part.query.weight.T.shape, part(x, places(5)).shape[1:]
        rows.append((d_k, *("x".join(map(str, shape)) for shape in shapes)))
    try:
        part(x[..., :15], places(5))
        refused = "taken"
    except RuntimeError:
        refused = "refused"
    return Measured(
        columns=("d_k", "W (4 heads)", "output"),
        rows=[*rows, ("any", "rows do not match X", refused)],
        verdict="true",
        why="d_k, the width of a key, is free: the output projection brings every width back to that of a word. "
        "Queries must be as wide as keys, since they are multiplied.",
        holds=all(row[2] == "5x16" for row in rows) and refused == "refused",
    )  # fmt: skip


def next_word() -> Measured:
    """A random decoder in float64: are the logits a function of the tokens so far, and of nothing else?"""
    model = Transformer(small(encoder_layers=2, decoder_layers=2)).double().eval()
    src, tgt = torch.randint(3, 20, (1, 6)), torch.randint(3, 20, (1, 8))
    changed = tgt.clone()
    changed[0, 4] = (tgt[0, 4] - 3 + 1) % 17 + 3
    with torch.no_grad():
        whole, other = model(src, tgt).logits, model(src, changed).logits
        prefix = model(src, tgt[:, :5]).logits
        _, state = model.start(src)
        cached = torch.stack([model.step(tgt[:, t], state) for t in range(8)], dim=1)
        fresh = model(src, tgt).logits  # no state of the first pass is left
    rows: list[Row] = [
        ("all hidden states thrown away and made again from the tokens", apart(whole, fresh)),
        ("only the first 5 tokens given, logits at 5", apart(whole[:, 4], prefix[:, 4])),
        ("keys and values of earlier steps kept (the cache)", apart(whole, cached)),
        ("token 5 changed, logits before it", apart(whole[:, :4], other[:, :4])),
        ("token 5 changed, logits at 5 and after", apart(whole[:, 4:], other[:, 4:])),
    ]
    return Measured(
        columns=("change", "the logits move by"),
        rows=rows,
        verdict="true with a correction",
        why="What a step needs is the previous output token. Everything else follows from the tokens so far: kept "
        "keys and values only save work. In a recurrent decoder the hidden state is needed; there it is right.",
        holds=all(float(row[1]) < 1e-10 for row in rows[:4]) and float(rows[4][1]) > 1e-2,
    )


def feed_forward() -> Measured:
    """One token alone: softmax has one key and weight 1, so attention is a matrix. Can it learn "exclusive or"?"""
    rows: list[Row] = [("attention over one token", attends(False)), ("feed-forward network", attends(True))]
    part = multi_head()
    x, a, b = torch.randn(3, 1, 5, 16, dtype=torch.float64)
    q, k, u, v, at = *(part.heads(y) for y in (x, a, a, b)), places(5)
    mixed = [part.attend.plain(q, k, value, at)[0] for value in (u, v, 2 * u + 3 * v)]
    in_values = apart(mixed[2], 2 * mixed[0] + 3 * mixed[1])
    in_keys = apart(part.attend.plain(q, 2 * k, u, at)[0], part.attend.plain(q, k, u, at)[0])
    rows += [("attention's departure from a linear map, in the values", in_values),
             ("attention's change when the keys are doubled (softmax)", in_keys)]  # fmt: skip
    return Measured(
        columns=("measured: error of x xor y (guessing: 0.25), or difference", "number"),
        rows=rows,
        verdict="true with a correction",
        why="Expand, ReLU, contract: and ReLU is the only non-linearity on what is passed on, since in the values "
        "attention is linear. The softmax is the other one: it is not linear in queries and keys.",
        holds=abs(float(rows[0][1]) - 0.25) < 0.02 and float(rows[1][1]) < 0.02
        and in_values < 1e-12 and in_keys > 1e-3,
    )  # fmt: skip


def attends(has_feed_forward: bool) -> float:
    """The mean squared error of x xor y after 200 steps, from the vector (x, y, 1) of one token."""
    attention, network = multi_head(d_model=8, n_heads=2), FeedForward(small(d_model=8, d_ff=32)).double()
    into, out = nn.Linear(2, 8).double(), nn.Linear(8, 1).double()
    bits = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=torch.float64)[:, None]  # (4, 1, 2)
    wanted = torch.tensor([0, 1, 1, 0], dtype=torch.float64)

    def error() -> Tensor:
        x = into(bits)
        x = network(x) if has_feed_forward else attention(x, places(1))
        return F.mse_loss(out(x)[:, 0, 0], wanted)

    learn(nn.ModuleList((attention, network, into, out)), error, steps=200, rate=2e-2)
    return error().item()


def exchange() -> Measured:
    """Token j moves; does the output of token i move?"""
    attention, network = multi_head(), FeedForward(small()).double()
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    mixing = influence(lambda y: attention(y, places(6)), x)
    alone = influence(network, x)
    others = ~torch.eye(6, dtype=torch.bool)
    one, two = (
        nn.Conv1d(part.in_features, part.out_features, 1).double() for part in (network.expand, network.contract)
    )
    with torch.no_grad():
        for convolution, part in ((one, network.expand), (two, network.contract)):
            convolution.weight.copy_(part.weight[..., None])
            convolution.bias.copy_(part.bias)  # type: ignore[union-attr]
        same = apart(two(F.relu(one(x.transpose(1, 2)))).transpose(1, 2), network(x))
    return Measured(
        columns=("part", "least influence of j on i", "largest influence of j on i", "least of i on itself"),
        rows=[(name, table[others].min().item(), table[others].max().item(), table.diag().min().item())
              for name, table in (("attention, X -> Z", mixing), ("feed-forward, Z -> R", alone))]
        + [("feed-forward beside two convolutions of width 1: difference", "", same, "")],
        verdict="true",
        why="Attention lets every token touch every other; the feed-forward network treats each token by itself, "
        "exactly - it is a convolution of width 1.",
        holds=mixing[others].min().item() > 0 and alone[others].max().item() == 0 and same < 1e-12,
    )  # fmt: skip


def depends_on_input() -> Measured:
    """Weights of attention and of a dense layer over places, for two inputs."""
    attention, dense = multi_head(n_heads=1), nn.Linear(5, 5, bias=False).double()
    inputs = torch.randn(3, 1, 5, 16, dtype=torch.float64)
    with torch.no_grad():
        weights = [look(attention, x)[1][0, 0] for x in inputs]  # each (T, S)
    moved = min(apart(a, b) for a, b in pairwise(weights))
    slopes = [torch.autograd.functional.jacobian(dense, x[0, :, 0]) for x in inputs]  # what it does with each input
    fixed = max(apart(a, b) for a, b in pairwise(slopes))
    size, long = count_parameters(attention), count_parameters(multi_head(n_heads=1))
    names = [f"word {i}" for i in range(5)]
    return Measured(
        columns=("layer over 5 words", "weights change with the input by", "parameters, 5 words",
                 "parameters, 50 words"),
        rows=[("attention", moved, size, long), ("dense", fixed, dense.weight.numel(), 50 * 50)],
        verdict="true",
        why="A dense layer has its weights; attention computes them anew from every input, and so takes any length "
        "with the same parameters.",
        holds=moved > 1e-3 and fixed == 0,
        picture=lambda path: draw(torch.stack(weights), names, names, path, title="one attention, three inputs"),
    )  # fmt: skip
