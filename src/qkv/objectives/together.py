"""Several objectives as one: a weighted sum of their mean losses."""

import ast
from collections.abc import Sequence
from typing import Any

import torch

from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.causal_lm import CausalLM
from qkv.objectives.objective import Asked, Loss, Objective


class Together:
    """L = sum_i w_i L_i, each L_i a mean over what its own objective counts: "classes + 0.5 * causal_lm".

    The model reads what the first one prepares; what only another prepares is added to it.
    """

    def __init__(self, parts: Sequence[tuple[float, str, Objective]]) -> None:
        self.parts = list(parts)

    def prepare(self, batch: Batch, rng: torch.Generator) -> Asked:
        asked = [objective.prepare(batch, rng) for _, _, objective in self.parts]
        inputs = {name: value for one in reversed(asked) for name, value in one.inputs.items()}
        for _, _, objective in self.parts:
            if isinstance(objective, CausalLM):
                inputs |= objective.reading(inputs["ids"])
        return Asked(inputs, asked[0].labels, asked[0].count, asked)

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
