"""Several objectives as one: a weighted sum of their mean losses."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Objective
from qkv.text.tokenizer import Tokenizer


class Together:
    """L = sum_i w_i L_i, each L_i a mean over what its own objective counts: "classes + 0.5 * causal_lm".

    Each prepares what those of an earlier `turn` made of the batch: one joins two texts, another hides words of both.
    """

    def __init__(self, parts: Sequence[tuple[float, str, Objective]]) -> None:
        self.parts = list(parts)
        self.turn = 0
        self.heads = {name: text for _, _, objective in parts for name, text in objective.heads.items()}

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        found, asked = dict(inputs), dict[int, Asked]()
        for i in sorted(range(len(self.parts)), key=lambda i: self.parts[i][2].turn):
            asked[i] = self.parts[i][2].prepare(batch, rng, found)
            found |= asked[i].inputs
        return replace(asked[0], inputs=found, parts=[asked[i] for i in range(len(self.parts))])

    def knowing(self, tokenizer: Tokenizer) -> "Together":
        return Together([(weight, name, objective.knowing(tokenizer)) for weight, name, objective in self.parts])

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed like the first objective's, by whose count it is divided; the others' parts bear their names."""
        losses = [objective.loss(outputs, one) for (_, _, objective), one in zip(self.parts, asked.parts, strict=True)]
        total, figures = torch.zeros_like(losses[0].total), dict(losses[0].parts)
        for i, ((weight, name, _), one, loss) in enumerate(zip(self.parts, asked.parts, losses, strict=True)):
            scale = asked.count / max(1, one.count)
            total = total + weight * scale * loss.total
            figures[f"{name}_loss"] = loss.total.detach() * scale
            if i:
                figures |= {f"{name}_{part}": value * scale for part, value in loss.parts.items()}
        return Loss(total, figures)


def terms(spec: str) -> list[tuple[float, str]]:
    """'a(x=1) + 0.5 * b' -> [(1.0, 'a(x=1)'), (0.5, 'b')]; nothing is evaluated."""

    def walk(node: ast.expr) -> list[tuple[float, str]]:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return walk(left) + walk(right)
            case ast.BinOp(left=ast.Constant(int() | float() as weight), op=ast.Mult()) if 0 <= weight < float("inf"):
                return [(weight * inner, text) for inner, text in walk(node.right)]
            case ast.Name() | ast.Call():
                return [(1.0, ast.unparse(node))]
        raise ValueError

    try:
        return walk(ast.parse(spec, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{spec[:80]!r} names no objective; write name, name(key=value), or a sum: classes + 0.5 * causal_lm"
        ) from None
