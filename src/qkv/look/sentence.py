"""What attention did, recorded with no flag through any forward; and one sentence, written or read, with all of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import Maps, recording
from qkv.decoding import Generator, Plain, Translator
from qkv.errors import InputError
from qkv.layers import Stack
from qkv.models import Backbone, Headed, Model, UniLM, architecture_of
from qkv.objectives.answers import reading
from qkv.objectives.one_way import joined
from qkv.text.normalise import normalise
from qkv.text.tokenizer import BOS, EOS


@contextmanager
def record_attention(watched: Any) -> Iterator[Maps]:
    """Within, every attention of a model (or of a translator's or generator's) also keeps its weights.

    >>> with record_attention(model) as maps:
    ...     model(src, tgt)
    >>> maps["decoder.blocks.1.memory_attention"]          # (B, H, T, S)

    What was loaded meanwhile searches or reads with the model itself, not with a faster form without such modules.
    """
    model: Any = watched if isinstance(watched, nn.Module) else watched.model
    with recording(model) as maps:
        searches = isinstance(watched, Translator | Generator)
        plain: dict[str, Any] = {"engine": Plain(model)} if searches else {"reader": model, "prediction": None}
        before = {name: getattr(watched, name) for name in plain if hasattr(watched, name)}
        vars(watched).update({name: plain[name] for name in before})
        try:
            yield maps
        finally:
            vars(watched).update(before)


@dataclass(frozen=True)
class Look:
    """The tokens of a text, or of a sentence pair, and the weights between them; the ends are tokens, too."""

    source: list[str]  # what each token reads
    target: list[str]  # what each row of the decoder wrote, </s> at last; nothing of a model that only reads
    maps: dict[str, Tensor]  # (H, T, S) by the name of the attention

    @property
    def labels(self) -> dict[str, tuple[list[str], list[str]]]:
        """What the rows and the columns of each kind of attention are."""
        own = self.source, self.source
        if not self.target:
            return {"encoder": own, "decoder": own, "entities": own}
        return {"encoder": own, "decoder": (self.target, ["<s>", *self.target[:-1]]),
                "memory": (self.target, self.source)}  # fmt: skip

    def of_kind(self, kind: str) -> list[Tensor]:
        """The weights of one kind of attention, layer by layer."""
        return [weights for name, weights in self.maps.items() if kind_of(name) == kind]

    def cross(self) -> Tensor:
        """Where the decoder looked in the source: the mean over heads of each layer's weights, (layers, T, S)."""
        return torch.stack([weights.mean(dim=0) for weights in self.of_kind("memory")])


def kind_of(name: str) -> str:
    """memory, of a decoder that looks at what an encoder read; entities, of those that names stand for; else the stack
    whose tokens look at one another."""
    kinds = {"memory_attention": "memory", "entity_attention": "entities"}
    return next((kind for part, kind in kinds.items() if part in name), name.split(".")[0])


def look_at(opened: Any, text: str, other: str | None = None) -> Look:
    """What a model attends to: of whatever `qkv.load` gives.

    A translator is watched while it writes `other` (its own translation, if none is given), a backbone while it reads
    one text, or two, in its own frame.
    """
    if isinstance(opened, Translator):
        return look_at_ids(opened, *ids_of(opened, text, other))
    return look_while_reading(opened, text, other)


def ids_of(translator: Translator, source: str, target: str | None = None) -> tuple[list[int], list[int]]:
    """The tokens of both sides, without their ends."""
    if target is None:
        target = translator.translate(normalise(source), split=False).text
    mark = translator.tokenizer.mark(translator.about.get("target", ""))
    return translator.sources([normalise(source)])[0], [*mark, *translator.tokenizer.encode(normalise(target))]


@torch.inference_mode()
def look_at_ids(translator: Translator, src: list[int], tgt: list[int]) -> Look:
    """The same for tokens as they are; neither side has its ends. A model of one stack reads both sides as one text."""
    if isinstance(translator.model, UniLM):
        return look_at_joined(translator, src, tgt)
    with record_attention(translator) as maps:
        run(translator, src, tgt)
    pieces = translator.tokenizer.pieces
    # A recurrent decoder attends once for each token: its calls are the rows of one map.
    weights = {name: torch.cat(calls, dim=2)[0].cpu() for name, calls in maps.calls.items()}
    return Look([*pieces(src), "</s>"], [*pieces(tgt), "</s>"], weights)


def look_at_joined(translator: Translator, src: list[int], tgt: list[int]) -> Look:
    model, device = translator.model, next(translator.model.parameters()).device
    ids, segments = joined(*(torch.tensor([row], device=device) for row in ([*src, EOS], [BOS, *tgt, EOS])))
    with recording(model) as maps:
        model(ids, segments=segments)
    return Look(translator.tokenizer.pieces(ids[0].tolist()), [], {name: one[0].cpu() for name, one in maps.items()})


def run(translator: Translator, src: list[int], tgt: list[int]) -> None:
    """The model once, for whoever watches its parts."""
    device = next(translator.model.parameters()).device
    translator.model(torch.tensor([[*src, EOS]], device=device), torch.tensor([[BOS, *tgt]], device=device))


@torch.inference_mode()
def look_while_reading(opened: Any, *texts: str | None) -> Look:
    """One text, or two, with the special tokens that the model's frame puts around them."""
    backbone, ids = backbone_of(opened.model), read_ids(opened, *texts)
    with recording(backbone) as maps:
        backbone.encode(**reading(torch.tensor([ids], device=next(backbone.parameters()).device)))
    return Look(opened.tokenizer.pieces(ids), [], {name: weights[0].cpu() for name, weights in maps.items()})


def reads(model: Model) -> bool:
    """Whether it is a backbone with attention, alone or under heads."""
    found = model.backbone if isinstance(model, Headed) else model
    return isinstance(found, Backbone) and hasattr(found.config, "attention")


def backbone_of(model: Model) -> Backbone:
    """What stands below the heads of a model, if it has heads."""
    found = model.backbone if isinstance(model, Headed) else model
    if not isinstance(found, Backbone) or not reads(found):
        raise InputError(
            f"{architecture_of(model)} models neither translate nor read a text token by token with attention, as bert "
            "and gpt2 do; there is nothing to look at"
        )
    if not any(isinstance(part, Stack) for part in found.modules()):
        name = architecture_of(model)
        raise InputError(f"{name} models have no attention; look at another, such as a bert or a gpt2")
    return found


def read_ids(opened: Any, *texts: str | None) -> list[int]:
    """The tokens that a backbone reads: those of one text or two, a typed <mask> among them, in its frame."""
    backbone, given = backbone_of(opened.model), [text for text in texts if text]
    if not given or not all(text.strip() for text in given):
        raise InputError("there is no text to look at; give a sentence")
    rows = [opened.tokenizer.encode(text, specials=True) for text in given]
    ids, is_cut = backbone.frame.join(opened.tokenizer, rows, backbone.config.max_length)
    if is_cut:
        raise InputError(
            f"the text has {sum(map(len, rows))} tokens, but the model reads {backbone.config.max_length} at once, "
            "special ones among them; look at a shorter one"
        )
    return ids
