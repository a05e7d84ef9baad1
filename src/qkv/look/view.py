"""What a page shows of a model and of one sentence, as plain data for JSON."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from qkv.decoding import Translator
from qkv.decoding.trace import check_fits, trace
from qkv.errors import InputError
from qkv.look.architecture import boxes
from qkv.look.charts import points, read_events
from qkv.look.explain import explain
from qkv.look.facts import EVERY as EVERY
from qkv.look.facts import Attention as Attention
from qkv.look.facts import View as View
from qkv.look.facts import Which
from qkv.look.facts import model_view as model_view
from qkv.look.picture import plain
from qkv.look.sentence import Look, backbone_of, kind_of, look_at_ids, look_while_reading
from qkv.models import EncoderDecoder
from qkv.positions import Places
from qkv.text.normalise import normalise

DIGITS = 4  # of a weight
MOST = 2**20  # weights of one kind; a longer sentence has the mean over heads: 512 tokens are then some megabytes
MOST_OF_LAYER = 2**22  # weights of one layer that was asked for by itself: 16 heads of 512 tokens
PLACES = 64  # shown of a position encoding
POINTS = 1000  # of a training curve
MEAN = "the mean over {heads} heads: each of them would be too many numbers for so long a sentence"
TRACED = ("source_tokens", "target_tokens", "token_scores", "source_words", "target_words", "alignment", "steps")


def view(opened: Any, text: str, wanted: Attention = EVERY, **how: Any) -> View:
    """One sentence with the weights of the attention `wanted`, of whatever `qkv.load` gives.

    What a translator wrote, with its search (`how` are the fields of Search) and its words' alignment; its decoder's
    rows are named by the token that they wrote, columns by the one read. A backbone just reads, one text or two, of
    which the `second` is in `how`.
    """
    if not isinstance(opened, Translator):
        return reading_view(opened, text, wanted, **how)
    translator: Translator = opened
    traced = trace(translator, text, **how)
    translated = traced.translated
    look = look_at_ids(translator, traced.source_ids, traced.target_ids)
    return {
        "model": model_view(translator),
        "text": traced.text,
        "translation": translated.text,
        "score": translated.score,
        "alternatives": plain(translated.alternatives),
        **{name: plain(getattr(traced, name)) for name in TRACED},
        "remarks": translated.remarks(),
        "attention": attention_view(look, wanted),
    }


def reading_view(opened: Any, text: str, wanted: Attention, second: str = "") -> View:
    look = look_while_reading(opened, text, second)
    attention = attention_view(look, wanted)
    return {"model": model_view(opened), "text": text, "second": second, "tokens": look.source, "attention": attention}


def attention_view(look: Look, wanted: Attention = EVERY) -> list[View]:
    """The attentions that are wanted, each with its labels; their mean over heads where the heads are too many numbers.

    `heads` are those that are given, `all_heads` those that the layer has; a mean says in its `remark` that it is one.
    """
    chosen = []
    for name, weights in look.maps.items():
        kind = kind_of(name)
        layer = int(number[0]) if (number := re.search(r"\d+", name)) else 0
        if wanted.kind in (None, kind) and wanted.layer in (None, layer):
            heads = [head for head in range(len(weights)) if wanted.head in (None, head)]
            chosen.append((kind, layer, name, weights[heads]))
    most = MOST if wanted.layer is None else MOST_OF_LAYER
    maps = []
    for kind, layer, name, weights in chosen:
        rows, columns = look.labels[kind]
        is_mean = sum(other.numel() for same, _, _, other in chosen if same == kind) > most
        shown = weights.mean(dim=0, keepdim=True) if is_mean else weights
        maps.append({
            "kind": kind, "layer": layer, "name": name, "rows": rows, "columns": columns,
            "heads": len(shown), "all_heads": len(look.maps[name]), "weights": rounded(shown.tolist()),
            "remark": MEAN.format(heads=len(weights)) if is_mean else "",
        })  # fmt: skip
    return maps


def rounded(value: Any) -> Any:
    """Numbers in nested lists with few digits, and 0 for what rounds to it: long sentences are mostly that."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return value if value is None else round(value, DIGITS) or 0


@torch.no_grad()
def positions_view(opened: Any) -> View:
    """The vector that is added at each of the first places (T, D), and their inner products (T, T).

    They are those of a translator's encoder, or of a backbone. Both are empty for positions that add nothing to the
    embeddings, such as rotary ones.
    """
    model: Any = opened.model if isinstance(opened.model, EncoderDecoder) else backbone_of(opened.model)
    position = getattr(getattr(model, "encoder", None) or model.decoder, "position", None)
    length = min(PLACES, model.config.max_length)
    device = next(model.parameters()).device
    table = torch.zeros(length, model.config.d_model, device=device)
    if position is not None:
        table = position.embed(table[None], Places.span(0, length, device))[0]
    table = table[: length if table.any() else 0]
    return {"positions": {"table": rounded(table.tolist()), "gram": rounded((table @ table.T).tolist())}}


def architecture_view(opened: Any) -> View:
    """The boxes of the model, from bottom to top: stack, label, about, parameters, times."""
    return {"architecture": {"boxes": [asdict(box) for box in boxes(opened.model)]}}


def curves_view(folder: Path) -> View:
    """[step, loss] of training and [step, loss, BLEU or null] of validation; empty if the folder has no log."""
    log = Path(folder) / "training" / "log.jsonl"
    events = list(read_events(log)) if log.exists() else []
    train = [list(point) for point in points(events, "train", "loss").items()]
    bleu = points(events, "valid", "bleu")
    valid = [[step, loss, bleu.get(step)] for step, loss in points(events, "valid", "loss").items()]
    return {"curves": {"train": train[:: len(train) // POINTS + 1], "valid": valid}}


def explain_view(opened: Any, text: str, stack: Which = "encoder", layer: int = 1, head: int = 1) -> View:
    """The Q, K, V computation of one block, step by step; `layer` and `head` count from 1."""
    if stack not in ("encoder", "decoder"):
        raise InputError(f"there is no stack {stack!r} in a transformer; give encoder or decoder")
    if isinstance(opened, Translator):
        check_fits(opened, normalise(text))  # the numbers of a long text would be many megabytes
    trees = [step.to_tree() for step in explain(opened, text, stack=stack, layer=layer, head=head)]
    return {"steps": [tree | {"values": rounded(tree["values"])} for tree in trees]}
