"""What `qkv.load` gives for a model that fills in: texts with holes in, words for each hole out."""

from collections.abc import Sequence
from typing import Any

import torch

from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Headed, Outputs

MASK = "<mask>"


class Filler:
    """`qkv.load(folder).fill("A man in a red <mask>.")`: the most probable words, each with its probability."""

    def __init__(self, task: Any, loaded: Loaded) -> None:
        self.task, self.loaded = task, loaded
        model = loaded.model.eval()
        self.model, self.tokenizer, self.about = model, loaded.tokenizer, loaded.about
        self.mask = self.tokenizer.special(MASK)
        self.backbone: Any = model.backbone if isinstance(model, Headed) else model

    def fill(self, texts: str | Sequence[str], k: int = 5) -> Any:
        """For each hole of a text the k best, {"token", "probability", "text"}; of a text with one hole, just these."""
        several = [texts] if isinstance(texts, str) else list(texts)
        answers = [self.holes(text, k) for text in several]
        found = [holes[0] if len(holes) == 1 else holes for holes in answers]
        return found[0] if isinstance(texts, str) else found

    @torch.inference_mode()
    def holes(self, text: str, k: int) -> list[list[dict[str, Any]]]:
        ids = self.tokenizer.encode(text, specials=True)
        most = self.backbone.config.max_length
        framed, is_cut = self.backbone.frame.join(self.tokenizer, [ids], most)
        if is_cut:
            raise InputError(f"the text has {len(ids)} tokens, but the model reads {most} at once; give a shorter one")
        if self.mask not in ids:
            raise InputError(f"{text[:60]!r} has no {MASK}; write it where a word is to be filled in")
        given = torch.tensor([framed], device=next(self.backbone.parameters()).device)
        at = (given[0] == self.mask).nonzero()[:, 0]
        outputs: Outputs = self.backbone(given)
        best = outputs.projection(outputs.hidden[0, at]).softmax(dim=-1).topk(min(k, len(self.tokenizer)))
        holes = zip(at.tolist(), best.values.tolist(), best.indices.tolist(), strict=True)
        return [[self.word(framed, place, *one) for one in zip(*found, strict=True)] for place, *found in holes]

    def word(self, framed: list[int], place: int, probability: float, token: int) -> dict[str, Any]:
        """One that may stand in a hole, and the text with it; other holes stay."""
        text = self.tokenizer.decode([*framed[:place], token, *framed[place + 1 :]])
        return {"token": self.tokenizer.decode([token]).strip(), "probability": probability, "text": text}
