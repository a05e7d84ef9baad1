"""Which parameters learn, how fast, and by what steps: freezing, rates by layer, weight decay; optimisers."""

import inspect
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.layers import Embedding, Projection, Recurrence, Stack
from qkv.positions import Position
from qkv.training.groups import Group, Optimizers, each, matches, parameters, parted
from qkv.training.ranks import ALONE, Ranks
from qkv.training.settings import TrainingConfig
from qkv.training.sharding import shared_as, whole

TABLES = Embedding | nn.Embedding | Projection | Position  # of tokens and of positions
LATE = 1e9  # steps after which beta^t is 0
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a quintic, steep at 0: five rounds bring singular values near 1
ROUNDS = 5
MOMENTUM = 0.95
LIKE_ADAM = 0.2  # root mean square of Adam's steps, so that both kinds share one learning rate (Liu et al. 2025)


@cache
def eager(kind: type[torch.optim.Optimizer]) -> Any:
    """One of torch's optimisers by its own methods. As they come, they are wrapped so that torch.compile leaves them
    alone, for which each loads torch._dynamo: a second of a processor, and nobody compiles here."""
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    own = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**own, "step": torch.no_grad()(inspect.unwrap(kind.step))})


def freeze(model: nn.Module, patterns: str) -> None:
    """Let the parameters whose names match stay as they are: "backbone", "encoder.blocks.0, source", "*.norm.*"."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in filter(None, (one.strip() for one in patterns.split(","))):
        frozen = [name for name in names if matches(name, pattern)]
        if not frozen:
            known = ", ".join(dict.fromkeys(name.partition(".")[0] for name in names))
            raise InputError(f"training.freeze names {pattern!r}, but no parameter is called so; begin with: {known}")
        for name in frozen:
            model.get_parameter(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"training.freeze = {patterns!r} leaves nothing to learn; freeze less")


def layers(model: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters from below: tables of tokens and positions, each block, with the tables of positions that are its
    own, or recurrent layer, and what stands on them."""
    blocks: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, Recurrence):
            blocks.append(module)
        elif isinstance(module, Stack):
            blocks += module.layers()
    own = {part for block in blocks for part in block.modules()}
    tables = nn.ModuleList(part for part in model.modules() if isinstance(part, TABLES) and part not in own)
    found, seen = list[list[nn.Parameter]](), set[int]()
    for part in (tables, *blocks, model):
        found.append([p for p in part.parameters() if id(p) not in seen])
        seen |= set(map(id, found[-1]))
    return [layer for layer in found if layer]


def parameter_groups(
    model: nn.Module, c: TrainingConfig, apart: Container[int] = (), only: Container[int] | None = None
) -> list[dict[str, Any]]:
    """All parameters, or those with ids in `only`, parted by what they have in common: the factor of their learning
    rate, their weight decay, and whether their ids are `apart`: these come first. Their order is the model's own in
    each group.

    Howard & Ruder 2018, section 3.2: the rate of a layer is that of the layer above it times `layer_decay`.
    """
    from_above = enumerate(reversed(layers(model)))
    factor = {id(parameter): c.layer_decay**depth for depth, layer in from_above for parameter in layer}
    groups: dict[Any, dict[str, Any]] = {}
    for parameter in model.parameters():
        if only is not None and id(parameter) not in only:
            continue
        decay = c.weight_decay if parameter.ndim > 1 or c.decay == "all" else 0.0
        key = id(parameter) in apart, factor[id(parameter)], decay
        groups.setdefault(key, {"params": [], "factor": key[1], "weight_decay": decay, "apart": key[0]})
        groups[key]["params"].append(parameter)
    return sorted(groups.values(), key=lambda group: not group["apart"])


