"""The parts of the Transformer and their sizes: what depends on what, and what each part is for."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.layers import FeedForward
from qkv.look import draw
from qkv.look.architecture import of_the_paper
from qkv.models import Transformer, count_parameters
from qkv.why.claim import Measured, amended, apart, influence, learn, look, multi_head, noise, places, small, true


def layers() -> Measured:
    models = {name: of_the_paper(name) for name in ("base", "big")}
    rows = [(name, len(m.encoder.blocks), len(m.decoder.blocks), count_parameters(m)) for name, m in models.items()]
    return true(
        columns=("model", "encoder blocks", "decoder blocks", "parameters"),
        rows=rows,
        why="True of both models of the paper. The number is a setting: with 2 layers Table 3 of the paper gives 23.7 "
        "BLEU, with 4 25.3, with 6 25.8, with 8 25.5.",
        holds=all(row[1:3] == (6, 6) for row in rows),
    )


def sizes_of_base() -> Measured:
    attention = of_the_paper("base").encoder.blocks[0].attention
    word = torch.empty(1, 1, 512, device="meta")
    one = attention.heads(attention.query(word))[0, 0]  # type: ignore[operator, union-attr]
    weight = attention.query.weight.unflatten(0, (8, -1))[0].T  # type: ignore[union-attr, operator]
    shapes = {"word vector": word[0].shape, "W of one head": weight.shape, "q of one head": one.shape}
    return true(
        columns=("of the base model", "shape"),
        rows=[(name, " x ".join(map(str, shape))) for name, shape in shapes.items()],
        why="Eight heads of 512/8 = 64 each; k and v are like q. qkv keeps the eight W in one matrix, 512 x 512.",
        holds=list(shapes.values()) == [(1, 512), (512, 64), (1, 64)],
    )


def widths() -> Measured:
    """Heads of any width over words of width 16; only the rows of W must match the width of a word."""
    rows = []
    x = noise(1, 5, 16)
    for d_k in (1, 3, 4, 64):
        part = multi_head(d_k=d_k)
        shapes = part.query.weight.T.shape, part(x, places(5)).shape[1:]
        rows.append((d_k, *("x".join(map(str, shape)) for shape in shapes)))
    try:
        part(x[..., :15], places(5))
        refused = "taken"
    except RuntimeError:
        refused = "refused"
    return true(
        columns=("d_k", "W (4 heads)", "output"),
        rows=[*rows, ("any", "rows do not match X", refused)],
        why="d_k, the width of a key, is free: the output projection brings every width back to that of a word. "
        "Queries must be as wide as keys, since they are multiplied.",
        holds=all(row[2] == "5x16" for row in rows) and refused == "refused",
    )


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
    rows = [
        ("all hidden states thrown away and made again from the tokens", apart(whole, fresh)),
        ("only the first 5 tokens given, logits at 5", apart(whole[:, 4], prefix[:, 4])),
        ("keys and values of earlier steps kept (the cache)", apart(whole, cached)),
        ("token 5 changed, logits before it", apart(whole[:, :4], other[:, :4])),
        ("token 5 changed, logits at 5 and after", apart(whole[:, 4:], other[:, 4:])),
    ]
    return amended(
        columns=("change", "the logits move by"),
        rows=rows,
        why="What a step needs is the previous output token. Everything else follows from the tokens so far: kept "
        "keys and values only save work. In a recurrent decoder the hidden state is needed; there it is right.",
        holds=all(moved < 1e-10 for _, moved in rows[:4]) and rows[4][1] > 1e-2,
    )


def feed_forward() -> Measured:
    """One token alone: softmax has one key and weight 1, so attention is a matrix. Can it learn "exclusive or"?"""
    errors = [attends(False), attends(True)]
    part, at = multi_head(), places(5)
    q, k, v = (part.heads(x) for x in noise(3, 1, 5, 16))
    once, twice, both = (part.attend.plain(q, k, value, at)[0] for value in (k, v, 2 * k + 3 * v))
    in_values, in_keys = apart(both, 2 * once + 3 * twice), apart(part.attend.plain(q, 2 * k, k, at)[0], once)
    return amended(
        columns=("measured: error of x xor y (guessing: 0.25), or difference", "number"),
        rows=[
            ("attention over one token", errors[0]),
            ("feed-forward network", errors[1]),
            ("attention's departure from a linear map, in the values", in_values),
            ("attention's change when the keys are doubled (softmax)", in_keys),
        ],
        why="Expand, ReLU, contract: and ReLU is the only non-linearity on what is passed on, since in the values "
        "attention is linear. The softmax is the other one: it is not linear in queries and keys.",
        holds=abs(errors[0] - 0.25) < 0.02 and errors[1] < 0.02 and in_values < 1e-12 and in_keys > 1e-3,
    )


def attends(has_feed_forward: bool) -> float:
    """The mean squared error of x xor y after 200 steps, from the vector (x, y, 1) of one token."""
    attention, network = multi_head(d_model=8, n_heads=2), FeedForward(small(d_model=8, d_ff=32)).double()
    into, out = nn.Linear(2, 8).double(), nn.Linear(8, 1).double()
    bits = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]).double()[:, None]  # (4, 1, 2)
    wanted = torch.tensor([0, 1, 1, 0]).double()

    def error() -> Tensor:
        x = into(bits)
        x = network(x) if has_feed_forward else attention(x, places(1))
        return F.mse_loss(out(x)[:, 0, 0], wanted)

    learn(nn.ModuleList((attention, network, into, out)), error, steps=200, rate=lambda step: 2e-2)
    return error().item()


def exchange() -> Measured:
    """Token j moves; does the output of token i move?"""
    attention, network = multi_head(), FeedForward(small()).double()
    x = noise(1, 6, 16)
    mixing, alone = influence(lambda y: attention(y, places(6)), x), influence(network, x)
    others = ~torch.eye(6, dtype=torch.bool)
    rows = [
        (name, felt[others].min().item(), felt[others].max().item(), felt.diag().min().item())
        for name, felt in (("attention, X -> Z", mixing), ("feed-forward, Z -> R", alone))
    ]
    inner = F.relu(F.conv1d(x.transpose(1, 2), network.expand.weight[..., None], network.expand.bias))
    outer = F.conv1d(inner, network.contract.weight[..., None], network.contract.bias)
    same = apart(outer.transpose(1, 2), network(x))
    return true(
        columns=("part", "least influence of j on i", "largest influence of j on i", "least of i on itself"),
        rows=[*rows, ("feed-forward beside two convolutions of width 1: difference", "", same, "")],
        why="Attention lets every token touch every other; the feed-forward network treats each token by itself, "
        "exactly - it is a convolution of width 1.",
        holds=rows[0][1] > 0 and rows[1][2] == 0 and same < 1e-12,
    )


def depends_on_input() -> Measured:
    """Weights of attention and of a dense layer over places, for two inputs."""
    attention, dense = multi_head(n_heads=1), nn.Linear(5, 5, bias=False).double()
    inputs = noise(3, 1, 5, 16)
    weights = [look(attention, x)[1][0, 0] for x in inputs]  # each (T, S)
    slopes = [torch.autograd.functional.jacobian(dense, x[0, :, 0]) for x in inputs]  # what it does with each input
    moved, fixed = ([apart(a, b) for a, b in pairwise(tables)] for tables in (weights, slopes))
    size, names = count_parameters(attention), [f"word {i}" for i in range(5)]
    return true(
        columns=("layer over 5 words", "weights change with the input by", "parameters, 5 words",
                 "parameters, 50 words"),
        rows=[("attention", min(moved), size, size), ("dense", max(fixed), dense.weight.numel(), 50 * 50)],
        why="A dense layer has its weights; attention computes them anew from every input, and so takes any length "
        "with the same parameters.",
        holds=min(moved) > 1e-3 and max(fixed) == 0,
        picture=lambda path: draw(torch.stack(weights), names, names, path, title="one attention, three inputs"),
    )  # fmt: skip
