"""Trained on short text, asked about longer text: which positions carry on, and what a learned table learns.

The text is the reference of the Python language, which every Python brings along.
"""

from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import causal
from qkv.errors import InputError
from qkv.layers import Embedding, Projection, Stack
from qkv.look.charts import curves
from qkv.positions import POSITIONS, Places
from qkv.why.claim import CPU, Measured, Row, amended, learn, small, true

LETTERS = " abcdefghijklmnopqrstuvwxyz.,"
SHORT, LONG = 40, 80
STEADY = 0.03  # a rise of the loss that chance alone may bring


def letters() -> Tensor:
    """The text as ids of LETTERS; anything else is a space, and runs of spaces are one."""
    kept = "".join(c if c in LETTERS else " " for _, text in sorted(topics.items()) for c in text.lower())
    return torch.tensor([LETTERS.index(c) for c in " ".join(kept.split())])


class Letters(nn.Module):
    """A causal model of letters: what comes next?"""

    def __init__(self, position: str) -> None:
        super().__init__()
        c = small(d_model=32, vocab_size=len(LETTERS), norm="pre", max_length=SHORT, position=position)
        self.embedding = Embedding(len(LETTERS), c.d_model)
        self.stack = Stack(c, layers=1)
        self.projection = Projection(len(LETTERS), c.d_model, tied=self.embedding, bias=False)

    def losses(self, ids: Tensor) -> Tensor:
        """(B, T + 1) ids -> the loss of each next letter: (B, T)."""
        at = Places.span(0, ids.size(1) - 1, CPU, causal=True)
        hidden = self.stack(self.embedding(ids[:, :-1]), at, causal(at))
        return F.cross_entropy(self.projection(hidden).transpose(1, 2), ids[:, 1:], reduction="none")

    def learn(self, text: Tensor, steps: int) -> "Letters":
        learn(self, lambda: self.losses(windows(text, 32, SHORT)).mean(), steps=steps, betas=(0.9, 0.98),
              rate=lambda step: 1e-2 * min(1.0, (step + 1) / 20, 2 * (1 - step / steps)))  # fmt: skip
        return self


def windows(text: Tensor, rows: int, length: int) -> Tensor:
    start = torch.randint(len(text) - length - 1, (rows,))
    return text[start[:, None] + torch.arange(length + 1)]  # (rows, length + 1)


def extrapolation() -> Measured:
    """One small model for each position: trained on 40 letters, then read on 80."""
    text = letters()
    held, known = text[:20_000], text[20_000:]
    rows: list[Row] = []
    by_place = {}
    for name in (name for name, part in POSITIONS.items() if not part.needs_tree):
        torch.manual_seed(1)
        model = Letters(name).learn(known, steps=300).eval()
        torch.manual_seed(2)  # the same text for all
        asked = windows(held, 500, LONG)
        with torch.no_grad():
            try:
                loss = model.losses(asked).mean(dim=0)  # (LONG,)
            except InputError:
                short = model.losses(asked[:, : SHORT + 1]).mean(dim=0)
                rows.append((name, short[20:].mean().item(), "refused", "a clear error"))
                continue
        near, far = loss[20:SHORT].mean().item(), loss[SHORT:].mean().item()
        by_place[name] = loss.unflatten(0, (-1, 5)).mean(dim=1).tolist()
        rows.append((name, near, far, far - near))
    rise = {row[0]: row[3] for row in rows if row[0] in by_place}
    steady = [name for name in rise if rise[name] < STEADY]
    return true(
        columns=("position", f"loss, letters 21-{SHORT}", f"loss, letters {SHORT + 1}-{LONG}", "rise"),
        rows=rows,
        why="Both sentences are true: a sinusoid has a value at every place, and a model that never saw those values "
        "in training does not know what to do with them, so its loss rises. A learned table ends. "
        f"In this run these carried on (rise below {STEADY}): {', '.join(steady)}.",
        holds=rise.get("sinusoidal", 0) > STEADY and ("learned", "refused") in [row[0:3:2] for row in rows]
        and all(name in steady for name in ("alibi", "shaw") if name in rise),
        picture=lambda path: curves(path, {name: (range(3, LONG, 5), loss) for name, loss in by_place.items()},
                                    x="place", y="loss", title=f"trained on {SHORT} letters, read on {LONG}"),
    )  # fmt: skip


def learned_table() -> Measured:
    """A table that begins as zeros, so that all it holds afterwards was learned."""
    model = Letters("learned")
    table = next(model.stack.position.parameters())
    nn.init.zeros_(table)
    model.learn(letters(), steps=350)
    weight = table.detach()
    cosine = F.cosine_similarity(weight[:, None], weight[None], dim=-1)
    by = [cosine.diagonal(k).mean().item() for k in range(SHORT)]
    near, far = sum(by[1:4]) / 3, sum(by[10:30]) / 20
    return amended(
        columns=("distance", "mean cosine of two learned positions"),
        rows=[*((k, by[k]) for k in (1, 2, 5, 10, 20)), ("1-3", near), ("10-29", far)],
        why="Nobody told the table what is near, and it finds out: neighbours come to be more alike than far places. "
        "That this alone makes a scheme good is not shown by it: N19 compares schemes by their loss.",
        holds=near > far + 0.02,
        picture=lambda path: curves(path, {"learned": (range(SHORT), by)}, x="distance", y="cosine",
                                    title="what a table of positions learns"),
    )  # fmt: skip
