"""Hugging Face's Marian (post-norm) and Pegasus (pre-norm) folders <-> ours: the same Transformer, other names.

Both have biases in their attentions, a bias for each word, and sines before cosines. Pegasus differs from Marian in
nothing but the place of the layer norms.

Differs: their <unk> is ours, which no translation holds; theirs may write it, and leave it out of the text.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from qkv.config import Tree, from_tree, parse_call
from qkv.convert.adopt import adopt
from qkv.convert.foreign import ACTIVATIONS, RANKED, Converted, write_tokenizer
from qkv.convert.package import Package
from qkv.convert.plain import output_bias, place_table
from qkv.convert.sentencepiece import Joined, joined, read_pieces
from qkv.errors import InputError, nearest
from qkv.files import write_json, write_with
from qkv.layers import NEVER
from qkv.models import Transformer, TransformerConfig
from qkv.positions import POSITIONS, Sinusoidal
from qkv.text.frames import Frame
from qkv.text.tokenizer import BOS, EOS, PAD, SPECIALS, Tokenizer

# Ours and theirs, applied from top to bottom in either direction.
NAMES = [
    (".blocks.", ".layers."),
    (".attention_residual.norm.", ".self_attn_layer_norm."),
    (".memory_residual.norm.", ".encoder_attn_layer_norm."),
    (".feed_forward_residual.norm.", ".final_layer_norm."),
    (".memory_attention.", ".encoder_attn."),
    (".attention.", ".self_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".output.", ".out_proj."),
    (".feed_forward.expand.", ".fc1."),
    (".feed_forward.contract.", ".fc2."),
    (".norm.", ".layer_norm."),
    (".positions.0.", ".embed_positions."),
    ("source.", "encoder.embed_tokens."),
    ("target.", "decoder.embed_tokens."),
]
NAMED = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
NORMS = {name: norm for norm, (name, _) in NAMED.items()}
TABLES = ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
HEAD, BIAS = "lm_head.weight", "final_logits_bias"
HALVES = "sinusoidal(layout='halves')"


@dataclass(frozen=True, kw_only=True)
class MarianSettings:
    """What we need of their config.json; the defaults are theirs."""

    model_type: str
    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    activation_function: str = "gelu"
    max_position_embeddings: int = 1024
    decoder_vocab_size: int | None = None
    dropout: float = 0.1
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        for one, other in (
            ("encoder_ffn_dim", "decoder_ffn_dim"),
            ("encoder_attention_heads", "decoder_attention_heads"),
            ("vocab_size", "decoder_vocab_size"),
        ):
            values = getattr(self, one), getattr(self, other)
            if values[0] != values[1] and values[1] is not None:
                raise ValueError(f"{one}={values[0]} and {other}={values[1]} must be the same for qkv")
        if self.activation_function not in ACTIVATIONS:
            hint = nearest(self.activation_function, ACTIVATIONS)
            raise ValueError(f"activation_function={self.activation_function!r} is unknown to qkv; {hint}")
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise ValueError(f"{name}={getattr(self, name)} is no id below vocab_size={self.vocab_size}")


# -- theirs to ours --------------------------------------------------------------------------------------------------


def read_marian(folder: Path, tree: dict[str, Any], theirs: dict[str, Tensor]) -> Converted:
    """`tree` is their config.json, `theirs` their model.safetensors; nothing of them is ever executed."""
    wanted = {field.name for field in fields(MarianSettings)}
    settings = from_tree(MarianSettings, {key: tree[key] for key in wanted & tree.keys()}, f"{folder}/config.json")
    pad, start, end = settings.pad_token_id, settings.decoder_start_token_id, settings.eos_token_id
    own = {"<pad>": pad, "</s>": end} | ({"<s>": start} if start != pad else {})  # mostly their padding is their start
    silent = list[int]()
    if (folder / "source.spm").exists() and not (folder / "tokenizer.json").exists():
        words = read_opus_words(folder, settings)
        tokenizer, rows = words.tokenizer, words.source
        silent = [number for number, row in enumerate(words.target) if row < 0]
    else:
        tokenizer, rows = adopt(folder, size=settings.vocab_size, parts=own)
    rows = [pad, start, end, *(row if row >= 0 else pad for row in rows[3:])]
    rest = theirs.keys() - {*TABLES, HEAD, BIAS}
    named = {replaced(name.removeprefix("model."), ((old, new) for new, old in NAMES)): theirs[name] for name in rest}
    position = positions(named, settings)
    tables, tied = embeddings(theirs, settings, folder)
    bias = theirs.get(BIAS, torch.zeros(1, settings.vocab_size)).reshape(-1)
    if any(len(table) != settings.vocab_size for table in [*tables.values(), bias]):
        raise InputError(f"{folder}: the word tables of model.safetensors do not have the vocab_size of config.json")
    named |= {name: table[rows] for name, table in tables.items()} | {"vocabulary.bias": bias[rows]}
    named["vocabulary.bias"][silent] = NEVER
    ours = {
        "vocab_size": len(rows), "d_model": settings.d_model, "d_ff": settings.encoder_ffn_dim,
        "n_heads": settings.encoder_attention_heads, "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers, "dropout": settings.dropout, "norm": NORMS[settings.model_type],
        "activation": ACTIVATIONS[settings.activation_function], "position": position, "attention_bias": True,
        "tied": tied, "output_bias": True, "max_length": settings.max_position_embeddings,
    }  # fmt: skip
    config = from_tree(TransformerConfig, ours, f"{folder}/config.json")
    about = tree.get("qkv")
    return Converted("transformer", config, named, tokenizer, about if isinstance(about, dict) else theirs_of(folder))


def read_opus_words(folder: Path, settings: MarianSettings) -> Joined:
    """OPUS-MT's: source.spm parts a text, and vocab.json numbers the tokens of both languages."""
    package = Package(folder)
    table = package.table("vocab.json")
    numbers = [number for number in table.values() if type(number) is int]
    if sorted(numbers) != [*range(len(table))] or len(table) > settings.vocab_size:
        raise InputError(f"{folder}/vocab.json has no token for each id below vocab_size; copy the whole folder again")
    words = sorted(table, key=table.__getitem__)
    words += [f"<id {number}>" for number in range(len(words), settings.vocab_size)]
    if "<unk>" not in table:
        raise InputError(f"{folder}/vocab.json has no <unk>; copy the whole model folder again")
    played = {"</s>": words[settings.eos_token_id], "<pad>": words[settings.pad_token_id]}
    pieces = read_pieces(package.read("source.spm"), package.name("source.spm"))
    return joined(pieces, words, words, "<unk>", played)


