"""CTranslate2's folders (Klein et al. 2020), and Argos packages, which hold one: the weights of a Transformer, rounded
or not, the tokens of both languages, and beside them a SentencePiece model that parts a text.

Weights in 8 bits are a row of whole numbers with one factor, w = q / scale; here they are made float32 again, which is
what CTranslate2 itself computes with when it is asked for float32.
"""

import json
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

import torch
from torch import Tensor

from qkv.config import Tree, from_tree
from qkv.convert.adopt import adopt
from qkv.convert.binary import Bytes, tensor
from qkv.convert.foreign import RANKED, Converted
from qkv.convert.package import Package
from qkv.convert.sentencepiece import Joined, joined, read_pieces
from qkv.convert.tables import Positions, WordTables, find_positions, licence_in
from qkv.errors import InputError
from qkv.models import TransformerConfig

VERSIONS = range(3, 7)  # of the file's layout; before 6 the same, without what later models need
TYPES = {0: ("float32", 4), 1: ("int8", 1), 2: ("int16", 2), 3: ("int32", 4), 4: ("float16", 2), 5: ("bfloat16", 2)}
DEEPEST = 3  # sides of a tensor
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "swish", 3: "gelu"}
# Their parts of a layer, and ours; several of ours stand one below the other.
ENCODER = {
    "self_attention/linear_0": ("attention.query", "attention.key", "attention.value"),
    "self_attention/linear_1": ("attention.output",),
    "ffn/linear_0": ("feed_forward.expand",),
    "ffn/linear_1": ("feed_forward.contract",),
}
DECODER = {
    **ENCODER,
    "attention/linear_0": ("memory_attention.query",),
    "attention/linear_1": ("memory_attention.key", "memory_attention.value"),
    "attention/linear_2": ("memory_attention.output",),
}
NORMS = {"self_attention": "attention_residual", "attention": "memory_residual", "ffn": "feed_forward_residual"}
SETTINGS = ("num_heads", "pre_norm", "activation", "scale_embeddings", "start_from_zero_embedding")
UNREAD = ("alibi_use_positive_positions", "scale_alibi", "alignment_heads", "alignment_layer", "embeddings_merge")
SENTENCEPIECE = ("sentencepiece.model", "source.spm", "spm.model", "sp.model", "tokenizer.model")


@dataclass
class Variables:
    """What model.bin holds, by name; a name that is read is taken out, so that nothing is left unseen at the end."""

    found: dict[str, Tensor]
    name: str  # of the file

    def take(self, name: str) -> Tensor:
        if name not in self.found:
            raise InputError(f"{self.name} has no {name}, so that it is no Transformer that qkv has; take another one")
        return self.found.pop(name)

    def setting(self, name: str, usual: float = 0) -> float:
        value = self.found.pop(name, None)
        return usual if value is None or value.numel() != 1 else float(value)


def read_ctranslate2(package: Package, inside: str = "") -> Converted:
    """The folder `inside` a package; the SentencePiece model may stand in either."""
    place = PurePosixPath(inside)
    config = package.table(str(place / "config.json"))
    variables = read_variables(package, str(place / "model.bin"))
    words = joined_words(package, place, config)
    tables = read_tables(variables, config, words)
    heads = {int(variables.setting(f"{side}/num_heads", 8)) for side in ("encoder", "decoder")}
    pre = {bool(variables.setting(f"{side}/pre_norm", 1)) for side in ("encoder", "decoder")}
    acts = {int(variables.setting(f"{side}/activation", 0)) for side in ("encoder", "decoder")}
    if len(heads) > 1 or len(pre) > 1 or len(acts) > 1 or not acts <= ACTIVATIONS.keys():
        raise InputError(f"{variables.name} has an encoder and a decoder that qkv cannot hold in one model")
    found = [variables.found.pop(f"{side}/position_encodings/encodings", None) for side in ("encoder", "decoder")]
    positions = find_positions(found, tables.width, Positions("sinusoidal(layout='fairseq', offset=1)", 1024))
    weights, layers, biased = read_layers(variables)
    eps = config.get("layer_norm_epsilon")
    ours: Tree = {
        "vocab_size": len(words.source), "d_model": tables.width, "n_heads": heads.pop(), "d_ff": layers["d_ff"],
        "encoder_layers": layers["encoder"], "decoder_layers": layers["decoder"],
        "norm": "pre" if pre.pop() else "post", "activation": ACTIVATIONS[acts.pop()],
        "position": positions.name, "attention_bias": biased,
        "tied": tables.tied, "output_bias": True, "max_length": positions.length,
        "eps": eps if isinstance(eps, float) else 1e-5, "source_end": bool(config.get("add_source_eos", False)),
    }  # fmt: skip
    refuse_rest(variables)
    settings = from_tree(TransformerConfig, ours, package.name(str(place / "config.json")))
    return Converted(
        "transformer",
        settings,
        weights | tables.weights | positions.weights,
        words.tokenizer,
        {"origin": "CTranslate2", **RANKED},
    )