class Unfreezing:
    """Howard & Ruder 2018, section 3.3, gradual unfreezing: the top layer learns first, and every `epochs` one more. Or
    each of several groups from its own epoch on (Chronopoulou et al. 2019, sequential unfreezing)."""

    def __init__(self, model: nn.Module, epochs: float, groups: Sequence[Group] = ()) -> None:
        waking: list[tuple[float, list[nn.Parameter]]] = []
        if groups:
            waking = [(group.after, own) for group, own in zip(groups, parted(model, groups), strict=True)]
        elif epochs:
            waking = [(depth * epochs, layer) for depth, layer in enumerate(reversed(layers(model)))]
        self.waking = [(first, [p for p in some if p.requires_grad]) for first, some in waking]

    def at(self, epoch: float) -> None:
        """Let as many parameters learn as should by now."""
        for first, some in self.waking:
            for parameter in some:
                parameter.requires_grad_(first <= epoch)


def clip_each(model: nn.Module, optimizer: torch.optim.Optimizer | Optimizers, longest: float) -> Tensor:
    """Scale the gradients of each optimiser down; returns the length that all of them had. They are summed in the
    model's own order, whatever the optimiser's groups are, so that no rounding depends on these."""
    own = [set(map(id, parameters(one))) for one in each(optimizer)]
    norms = [clip((p for p in model.parameters() if id(p) in some), longest) for some in own]
    return norms[0] if len(norms) == 1 else torch.stack(norms).norm()


def clip(several: Iterable[Tensor], longest: float) -> Tensor:
    """Scale gradients together down to a length of at most `longest`; returns the length that they had.

    As nn.utils.clip_grad_norm_, which multiplies shorter ones too, by 1: half of its time, and a fiftieth of a step of
    fine-tuning.
    """
    moved = [parameter for parameter in several if parameter.grad is not None]
    norm = nn.utils.get_total_norm([parameter.grad for parameter in moved if parameter.grad is not None])
    length = whole(norm)
    if longest / (length + 1e-6) < 1:  # their factor
        nn.utils.clip_grads_with_norm_(moved, longest, norm)
    return length


def build_optimizer(
    model: nn.Module, c: TrainingConfig, device: torch.device, precision: torch.dtype, ranks: Ranks = ALONE
) -> torch.optim.Optimizer | Optimizers:
    """The optimiser that the settings name, over all of a model's parameters; or those of their groups."""
    if not c.groups:
        return one_optimizer(model, c, device, precision, ranks)
    groups = [Group.read(text) for text in c.groups]
    several = []
    for group, own in zip(groups, parted(model, groups), strict=True):
        corrected = c.bias_correction or group.optimizer not in ("adam", "adamw")
        changed = replace(c, optimizer=group.optimizer, groups=[], bias_correction=corrected)
        several.append(one_optimizer(model, changed, device, precision, ranks, only=set(map(id, own))))
        for part in several[-1].param_groups:
            part["factor"] *= group.rate / c.learning_rate
    return Optimizers(several)


def one_optimizer(
    model: nn.Module, c: TrainingConfig, device: torch.device, precision: torch.dtype, ranks: Ranks = ALONE,
    only: Container[int] | None = None,
) -> torch.optim.Optimizer:  # fmt: skip
    settings: dict[str, Any] = {
        "lr": c.learning_rate, "betas": (c.beta1, c.beta2), "eps": c.epsilon, "fused": device.type in ("cpu", "cuda"),
    }  # fmt: skip
    if c.optimizer == "muon":
        inner = set(map(id, matrices(model)))
        groups = parameter_groups(model, c, inner, only)
        return Muon([{**g, "orthogonal": precision} if g["apart"] else g for g in groups], ranks, **settings)
    groups = parameter_groups(model, c, only=only)
    match c.optimizer:
        case "adam" | "adamw":
            adam = eager(torch.optim.Adam if c.optimizer == "adam" else torch.optim.AdamW)(groups, **settings)
            return adam if c.bias_correction else uncorrected(adam)
        case "adamax":
            return eager(torch.optim.Adamax)(groups, c.learning_rate, (c.beta1, c.beta2), c.epsilon)
        case "adagrad":
            begin = c.accumulator
            return eager(torch.optim.Adagrad)(groups, c.learning_rate, initial_accumulator_value=begin, eps=c.epsilon)
        case "asgd":
            return eager(torch.optim.ASGD)(groups, c.learning_rate)
    return eager(torch.optim.SGD)(groups, c.learning_rate, c.beta1)


