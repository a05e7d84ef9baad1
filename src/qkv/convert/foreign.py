"""What families of other people's models share: their folder as ours, and our tokenizer as theirs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.config import Tree
from qkv.files import write_json, write_text
from qkv.text.frames import Frame
from qkv.text.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer

# Theirs and ours.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish", "gelu_new": "gelu_tanh",
               "gelu_pytorch_tanh": "gelu_tanh"}  # fmt: skip


RANKED = {"penalty": 0.0}  # other programs divide log p by length^alpha


@dataclass(frozen=True)
class Converted:
    """Their folder as ours: a model by its name and settings, its weights, the tokenizer, and what is known of it."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    about: dict[str, Any]
    heads: dict[str, str] = field(default_factory=dict)  # on a backbone, each by its name


def write_tokenizer(
    out: Path, tokenizer: Tokenizer, frame: Frame, *, segments: int = 1, without: Sequence[int] = (), **more: Any
) -> None:
    """Ours, which puts nothing around a text, with a last step that does; what transformers' AutoTokenizer opens.

    `segments` is how many the model tells apart, `without` the ids of tokens to leave out, `more` what else
    tokenizer_config.json says.
    """
    tree: Tree = json.loads(tokenizer.to_str())
    gone = {word for number, word in enumerate(tokenizer.vocabulary()) if number in without}
    if gone:
        tree = smaller(tree, gone)
    for token in tree["added_tokens"]:
        if token["content"] == "<mask>":
            token["lstrip"] = True  # it takes the space before it, as ours does
    ids = {name: number - sum(other < number for other in without) for name, number in tokenizer.specials.items()}
    step = template(frame, ids, segments)
    write_text(out / "tokenizer.json", json.dumps(tree | {"post_processor": step}, ensure_ascii=False))
    names = {"pad_token": SPECIALS[PAD], "bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS],
             "unk_token": SPECIALS[UNK]}  # fmt: skip
    special = {key: name for key, name in (names | more.pop("special", {})).items() if name not in gone}
    write_json(out / "special_tokens_map.json", special)
    write_json(out / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", **special, "clean_up_tokenization_spaces": False, **more,
    })  # fmt: skip


def template(frame: Frame, ids: dict[str, int], segments: int) -> Tree | None:
    """The step of a tokenizer.json that puts a frame around one text or two; None for no frame at all. <s> behind the
    texts is in a segment of its own (XLNet)."""
    second = int(segments > 1)

    def special(names: Sequence[str], segment: int) -> list[Tree]:
        numbers = [2 * second if names is frame.after and name == SPECIALS[BOS] else segment for name in names]
        return [{"SpecialToken": {"id": name, "type_id": one}} for name, one in zip(names, numbers, strict=True)]

    def text(name: str, segment: int) -> Tree:
        return {"Sequence": {"id": name, "type_id": segment}}

    names = dict.fromkeys((*frame.before, *frame.between, *frame.after))
    if not names:
        return None
    one = [*special(frame.before, 0), text("A", 0)]
    return {
        "type": "TemplateProcessing",
        "single": [*one, *special(frame.after, 0)],
        "pair": [*one, *special(frame.between, 0), text("B", second), *special(frame.after, second)],
        "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in names},
    }


def smaller(tree: Tree, gone: set[str]) -> Tree:
    """A tokenizer.json without some tokens, those behind them moved up."""
    model = tree["model"]
    if isinstance(model["vocab"], dict):
        kept = [word for word in model["vocab"] if word not in gone]
        vocab: Any = {word: number for number, word in enumerate(kept)}
        numbers = vocab
    else:
        vocab = [pair for pair in model["vocab"] if pair[0] not in gone]
        numbers = {pair[0]: number for number, pair in enumerate(vocab)}
    unk = {"unk_token": None} if model.get("unk_token") in gone else {}
    added = [{**one, "id": numbers[one["content"]]} for one in tree["added_tokens"] if one["content"] not in gone]
    return {**tree, "added_tokens": added, "model": {**model, "vocab": vocab, **unk}}
