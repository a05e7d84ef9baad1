"""Why residual connections and layer norm: gradients through deep stacks, and what a norm looks at."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.layers import FeedForward, Residual
from qkv.look.charts import curves
from qkv.why.claim import Measured, amended, apart, noise, places, small, stack, true, wrong

WIDTH, DEPTHS = 64, (6, 18, 36)


class Deep(nn.Module):
    """A stack of attentions and feed-forward networks with or without its residuals and norms, in float64."""

    def __init__(self, depth: int, *, residual: bool, norm: str) -> None:
        super().__init__()
        c = small(d_model=WIDTH, d_ff=4 * WIDTH)
        self.parts = nn.ModuleList(kind(c) for _ in range(depth) for kind in (MultiHead, FeedForward))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in self.parts)
        self.residual, self.norm = residual, norm
        self.double()

    def forward(self, x: Tensor) -> list[Tensor]:
        """The vectors after each layer."""
        at, after = places(x.size(1)), []
        for i, (part, norm) in enumerate(zip(self.parts, self.norms, strict=True)):
            given = norm(x) if self.norm == "pre" else x
            out = part(given, at) if isinstance(part, MultiHead) else part(given)
            x = x + out if self.residual else out
            x = norm(x) if self.norm == "post" else x
            if i % 2:
                after.append(x)
        return after


def gradients(depth: int, *, residual: bool, norm: str) -> list[float]:
    """The norm of the gradient after each layer, beside that after the last, which moves in a random direction.

    The geometric mean over six sets of random weights, with one sentence of ten words each.
    """
    norms = torch.empty(6, depth, dtype=torch.float64)
    for seed in range(6):
        torch.manual_seed(seed)
        after = Deep(depth, residual=residual, norm=norm)(noise(1, 10, WIDTH))
        slopes = torch.autograd.grad((after[-1] * noise(1, 10, WIDTH)).sum(), after)
        norms[seed] = torch.stack([slope.norm() for slope in slopes])
    return (norms / norms[:, -1:]).log().mean(dim=0).exp().tolist()


def residuals() -> Measured:
    kinds = {
        "residual and layer norm": (True, "post"),
        "residual only": (True, "none"),
        "layer norm only": (False, "post"),
        "neither": (False, "none"),
    }
    found = {name: [gradients(d, residual=r, norm=n) for d in DEPTHS] for name, (r, n) in kinds.items()}
    ratio = {name: [layers[0] for layers in several] for name, several in found.items()}
    identity, x = stack(layers=4, norm="pre"), noise(1, 5, 16)
    identity.norm = nn.Identity()
    for name, weight in identity.named_parameters():
        if "attention.output" in name or "contract" in name:  # every sub-layer's last matrix
            nn.init.zeros_(weight)
    moved = apart(identity(x, places(5), None), x)
    middle = DEPTHS.index(18)
    return wrong(
        columns=("gradient at the first layer / at the last", *(f"{d} layers" for d in DEPTHS)),
        rows=[
            *((name, *values) for name, values in ratio.items()),
            ("a pre-norm stack whose sub-layers give 0, less its input", "", moved, ""),
        ],
        why="The first half is right: residuals make deep stacks trainable. The second half is the wrong way round: "
        "without residuals the gradient vanishes, with them it arrives, because x + f(x) always has the slope 1 beside "
        "f's own.",
        holds=ratio["residual and layer norm"][middle] > 3 * ratio["layer norm only"][middle]
        and ratio["residual only"][middle] > 1e6 * ratio["neither"][middle] and moved == 0,
        picture=lambda path: curves(
            path, {name: (range(1, 19), several[middle]) for name, several in found.items()}, log_y=True,
            x="layer", y="norm of the gradient", title="18 layers: what arrives at each"),
    )  # fmt: skip


def layer_norm() -> Measured:
    norm: Any = Residual(32, 0.0, "post").double().norm
    x = 3 * noise(100, 32) + 5
    y, moved = norm(x), norm(2 * x + 7)
    formula = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    bare = nn.LayerNorm(32, elementwise_affine=False).double()(x)
    nn.init.constant_(norm.weight, 2.0)
    nn.init.constant_(norm.bias, 0.5)
    rows = []
    for name, z in (("y = LayerNorm(x)", y), ("LayerNorm(2x + 7)", moved), ("without gamma and beta", bare),
                    ("gamma = 2, beta = 0.5", norm(x))):  # fmt: skip
        means = z.mean(dim=-1)
        rows.append((name, means[means.abs().argmax()].item(), z.std(-1, unbiased=False).mean().item()))
    return wrong(
        columns=("", "mean", "standard deviation"),
        rows=[("x", x.mean().item(), x.std(-1, unbiased=False).mean().item()), *rows],
        why="Unit standard deviation, yes; but the mean becomes 0, not 1: the mean is what is subtracted. gamma and "
        "beta may then set any other mean and deviation, or be left out.",
        holds=abs(rows[0][1]) < 1e-12 and abs(rows[0][2] - 1) < 1e-5 and apart(y, formula) < 1e-12
        and apart(y, moved) < 1e-5 and apart(y, bare) == 0 and abs(rows[3][1] - 0.5) < 1e-6,
    )  # fmt: skip


def batch_norm() -> Measured:
    """One example alone, in two batches of 4, and in one of 32: what its own output is."""
    x, others = noise(1, 16), noise(62, 16)
    batches = [torch.cat((x, o)) for o in (others[:3], others[3:6], others[:31])]
    layer, batch = Residual(16, 0.0, "post").double().norm, nn.BatchNorm1d(16).double().train()

    def spread(norm: Callable[[Tensor], Tensor]) -> float:
        outputs = [norm(b)[0] for b in batches]
        return max(apart(outputs[0], o) for o in outputs[1:])

    try:
        batch(x)
        alone = "an output"
    except ValueError:
        alone = "an error"
    by_layer, by_batch, single = spread(layer), spread(batch), apart(layer(x)[0], layer(batches[0])[0])
    return true(
        columns=("norm", "one example's output differs between batches by", "a batch of one gives"),
        rows=[("layer norm", by_layer, f"the same (difference {single:.2g})"),
              ("batch norm, in training", by_batch, alone)],
        why="Layer norm averages over the width of one token and never sees its neighbours; batch norm averages over "
        "the batch, so its answer depends on who else is there, and on one example alone there is nothing to average.",
        holds=by_layer == 0 == single and by_batch > 0.1 and alone == "an error",
    )  # fmt: skip


def drawbacks() -> Measured:
    post, pre = (gradients(18, residual=True, norm=norm)[0] for norm in ("post", "pre"))
    bare = gradients(18, residual=False, norm="none")[0]
    x = noise(1, 6, 16)
    swapped = x[:, [0, 2, 1, 3, 4, 5]]
    encoder = stack()
    order = apart(encoder(swapped, places(6), None)[:, 0], encoder(x, places(6), None)[:, 0])
    conv = nn.Conv1d(16, 16, 3, padding=1).double()
    local = apart(conv(swapped.transpose(1, 2))[..., 0], conv(x.transpose(1, 2))[..., 0])
    return amended(
        rows=[
            ("two neighbours swapped: word 0 of an encoder without positions moves by", order),
            ("... of a convolution of width 3", local),
            ("gradient first / last of 18 layers, post-norm", post),
            ("... pre-norm", pre),
            ("... without residuals and norms", bare),
        ],
        why="Order and neighbourhood are not built in, as they are in a convolution: positions must bring "
        "them. But the gradient does not vanish where residuals are: it is of one size through 18 layers, "
        "with pre-norm and with post-norm.",
        holds=order < 1e-12 and local > 1e-3 and 0.2 < min(post, pre) <= max(post, pre) < 5 and bare < 1e-6,
    )
