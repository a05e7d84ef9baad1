"""One sentence, translated, with all that its attentions did."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.decoding import Translator
from qkv.look.record import record_attention
from qkv.text.normalise import normalise
from qkv.text.tokenizer import BOS, EOS


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
