"""What a page shows of a model and of one sentence, as plain data for JSON."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from qkv.config import to_tree
from qkv.decoding import Translator
from qkv.decoding.trace import Trace, check_fits, trace
from qkv.errors import InputError
from qkv.look.architecture import boxes
from qkv.look.curves import points, read_events
from qkv.look.explain import Which, explain, named
from qkv.look.sentence import Look, look_at_ids
from qkv.models import MODELS, count_parameters
from qkv.positions import Places
from qkv.text.normalise import normalise

DIGITS = 4  # of a weight
MOST = 2**20  # weights of one kind; a longer sentence has the mean over heads: 512 tokens are then some megabytes
MOST_OF_LAYER = 2**22  # weights of one layer that was asked for by itself: 16 heads of 512 tokens
PLACES = 64  # shown of a position encoding
POINTS = 1000  # of a training curve
MEAN = "the mean over {heads} heads: each of them would be too many numbers for so long a sentence"
View = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Which attention to give; what is left out means all."""

    kind: Literal["encoder", "decoder", "memory"] | None = None
    layer: int | None = None  # counted from 0, as in the answer
    head: int | None = None  # counted from 0

    def has(self, kind: str, layer: int) -> bool:
        return self.kind in (None, kind) and self.layer in (None, layer)


EVERY = Attention()


def view(translator: Translator, text: str, wanted: Attention = EVERY, **how: Any) -> View:
    """One sentence, translated, with its search, its words' alignment and the weights of the attention `wanted`.

    `how` are the fields of Search. Rows of the decoder's attention are named by the token that they wrote, its columns
    by the token that was read.
    """
    traced = trace(translator, text, **how)
    look = look_at_ids(translator, traced.source_ids, traced.target_ids)
    return {
        "model": model_view(translator),
        **traced_view(traced),
        "remarks": traced.translated.remarks(),
        "attention": attention_view(look, wanted),
    }


def model_view(translator: Translator) -> View:
    model = translator.model
    return {
        "name": translator.folder.resolve().name if translator.folder else "",
        "source": translator.about.get("source", ""),
        "target": translator.about.get("target", ""),
        "architecture": named(model, MODELS),
        "parameters": count_parameters(model),
        "config": to_tree(model.config),
    }


def traced_view(traced: Trace) -> View:
    return {
        "text": traced.text,
        "translation": traced.translated.text,
        "score": traced.translated.score,
        "alternatives": [one._asdict() for one in traced.translated.alternatives],
        "source_tokens": traced.source_tokens,
        "target_tokens": traced.target_tokens,
        "token_scores": traced.token_scores,
        "source_words": [word._asdict() for word in traced.source_words],
        "target_words": [word._asdict() for word in traced.target_words],
        "alignment": [list(link) for link in traced.alignment],
        "steps": [
            {"live": [one._asdict() for one in step.live], "finished": [one._asdict() for one in step.finished]}
            for step in traced.steps
        ],
    }


def attention_view(look: Look, wanted: Attention = EVERY) -> list[View]:
    """The attentions that are wanted, each with its labels; their mean over heads where the heads are too many numbers.

    `heads` are those that are given, `all_heads` those that the layer has; a mean says in its `remark` that it is one.
    """
    labels = {
        "encoder": (look.source, look.source),
        "decoder": (look.target, ["<s>", *look.target[:-1]]),
        "memory": (look.target, look.source),
    }
    chosen = {name: weights for name, weights in look.maps.items() if wanted.has(kind_of(name), layer_of(name))}
    if wanted.head is not None:
        chosen = {
            name: weights[[wanted.head] if 0 <= wanted.head < len(weights) else []] for name, weights in chosen.items()
        }
    most = MOST if wanted.layer is None else MOST_OF_LAYER
    maps = []
    for name, weights in chosen.items():
        rows, columns = labels[kind_of(name)]
        is_mean = sum(other.numel() for named, other in chosen.items() if kind_of(named) == kind_of(name)) > most
        shown = weights.mean(dim=0, keepdim=True) if is_mean else weights
        maps.append({
            "kind": kind_of(name), "layer": layer_of(name), "name": name, "rows": rows, "columns": columns,
            "heads": len(shown), "all_heads": len(look.maps[name]), "weights": rounded(shown),
            "remark": MEAN.format(heads=len(weights)) if is_mean else "",
        })  # fmt: skip
    return maps


def layer_of(name: str) -> int:
    layer = re.search(r"\d+", name)
    return int(layer[0]) if layer else 0


def kind_of(name: str) -> str:
    return "memory" if "memory_attention" in name else name.split(".")[0]


def rounded(numbers: Tensor) -> Any:
    """Nested lists, with 0 for what rounds to it: long sentences are mostly that."""
    return _short(numbers.double().tolist())


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(one) for one in value]
    return value if value is None else round(value, DIGITS) or 0


@torch.no_grad()
def positions_view(translator: Translator) -> View:
    """The vector that is added at each of the first places (T, D), and their inner products (T, T).

    Both are empty for positions that add nothing to the embeddings, such as rotary ones.
    """
    model: Any = translator.model
    position = getattr(model.encoder, "position", None)
    length = min(PLACES, model.config.max_length)
    device = next(model.parameters()).device
    table = torch.zeros(1, length, model.config.d_model, device=device)
    if position is not None:
        table = position.embed(table, Places.span(0, length, device))
    if not bool(table.any()):
        return {"positions": {"table": [], "gram": []}}
    return {"positions": {"table": rounded(table[0]), "gram": rounded(table[0] @ table[0].T)}}


def architecture_view(translator: Translator) -> View:
    """The boxes of the model, from bottom to top: stack, label, about, parameters, times."""
    return {"architecture": {"boxes": [asdict(box) for box in boxes(translator.model)]}}


def curves_view(folder: Path) -> View:
    """[step, loss] of training and [step, loss, BLEU or null] of validation; empty if the folder has no log."""
    log = Path(folder) / "training" / "log.jsonl"
    events = list(read_events(log)) if log.exists() else []
    train = [list(point) for point in points(events, "train", "loss").items()]
    bleu = points(events, "valid", "bleu")
    valid = [[step, loss, bleu.get(step)] for step, loss in points(events, "valid", "loss").items()]
    return {"curves": {"train": train[:: len(train) // POINTS + 1], "valid": valid}}


def explain_view(translator: Translator, text: str, stack: Which = "encoder", layer: int = 1, head: int = 1) -> View:
    """The Q, K, V computation of one block, step by step; `layer` and `head` count from 1."""
    if stack not in ("encoder", "decoder"):
        raise InputError(f"there is no stack {stack!r} in a transformer; give encoder or decoder")
    check_fits(translator, normalise(text))  # the numbers of a long text would be many megabytes
    trees = [step.to_tree() for step in explain(translator, text, stack=stack, layer=layer, head=head)]
    return {"steps": [tree | {"values": _short(tree["values"])} for tree in trees]}