def uncorrected(adam: torch.optim.Adam) -> torch.optim.Adam:
    """Devlin et al. 2019, the authors' code: W <- W - lr m / (sqrt(v) + eps), where Adam divides m and v by 1 - beta^t.

    Counted from so late a step, what Adam divides by is 1.
    """
    for group in adam.param_groups:
        for weight in group["params"]:
            step = torch.full((), LATE, device=weight.device)
            adam.state[weight] = {"step": step, **{key: torch.zeros_like(weight) for key in ("exp_avg", "exp_avg_sq")}}
    return adam


def state_of(optimizer: torch.optim.Optimizer | Optimizers) -> dict[str, Tensor]:
    """What it remembers of each parameter, by the parameter's number: "3.exp_avg"."""
    entries = optimizer.state_dict()["state"].items()
    return {f"{i}.{name}": value for i, entry in entries for name, value in entry.items()}


def restore_state(optimizer: torch.optim.Optimizer | Optimizers, tensors: Mapping[str, Tensor]) -> None:
    """Let it remember that again; of parameters that are shared out, each rank its share."""
    moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = shared_as(value, moved[int(i)])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """The weights that multiply vectors: all matrices but the tables of tokens and of positions."""
    tables = {id(p) for module in model.modules() if isinstance(module, TABLES) for p in module.parameters()}
    return [each for each in model.parameters() if each.ndim == 2 and id(each) not in tables]


class Muon(eager(torch.optim.AdamW)):  # type: ignore[misc]
    """Jordan et al. 2024: a matrix moves by the orthogonal matrix nearest to its momentum; the rest moves by AdamW.

    M <- mu M + (1 - mu) G;  W <- W - lr 0.2 sqrt(max(rows, columns)) orthogonal((1 - mu) G + mu M)

    All directions of a matrix move equally far, also those whose gradients are small. The matrices are the parameters
    of groups with "orthogonal", the number format to compute in. The steps are those of torch.optim.Muon, but
    matrices of one shape are computed together, and several ranks share them out.
    """

    def __init__(self, groups: list[dict[str, Any]], ranks: Ranks = ALONE, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self.ranks = ranks

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            if "orthogonal" in group:
                shapes: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
                for weight in group["params"]:
                    if weight.grad is not None:
                        shapes.setdefault(weight.shape, []).append((weight, weight.grad))
                        weight.grad = None  # AdamW passes over what has none
                for alike in shapes.values():
                    self.move(alike, group["lr"], group["weight_decay"], group["orthogonal"])
        super().step(closure)

    def move(self, alike: list[tuple[Tensor, Tensor]], rate: float, decay: float, precision: torch.dtype) -> None:
        """One step of weights of one shape, given with their gradients."""
        ahead = []
        for weight, gradient in alike:
            if not self.state[weight]:  # named as Adam names its own, which reads them when a run goes on
                self.state[weight] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(weight)}
            momentum = self.state[weight]["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
            ahead.append(gradient.lerp(momentum, MOMENTUM))
        moves = self.ranks.shared_out(orthogonal, torch.stack(ahead).to(precision))  # (N, rows, columns)
        far = rate * LIKE_ADAM * math.sqrt(max(moves.shape[1:]))
        for (weight, _), move in zip(alike, moves, strict=True):
            weight.mul_(1 - rate * decay).add_(move, alpha=-far)


def orthogonal(x: Tensor) -> Tensor:
    """(N, rows, columns) -> U V^T of each one's singular value decomposition U S V^T, nearly, by products alone.

    X <- a X + b (X X^T) X + c (X X^T)^2 X acts on the singular values as s <- a s + b s^3 + c s^5.
    """
    a, b, c = NEWTON_SCHULZ
    upright = x.shape[-2] > x.shape[-1]
    x = x.mT.contiguous() if upright else x  # or the products of one matrix round otherwise than those of several
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # so that no singular value is above 1
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if upright else x
