"""Recording what attention did, with no flag through any forward."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from qkv.attention.soft import Soft


class Maps(dict[str, Tensor]):
    """The weights (B, H, T, S) of each attention's last call, by its name; `calls` has those of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, list[Tensor]] = {}


@contextmanager
def recording(model: nn.Module, part: str = "") -> Iterator[Maps]:
    """Within, every attention of a model whose name has `part` in it also keeps its weights.

    The plain kernel takes the fused one's place meanwhile, since the fused one never has the weights.
    """
    maps = Maps()

    def keep(name: str, attend: Any, args: tuple[Any, ...], _: Tensor) -> Tensor:
        context, weights = attend.plain(*args)
        maps[name] = weights.detach()
        maps.calls.setdefault(name, []).append(maps[name])
        return context

    handles = [
        module.register_forward_hook(partial(keep, name.removesuffix(".attend")))
        for name, module in model.named_modules()
        if isinstance(module, Soft) and (not part or part in name.split("."))
    ]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()
