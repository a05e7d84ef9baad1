"""Recording what attention did, with no flag through any forward."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn

from qkv.attention import Soft
from qkv.decoding import Plain, Translator


class Maps(dict[str, Tensor]):
    """The weights (B, H, T, S) of each attention's last call, by its name; `calls` has those of every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, list[Tensor]] = {}


@contextmanager
def record_attention(watched: Any) -> Iterator[Maps]:
    """Within, every attention of a model (or of a translator's model) also keeps its weights.

    >>> with record_attention(model) as maps:
    ...     model(src, tgt)
    >>> maps["decoder.blocks.1.memory_attention"]          # (B, H, T, S)

    The plain kernel takes the fused one's place meanwhile, since the fused one never has the weights; a translator
    searches with the model itself.
    """
    model = watched if isinstance(watched, nn.Module) else watched.model
    maps = Maps()

    def keep(name: str) -> Any:
        def hook(attend: Any, args: tuple[Any, ...], _: Tensor) -> Tensor:
            context, weights = attend.plain(*args)
            maps[name] = weights.detach()
            maps.calls.setdefault(name, []).append(maps[name])
            return context  # type: ignore[no-any-return]

        return hook

    watching = [(name, module) for name, module in model.named_modules() if isinstance(module, Soft)]
    handles = [module.register_forward_hook(keep(name.removesuffix(".attend"))) for name, module in watching]
    try:
        with searching_with_model(watched) if isinstance(watched, Translator) else nullcontext():
            yield maps
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def searching_with_model(translator: Translator) -> Iterator[None]:
    """Within, a translator searches with its model itself, and not with a faster form that has no such modules."""
    engine, translator.engine = translator.engine, Plain(translator.model)
    try:
        yield
    finally:
        translator.engine = engine
