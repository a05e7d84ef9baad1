"""Several objectives as one: a weighted sum of their mean losses, or one of them for each batch."""

import ast
import copy
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from qkv.config import named, setting
from qkv.data import Batch
from qkv.errors import InputError
from qkv.objectives.objective import NOTHING, Asked, Given, Loss, Measure, Objective, Usual
from qkv.text.tokenizer import Tokenizer


class Several(Usual):
    """Objectives by weight and name."""

    parts: Sequence[tuple[float, str, Objective]]

    @property
    def heads(self) -> Mapping[str, str]:  # type: ignore[override]
        return {name: text for _, _, objective in self.parts for name, text in objective.heads.items()}

    def check(self, documents: int, marks: int) -> None:
        for _, _, objective in self.parts:
            objective.check(documents, marks)


class Together(Several):
    """L = sum_i w_i L_i, each L_i a mean over what its own objective counts: "classes + 0.5 * causal_lm".

    Each prepares what those of an earlier `turn` made of the batch: one joins two texts, another hides words of both.
    """

    def __init__(self, parts: Sequence[tuple[float, str, Objective]]) -> None:
        self.parts = list(parts)
        self.turn = min(objective.turn for _, _, objective in parts)
        self.passages = any(objective.passages for _, _, objective in parts)
        arranging = [name for _, name, objective in parts if objective.passages and objective.turn == 0]
        if len(arranging) > 1:
            one, other = arranging[:2]
            raise InputError(
                f"{one} and {other} each put sentences in an order of their own, so that no text can be asked for "
                f"both; ask for one of them at a time: {one} | {other}"
            )

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        found, beside, asked = dict(inputs), dict[str, Any](), dict[int, Asked]()
        for i in sorted(range(len(self.parts)), key=lambda i: self.parts[i][2].turn):
            asked[i] = self.parts[i][2].prepare(batch, rng, {**beside, **found})
            found |= asked[i].inputs
            beside |= asked[i].beside
        parts = [asked[i] for i in range(len(self.parts))]
        return replace(parts[0], inputs=found, parts=parts, beside=beside, read=max(part.read for part in parts))

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Together":
        return Together([(weight, name, one.knowing(tokenizer, reads)) for weight, name, one in self.parts])

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        """Summed like the first objective's, by whose count it is divided; the others' parts bear their names."""
        losses = [objective.loss(outputs, one) for (_, _, objective), one in zip(self.parts, asked.parts, strict=True)]
        total, figures, counts = torch.zeros_like(losses[0].total), dict(losses[0].parts), dict(losses[0].counts)
        for i, ((weight, name, _), one, loss) in enumerate(zip(self.parts, asked.parts, losses, strict=True)):
            total = total + weight * max(1, asked.count) / max(1, one.count) * loss.total
            own = {"loss": loss.total.detach(), **(loss.parts if i else {})}
            figures |= {f"{name}_{part}": value for part, value in own.items()}
            counts |= {f"{name}_{part}": loss.counts.get(part, one.count) for part in own}
        return Loss(total, figures, counts)


class Numbered(Usual):
    """An objective of a number, which the model is told as `task` if it reads it: ERNIE 2.0 adds a vector for it."""

    def __init__(self, number: int, objective: Objective, reads: Container[str] = ()) -> None:
        self.number, self.objective, self.is_told = number, objective, "task" in reads
        self.turn, self.passages = objective.turn, objective.passages

    @property
    def heads(self) -> Mapping[str, str]:  # type: ignore[override]
        return self.objective.heads

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Numbered":
        return Numbered(self.number, self.objective.knowing(tokenizer, reads), reads)

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        asked = self.objective.prepare(batch, rng, inputs)
        return replace(asked, inputs={**asked.inputs, "task": self.number}) if self.is_told else asked

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        return self.objective.loss(outputs, asked)

    def check(self, documents: int, marks: int) -> None:
        self.objective.check(documents, marks)


