"""Long texts: what their attentions cost on this machine, why Linformer's few slots may do, how far BigBird's go."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import recording
from qkv.layers import Embedding, Projection, Stack
from qkv.look import draw
from qkv.look.charts import curves
from qkv.look.cost import cost, slope
from qkv.look.gallery.parts import seen_by
from qkv.why.claim import Measured, amended, learn, noise, places, small, true
from qkv.why.length import LETTERS, letters, windows

FEW, MANY = 1024, 4096  # tokens
FORMS = ("scaled_dot", "window(radius=64)", "bigbird(block=16)", "linformer(k=128)", "memory_compressed(factor=3)")
READ, QUARTER = 64, 16  # letters of a text whose attention is taken apart, and a quarter of them
STEPS, HIDDEN = 250, 0.15
BIGBIRD, WINDOW = "bigbird(block=4, window=3, global_blocks={}, random={})", "window(radius=6)"  # three blocks of 4


def linear() -> Measured:
    """Counted while they run, forward and backward, one text; and timed here."""
    found = {name: tuple(cost(name, n, width=64, heads=2) for n in (FEW, MANY)) for name in FORMS}
    powers = {name: slope(few, many) for name, (few, many) in found.items()}
    rows = [
        (name, few.operations / 1e6, many.operations / 1e6, powers[name], many.scores / MANY / 2, few.seconds,
         many.seconds)
        for name, (few, many) in found.items()
    ]  # fmt: skip
    longer = found["scaled_dot"][1].operations / found["window(radius=64)"][1].operations
    return amended(
        columns=("attention", f"M multiply-adds, {FEW:,} tokens", f"{MANY:,} tokens", "growth, as power of n",
                 "scores of a token", f"seconds here, {FEW:,} tokens", f"seconds here, {MANY:,}"),
        rows=rows,
        why=f"Windows, BigBird and Linformer grow with the length; compressed attention has a third of the "
        f"scores of full attention and still its square. At {MANY:,} tokens full attention has {longer:.0f} times the "
        f"multiply-adds of a window; seconds follow as far as the processor is kept busy.",
        holds=all(abs(powers[name] - 1) < 0.05 for name in FORMS[1:4])
        and all(abs(powers[name] - 2) < 0.1 for name in ("scaled_dot", "memory_compressed(factor=3)")),
        picture=lambda path: curves(
            path, {name: ((FEW, MANY), [one.operations for one in pair]) for name, pair in found.items()},
            log_x=True, log_y=True, x="tokens", y="multiply-adds", title="forward and backward, width 64"),
    )  # fmt: skip


class HiddenLetters(nn.Module):
    """An encoder of letters: what stood in the holes?"""

    def __init__(self) -> None:
        super().__init__()
        c = small(d_model=32, n_heads=2, vocab_size=len(LETTERS) + 1, norm="pre", max_length=READ, position="rotary")
        self.embedding = Embedding(c.vocab_size, c.d_model)
        self.stack = Stack(c, layers=2)
        self.projection = Projection(c.vocab_size, c.d_model, tied=self.embedding, bias=False)

    def loss(self, ids: Tensor) -> Tensor:
        holes = torch.rand(ids.shape) < HIDDEN
        hidden = self.stack(self.embedding(ids.masked_fill(holes, len(LETTERS))), places(READ), None)
        return F.cross_entropy(self.projection(hidden[holes]), ids[holes])

    def maps(self, ids: Tensor) -> list[Tensor]:
        """The weights of each block, (B, H, T, T)."""
        with recording(self.stack) as maps:
            self.stack(self.embedding(ids), places(READ), None)
        return list(maps.values())


def spectrum(weights: Tensor) -> Tensor:
    """Wang et al. 2020, Figure 1: the sum of the largest singular values as a share of all of them, (T,), mean of all
    maps (.., T, T)."""
    values = torch.linalg.svdvals(weights.flatten(0, -3))
    return (values.cumsum(dim=-1) / values.sum(dim=-1, keepdim=True)).mean(dim=0)


@torch.no_grad()
def shares(model: HiddenLetters, ids: Tensor) -> dict[str, Tensor]:
    return {f"layer {i}": spectrum(one) for i, one in enumerate(model.maps(ids), start=1)}


def low_rank() -> Measured:
    """Taken from an encoder that has learned to fill in letters, on text that it has not seen."""
    text = letters()
    held, known = text[:20_000], text[20_000:]
    asked = windows(held, 16, READ)[:, :READ]
    model = HiddenLetters()
    drawn = shares(model, asked)
    learn(model, lambda: model.loss(windows(known, 32, READ)[:, :READ]), steps=STEPS,
          rate=lambda step: 1e-2 * min(1.0, (step + 1) / 20, 2 * (1 - step / STEPS)))  # fmt: skip
    found = {f"{name}, trained": share for name, share in shares(model, asked).items()}
    found |= {f"{name}, as drawn": share for name, share in drawn.items()}
    found |= {"any 64 x 64 numbers": spectrum(noise(16, 1, READ, READ)),
              "each letter its neighbour alone": spectrum(torch.eye(READ).roll(1, dims=1)[None])}  # fmt: skip
    at = {name: share[QUARTER - 1].item() for name, share in found.items()}
    layers = [(at[f"layer {i}, trained"], at[f"layer {i}, as drawn"]) for i in (1, 2)]
    trained, (other, neighbour) = [one for one, _ in layers], [*at.values()][-2:]
    return amended(
        columns=("attention weights, 64 letters", f"share of the first {QUARTER} singular values", "of the first 32"),
        rows=[(name, share[QUARTER - 1].item(), share[31].item()) for name, share in found.items()],
        why=f"Of one layer a quarter of the singular values holds {max(trained):.0%} of their sum, of any numbers "
        f"{other:.0%}: most of what it does would pass through a quarter of the slots. But it is no law, and training "
        f"works against it: as drawn, weights are nearly even and low in rank; a layer that has learned to look at "
        f"neighbours ({min(trained):.0%} here) is on its way to one that looks at nothing else ({neighbour:.0%}).",
        holds=max(trained) > other + 0.1 and all(one < drawn for one, drawn in layers)
        and abs(neighbour - QUARTER / READ) < 1e-4,
        picture=lambda path: curves(
            path, {name: (range(1, READ + 1), share.tolist()) for name, share in found.items()},
            x="singular values", y="share of their sum", title="how much of an attention the largest hold"),
    )  # fmt: skip


def reach(mask: Tensor, hops: int) -> Tensor:
    """Which tokens (columns) a token (row) hears of in so many layers: (T, T)."""
    found = torch.eye(len(mask), dtype=torch.bool)
    for _ in range(hops):
        found = (found.double() @ mask.double()) > 0
    return found


def hops() -> Measured:
    """Of the masks that run: who reaches whom, in one layer and in two, as texts grow."""
    kinds = {
        "BigBird": BIGBIRD.format(2, 1), "without random blocks": BIGBIRD.format(2, 0), "window alone": WINDOW
    }  # fmt: skip
    rows, drawn = [], dict[str, Tensor]()
    for name, spec in kinds.items():
        for n in (32, 64, 128, 256):
            mask = seen_by(spec, n)
            drawn[name] = mask if n == 64 else drawn.get(name, mask)
            two = reach(mask, 2).double().mean().item()
            needed = next(k for k in range(1, n) if reach(mask, k).all())
            middle = mask[n // 2].sum().item()
            rows.append((name, n, int(middle), mask.double().mean().item(), two, needed))
    found = {(row[0], row[1]): row for row in rows}
    both = [found[name, n] for name in ("BigBird", "without random blocks") for n in (64, 128, 256)]
    words = [str(i + 1) for i in range(64)]
    return true(
        columns=("attention", "tokens", "keys of a token in the middle", "pairs in one layer", "pairs in two layers",
                 "layers until all are reached"),
        rows=rows,
        why="What a token sees does not grow with the text, and still two layers connect every pair: by the global "
        "blocks, which see all and are seen by all. Random blocks are not needed for that; they shorten the way where "
        "there are no global ones. A window alone needs more layers, the longer the text.",
        holds=all(row[4] == 1 and row[5] == 2 for row in both)
        and len({row[2] for row in both[:3]}) == 1 and found["window alone", 256][5] > found["window alone", 64][5] > 2,
        picture=lambda path: draw(drawn["BigBird"].double(), words, words, path, title="BigBird: who sees whom"),
    )  # fmt: skip