def read_argos(package: Package) -> Converted:
    """metadata.json says the languages; the stanza models beside are not used, nor opened: they are pickles."""
    known = package.table("metadata.json")
    if known.get("type", "translate") != "translate" or known.get("target_prefix"):
        raise InputError(f"{package.path} is no package of one translator from one language to another; take another")
    found = read_ctranslate2(package, "model")
    about: Tree = {**RANKED, "origin": f"Argos package {known.get('package_version', '')}".strip()}
    about |= {ours: str(known[key]) for key, ours in (("from_code", "source"), ("to_code", "target")) if known.get(key)}
    if licence := licence_in(package.text("README.md") if package.has("README.md") else ""):
        about["licence"] = licence
    return Converted(found.architecture, found.config, found.weights, found.tokenizer, about)


# -- model.bin ---------------------------------------------------------------------------------------------------------


def read_variables(package: Package, file: str) -> Variables:
    """Version, name and number of the model's kind, then for each weight its name, sides, type and bytes; at the end
    second names of some."""
    data = Bytes(package.read(file), package.name(file))
    version = data.number("I")
    if version not in VERSIONS:
        raise InputError(f"{data.name} is no model.bin of CTranslate2 that qkv reads (layout {version})")
    kind = string(data)
    data.number("I")
    if kind != "TransformerSpec":
        raise InputError(f"{data.name} holds a {kind[:40]!r} of CTranslate2, and qkv reads its translators alone")
    raw, scales = dict[str, Tensor](), dict[str, Tensor]()
    for _ in range(data.number("I")):
        name, shape = string(data), [data.number("I") for _ in range(sides(data))]
        dtype, width = TYPES.get(data.number("B"), ("", 0))
        count = data.number("I")
        if not dtype or math.prod(shape) * width != count:
            raise data.damaged(f"{name[:80]!r} of the shape {shape} cannot have {count:,} bytes")
        where = scales if name.endswith("_scale") else raw
        where[name.removesuffix("_scale")] = tensor(data.take(count), dtype, shape)
    for name, scale in scales.items():
        if name not in raw or scale.dim() > 1 or (scale.dim() and len(scale) != len(torch.atleast_1d(raw[name]))):
            raise data.damaged(f"{name[:80]!r} and its factors do not fit")
        raw[name] /= scale[:, None] if scale.dim() and raw[name].dim() == 2 else scale
    for _ in range(data.number("I")):
        alias, name = string(data), string(data)
        if name not in raw and not name.endswith("_scale"):
            raise data.damaged(f"{alias[:80]!r} is a second name of {name[:80]!r}, which is not there")
        if name in raw:
            raw[alias] = raw[name]
    return Variables(raw, data.name)


def string(data: Bytes) -> str:
    return data.text(data.number("H")).removesuffix("\0")


def sides(data: Bytes) -> int:
    if (count := data.number("B")) > DEEPEST:
        raise data.damaged(f"a weight with {count} sides stands before byte {data.at:,}")
    return count


# -- as ours -----------------------------------------------------------------------------------------------------------


def read_tables(variables: Variables, config: Tree, words: Joined) -> WordTables:
    """The three tables of words, in the order of our tokens."""
    names = ("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight")
    if names[0] not in variables.found and "encoder/embeddings/weight" in variables.found:
        variables.found[names[0]] = variables.found.pop("encoder/embeddings/weight")
    source, target, output = (variables.take(name) for name in names)
    bias = variables.found.pop("decoder/projection/bias", torch.zeros(len(output)))
    scales = [variables.setting(f"{side}/scale_embeddings", 1) for side in ("encoder", "decoder")]
    start = bool(variables.setting("decoder/start_from_zero_embedding"))
    return WordTables.make(source, target, output, bias, words, scales, zero_start=start, name=variables.name)