def replaced(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    for old, new in pairs:
        name = name.replace(old, new)
    return name


def theirs_of(folder: Path) -> Tree:
    """The languages of an OPUS-MT folder, which its tokenizer's settings name."""
    if (folder / "tokenizer.json").exists():
        return {}
    known = Package(folder).table("tokenizer_config.json")
    about = {"source": known.get("source_lang"), "target": known.get("target_lang")}
    return {**RANKED, **{key: value for key, value in about.items() if value and isinstance(value, str)}}


def positions(named: dict[str, Tensor], settings: MarianSettings) -> str:
    """Tables that are no sines count as learned; sines are left out, since ours are computed."""
    names = [f"{side}.positions.0.weight" for side in ("encoder", "decoder")]
    if not all(name in named for name in names):
        return HALVES
    sizes = TransformerConfig(
        d_model=settings.d_model, n_heads=1, vocab_size=1, max_length=settings.max_position_embeddings
    )
    waves = Sinusoidal(sizes, layout="halves").table
    tables = [named[name].float() for name in names]
    if not all(table.shape == waves.shape and torch.allclose(table, waves, atol=1e-3) for table in tables):
        return "learned"
    for name in names:
        del named[name]
    return HALVES


def embeddings(theirs: dict[str, Tensor], settings: MarianSettings, folder: Path) -> tuple[dict[str, Tensor], str]:
    """The word tables under our names, and which of them are one. Without their scale each needs its own."""
    is_one = settings.tie_word_embeddings and settings.share_encoder_decoder_embeddings
    tied, own = ("all", 1) if is_one else ("decoder", 2) if settings.tie_word_embeddings else ("none", 3)
    ours: dict[str, Tensor] = {}
    for name, first in (("source", TABLES[1]), ("target", TABLES[2]), ("vocabulary", HEAD)):
        several = [first, *TABLES] if is_one else [TABLES[2], HEAD] if first == HEAD and tied == "decoder" else [first]
        table = next((theirs[other] for other in several if other in theirs), None)
        if table is None:
            raise InputError(f"{folder}/model.safetensors lacks {first}; copy the whole model folder again")
        ours[f"{name}.weight"] = table
    if settings.scale_embedding:
        return dict(list(ours.items())[:own]), tied
    for name in ("source.weight", "target.weight"):  # ours multiply by sqrt(d_model) when a word is read
        ours[name] = ours[name] * (1 / math.sqrt(settings.d_model))
    return ours, "none"


# -- ours to theirs --------------------------------------------------------------------------------------------------


def write_marian(out: Path, model: Transformer, tokenizer: Tokenizer, about: Mapping[str, Any]) -> None:
    """Into an empty folder: what `AutoModelForSeq2SeqLM` and `AutoTokenizer` open."""
    c = model.config
    if c.eps != 1e-5:
        raise InputError(f"Marian and Pegasus have eps=1e-05 and no other, not {c.eps}; translate with qkv itself")
    if not c.source_end:
        raise InputError(
            "Marian and Pegasus read </s> behind each source, and this model does not; export to ctranslate2"
        )
    family, architecture = NAMED[c.norm]
    activation = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == c.activation)
    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder")
             for name, value in (("ffn_dim", c.inner_width), ("attention_heads", c.n_heads))}  # fmt: skip
    is_one = c.tied == "all"
    write_json(out / "config.json", {
        "model_type": family, "architectures": [architecture], "is_encoder_decoder": True, "dtype": "float32",
        "vocab_size": c.vocab_size, "decoder_vocab_size": c.vocab_size, "d_model": c.d_model, **sizes,
        "encoder_layers": c.encoder_layers, "decoder_layers": c.decoder_layers, "activation_function": activation,
        "dropout": c.dropout, "activation_dropout": c.activation_dropout, "attention_dropout": 0.0,
        "max_position_embeddings": c.max_length, "scale_embedding": True, "tie_word_embeddings": is_one,
        "share_encoder_decoder_embeddings": is_one, **ids, "forced_eos_token_id": EOS, "qkv": about,
    })  # fmt: skip
    search = {"max_length": c.max_length, "num_beams": 5, "early_stopping": True, "forced_eos_token_id": EOS}
    write_json(out / "generation_config.json", ids | search)
    write_tokenizer(out, tokenizer, Frame((), (), (SPECIALS[EOS],)), split_special_tokens=True)
    weights = their_weights(model)
    write_with(out / "model.safetensors", lambda path: save_file(weights, path, metadata={"format": "pt"}))


