"""What attention did, recorded with no flag through any forward; and one sentence, translated, with all of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import Maps, recording
from qkv.decoding import Generator, Plain, Translator
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
        plain = {"engine": Plain(model)} if isinstance(watched, Translator | Generator) else {"reader": model}
        before = {name: getattr(watched, name) for name in plain if hasattr(watched, name)}
        vars(watched).update({name: plain[name] for name in before})
        try:
            yield maps
        finally:
            vars(watched).update(before)


@dataclass(frozen=True)
class Look:
    """The tokens of a sentence pair and the weights between them; the ends are tokens, too."""

    source: list[str]  # what each source token reads, and </s>
    target: list[str]  # what each row of the decoder wrote, </s> at last
    maps: dict[str, Tensor]  # (H, T, S) by the name of the attention

    def cross(self) -> Tensor:
        """Where the decoder looked in the source: the mean over heads of each layer's weights, (layers, T, S)."""
        return torch.stack([m.mean(dim=0) for name, m in self.maps.items() if name.endswith("memory_attention")])


def look_at(translator: Translator, source: str, target: str | None = None) -> Look:
    """What the model attends to while it writes `target` (its own translation, if none is given)."""
    return look_at_ids(translator, *ids_of(translator, source, target))


def ids_of(translator: Translator, source: str, target: str | None = None) -> tuple[list[int], list[int]]:
    """The tokens of both sides, without their ends."""
    if target is None:
        target = translator.translate(source, split=False).text
    src, tgt = (translator.tokenizer.encode(normalise(text)) for text in (source, target))
    return src, tgt


@torch.inference_mode()
def look_at_ids(translator: Translator, src: list[int], tgt: list[int]) -> Look:
    """The same for tokens as they are; neither side has its ends."""
    with record_attention(translator) as maps:
        run(translator, src, tgt)
    pieces = translator.tokenizer.pieces
    # A recurrent decoder attends once for each token: its calls are the rows of one map.
    weights = {name: torch.cat(calls, dim=2)[0].cpu() for name, calls in maps.calls.items()}
    return Look([*pieces(src), "</s>"], [*pieces(tgt), "</s>"], weights)


def run(translator: Translator, src: list[int], tgt: list[int]) -> None:
    """The model once, for whoever watches its parts."""
    device = next(translator.model.parameters()).device
    translator.model(torch.tensor([[*src, EOS]], device=device), torch.tensor([[BOS, *tgt]], device=device))