class Either(Several):
    """Sun et al. 2020 (ERNIE 2.0), section 3.1: one objective for each batch, drawn by their weights: "a | 2 * b".

    Continual learning is to begin with the model of the stage before, and to ask one more question beside the old ones.
    A question of weight 0 is never asked in training, but measured in each validation: what is forgotten of it.
    """

    def __init__(self, parts: Sequence[tuple[float, str, Objective]]) -> None:
        self.parts = [
            (weight, name, one if isinstance(one, Numbered) else Numbered(i, one))
            for i, (weight, name, one) in enumerate(parts)
        ]
        self.turn, self.passages = 0, any(one.passages for _, _, one in self.parts)
        self.weights = torch.tensor([weight for weight, _, _ in self.parts], dtype=torch.float64)
        if not self.weights.any():
            raise InputError(
                "every objective has the weight 0, so that nothing would be asked; give one of them another"
            )

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Either":
        return Either([(weight, name, one.knowing(tokenizer, reads)) for weight, name, one in self.parts])

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        chosen = int(torch.multinomial(self.weights, 1, generator=rng))
        return replace(self.parts[chosen][2].prepare(batch, rng, inputs), chosen=chosen)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        return self.parts[asked.chosen][2].loss(outputs, asked)

    def measured(self, measure: Measure) -> dict[str, float]:
        """Each by itself: `loss` is their mean by the weights, others are those of the first; and each of them bears
        the name of its objective too."""
        found = {name: measure(one) for _, name, one in self.parts}
        loss = sum(weight * found[name]["loss"] for weight, name, _ in self.parts) / float(self.weights.sum())
        named = {f"{name}_{key}": value for name, figures in found.items() for key, value in figures.items()}
        return {**found[self.parts[0][1]], **named, "loss": loss}


@dataclass(frozen=True, kw_only=True)
class Each(Usual):
    """Liu et al. 2019 (MT-DNN), Algorithm 1: a batch of a mixture is asked for the loss of its own part alone.

    The heads of a part bear its name, rte.classes, so that its batches move them and what all parts share.
    """

    parts: list[str] = setting([], "the objective of each part of a mixture, rte=classes; of others, that of its task")

    def __post_init__(self) -> None:
        from qkv.objectives import in_full, objective

        texts = {name: in_full(text) for name, text in named(self.parts, "each").items()}
        object.__setattr__(self, "parts", [f"{name}={text}" for name, text in texts.items()])
        object.__setattr__(self, "_objectives", {name: objective(text) for name, text in texts.items()})

    @property
    def objectives(self) -> dict[str, Objective]:
        found: dict[str, Objective] = self._objectives  # type: ignore[attr-defined]
        return found

    @property
    def heads(self) -> dict[str, str]:  # type: ignore[override]
        parts = self.objectives.items()
        return {f"{part}.{head}": text for part, one in parts for head, text in one.heads.items()}

    def knowing(self, tokenizer: Tokenizer, reads: Container[str] = ()) -> "Each":
        known = copy.copy(self)
        parts = {name: one.knowing(tokenizer, reads) for name, one in self.objectives.items()}
        object.__setattr__(known, "_objectives", parts)
        return known

    def prepare(self, batch: Batch, rng: torch.Generator, inputs: Given = NOTHING) -> Asked:
        return replace([*self.objectives.values()][batch.part].prepare(batch, rng, inputs), chosen=batch.part)

    def loss(self, outputs: Any, asked: Asked) -> Loss:
        part, objective = [*self.objectives.items()][asked.chosen]
        return objective.loss(outputs.of(part), asked)


def plain(objective: Objective) -> Iterator[Objective]:
    """The objectives that one is made of, each by itself."""
    match objective:
        case Together(parts=parts) | Either(parts=parts):
            for _, _, one in parts:
                yield from plain(one)
        case Numbered(objective=one):
            yield from plain(one)
        case _:
            yield objective


def alternatives(spec: str) -> list[tuple[float, list[tuple[float, str]]]]:
    """'a + b | 2 * c' -> [(1.0, the terms of a + b), (2.0, those of c)]; of a text without |, the terms with their
    weights."""

    def walk(node: ast.expr) -> list[ast.expr]:
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return walk(left) + walk(right)
        return [node]

    def weighed(node: ast.expr) -> tuple[float, list[tuple[float, str]]]:
        match node:
            case ast.BinOp(left=ast.Constant(int() | float() as weight), op=ast.Mult()) if 0 <= weight < float("inf"):
                return float(weight), summed(node.right)
        return 1.0, summed(node)

    try:
        parts = walk(ast.parse(spec, mode="eval").body)
        return [weighed(part) for part in parts] if len(parts) > 1 else [(1.0, summed(parts[0]))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{spec[:80]!r} names no objective; write name, name(key=value), or a sum: classes + 0.5 * causal_lm"
        ) from None


def summed(node: ast.expr) -> list[tuple[float, str]]:
    """a(x=1) + 0.5 * b -> [(1.0, 'a(x=1)'), (0.5, 'b')]; nothing is evaluated."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return summed(left) + summed(right)
        case ast.BinOp(left=ast.Constant(int() | float() as weight), op=ast.Mult()) if 0 <= weight < float("inf"):
            return [(weight * inner, text) for inner, text in summed(node.right)]
        case ast.Name() | ast.Call():
            return [(1.0, ast.unparse(node))]
    raise ValueError