@torch.no_grad()
def their_weights(model: Transformer) -> dict[str, Tensor]:
    """Every weight under their name; biases that ours lack are zeros, and positions are written out."""
    c = model.config
    ours = {name: value.cpu() for name, value in model.named_parameters() if "positions" not in name}
    ours["target.weight"], ours["vocabulary.weight"] = model.target.weight.cpu(), model.vocabulary.weight.cpu()
    for name in list(ours):
        if name.endswith(("query.weight", "key.weight", "value.weight", "output.weight")):
            ours.setdefault(name.removesuffix("weight") + "bias", torch.zeros(len(ours[name])))
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        ours[f"{side}.positions.0.weight"] = place_table(stack, c.max_length)
    name, options = parse_call(c.position, POSITIONS)
    if name == "sinusoidal" and options.get("layout", "interleaved") == "interleaved":
        ours = in_halves(ours, c.d_model)
    head = ours.pop("vocabulary.weight")
    ours.pop("vocabulary.bias", None)
    theirs = {f"model.{replaced(name, NAMES)}": tensor.contiguous() for name, tensor in ours.items()}
    shared = theirs[TABLES[1]]
    theirs = {name: tensor for name, tensor in theirs.items() if c.tied != "all" or name not in TABLES}
    theirs |= {TABLES[0]: shared.clone(), BIAS: output_bias(model)[None]}
    return theirs if c.tied == "all" else theirs | {HEAD: head.clone()}


def in_halves(ours: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """The same model with the columns of d_model in another order: those of sines first, then those of cosines."""
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    rows = ("output.weight", "contract.weight")  # d_model comes out of them
    own = ("expand.bias", "query.bias", "key.bias", "value.bias", "vocabulary.bias")  # they have no column of it
    return {
        name: tensor if name.endswith(own) else tensor[order] if name.endswith(rows) else tensor[..., order]
        for name, tensor in ours.items()
    }
