"""What a page asks of a model, and what it is told of one before anybody looks inside: that needs no torch."""

from dataclasses import dataclass
from typing import Any, Literal

from qkv.text.frames import FRAMES

Which = Literal["encoder", "decoder"]
View = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Which attention to give; what is left out means all."""

    kind: Literal["encoder", "decoder", "memory", "entities"] | None = None
    layer: int | None = None  # counted from 0, as in the answer
    head: int | None = None  # counted from 0


EVERY = Attention()


def model_view(opened: Any) -> View:
    """Of whatever `qkv.load` gives; a model that is not built yet is as its folder tells."""
    folder, loaded = getattr(opened, "folder", None), unbuilt(opened)
    if loaded is not None:
        architecture, count, config = loaded.architecture, loaded.parameters(), dict(loaded.settings)
    else:
        from qkv.config import to_tree
        from qkv.look.explain import named
        from qkv.models import MODELS, count_parameters

        model = opened.model
        architecture, count = named(getattr(model, "backbone", model), MODELS), count_parameters(model)
        config = to_tree(model.config)
    return {
        "name": folder.resolve().name if folder else "",
        "source": opened.about.get("source", ""),
        "target": opened.about.get("target", ""),
        "architecture": architecture,
        "parameters": count,
        "config": config,
    }


def looks(opened: Any) -> bool:
    """Whether one can look at what it reads: it is a backbone with attention."""
    if (loaded := unbuilt(opened)) is not None:
        return loaded.architecture in FRAMES
    from qkv.look.sentence import reads

    return reads(opened.model)


def unbuilt(opened: Any) -> Any:
    """What the folder tells of a model that is not built yet, if it tells enough."""
    loaded = getattr(opened, "loaded", None)
    return loaded if loaded is not None and not loaded.is_built and loaded.tells else None