def joined_words(package: Package, place: PurePosixPath, config: Tree) -> Joined:
    """The tokens of both sides as one vocabulary of ours."""
    shared = read_words(package, place, "shared_vocabulary")
    source = shared or read_words(package, place, "source_vocabulary")
    target = shared or read_words(package, place, "target_vocabulary")
    if not source or not target:
        raise InputError(f"{package.name(str(place))} lacks its vocabulary, shared_vocabulary.json; copy it again")
    if config.get("add_source_bos"):
        raise InputError(f"{package.name(str(place))} puts a token before each source, which no translator here does")
    unk, end = str(config.get("unk_token", "<unk>")), str(config.get("eos_token", "</s>"))
    start = config.get("decoder_start_token") or config.get("bos_token") or "<s>"
    if unk not in source or end not in target:
        raise InputError(f"{package.name(str(place))} has no {unk} or no {end} in its vocabulary; copy it again")
    played = {"</s>": end, **({"<s>": str(start)} if start != end else {})}
    every = (str(folder / name) for folder in (place, PurePosixPath()) for name in SENTENCEPIECE)
    file = next((name for name in every if package.has(name)), None)
    if file is not None:
        return joined(read_pieces(package.read(file), package.name(file)), source, target, unk, played)
    folder = package.path / place
    if shared and (folder / "tokenizer.json").is_file():  # as `qkv export` writes it
        tokenizer, rows = adopt(folder, size=len(shared))
        return Joined(tokenizer, rows, rows)
    raise InputError(f"{package.path} has no {SENTENCEPIECE[0]} that parts its texts; put the one of the model there")


def read_words(package: Package, place: PurePosixPath, name: str) -> list[str]:
    """A list in JSON, or a token in each line; empty where there is none."""
    for file in (str(place / f"{name}{ending}") for ending in (".json", ".txt")):
        if not package.has(file):
            continue
        text = package.text(file)
        try:
            words = json.loads(text) if file.endswith(".json") else text.removesuffix("\n").split("\n")
        except (ValueError, RecursionError):
            words = None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError(f"{package.name(file)} is damaged: it is no list of tokens; copy it again")
        if len({*words}) < len(words):
            raise InputError(f"{package.name(file)} has a token twice; copy it again")
        return words
    return []


def read_layers(variables: Variables) -> tuple[dict[str, Tensor], Tree, bool]:
    """The weights of all layers under our names, how many there are, and whether attentions have biases."""
    weights, sizes = dict[str, Tensor](), Tree()
    for side, parts in (("encoder", ENCODER), ("decoder", DECODER)):
        sizes[side] = count = len({name.split("/")[1] for name in variables.found if name.startswith(f"{side}/layer_")
                                   and name.split("/")[1] != "layer_norm"})  # fmt: skip
        for i in range(count):
            theirs, ours = f"{side}/layer_{i}", f"{side}.blocks.{i}"
            for part, names in parts.items():
                read_linear(variables, weights, f"{theirs}/{part}", [f"{ours}.{name}" for name in names])
            for part, name in NORMS.items():
                if part != "attention" or side == "decoder":
                    read_norm(variables, weights, f"{theirs}/{part}/layer_norm", f"{ours}.{name}.norm")
        if f"{side}/layer_norm/gamma" in variables.found:
            read_norm(variables, weights, f"{side}/layer_norm", f"{side}.norm")
    first = weights.get("encoder.blocks.0.feed_forward.expand.weight")
    if first is None or not sizes["decoder"]:
        raise InputError(f"{variables.name} has no layers; copy it again")
    sizes["d_ff"] = len(first)
    attends = [name for name in weights if "attention." in name and name.endswith(".weight")]
    has_bias = [name.replace(".weight", ".bias") in weights for name in attends]
    if any(has_bias) and not all(has_bias):
        raise InputError(f"{variables.name} has biases in some attentions alone, which qkv has not; take another one")
    return weights, sizes, all(has_bias)


def read_linear(variables: Variables, weights: dict[str, Tensor], theirs: str, ours: list[str]) -> None:
    matrix = variables.take(f"{theirs}/weight")
    bias = variables.found.pop(f"{theirs}/bias", None)
    if matrix.dim() != 2 or len(matrix) % len(ours) or (bias is not None and bias.shape != matrix.shape[:1]):
        raise InputError(f"{variables.name}: {theirs} has a shape that qkv does not have; take another model")
    for name, rows in zip(ours, matrix.chunk(len(ours)), strict=True):
        weights[f"{name}.weight"] = rows.contiguous()
    for name, part in zip(ours, bias.chunk(len(ours)) if bias is not None else [], strict=bias is not None):
        weights[f"{name}.bias"] = part.contiguous()


def read_norm(variables: Variables, weights: dict[str, Tensor], theirs: str, ours: str) -> None:
    weights[f"{ours}.weight"] = variables.take(f"{theirs}/gamma")
    weights[f"{ours}.bias"] = variables.take(f"{theirs}/beta")


def refuse_rest(variables: Variables) -> None:
    """What is left is of a Transformer that qkv has not, unless it is nothing."""
    for name, value in variables.found.items():
        last = name.rpartition("/")[2]
        if last in (*SETTINGS, *UNREAD) or (value.numel() == 1 and not float(value)):
            continue
        raise InputError(f"{variables.name} has {name[:80]}, which no Transformer of qkv has; take another model")
