"""Marian's own binary models (Junczys-Dowmunt et al. 2018), as Firefox has them: weights in 8 bits with one factor for
each matrix, w = q / factor, a SentencePiece model for both languages, and settings that the file itself holds.

Read are Transformers whose decoder is the SSRU of Kim et al. 2019 and whose norms stand behind each sum. The factors of
activations (QuantMultA), by which Marian rounds what it computes with, are left out: here all is float32. So is the
list of likely words beside a model (lex.*.bin), which makes Marian faster and now and then costs it a word.
"""

import math
import re
from typing import Any

import torch
from torch import Tensor

from qkv.config import Tree, from_tree
from qkv.convert.binary import Bytes, tensor
from qkv.convert.foreign import RANKED, Converted
from qkv.convert.package import Package
from qkv.convert.sentencepiece import CONTROL, UNKNOWN, joined, read_pieces
from qkv.convert.tables import WordTables
from qkv.errors import InputError
from qkv.models import SSRUConfig

FLOAT, ROUNDED, LETTERS = 0x404, 0x4101, 0x101  # their types: float32; int8, turned; plain bytes
ALIGNED = 256  # bytes that each entry's data is a multiple of
YAML = "special:model.yml"
MOST = 10_000  # entries, and sides of one
LONGEST = 1024  # tokens: sines have no end, and something has to
# What must be as it is in a model that qkv has, where it is said.
MUST = {
    "type": ("transformer",), "transformer-decoder-autoreg": ("rnn",), "dec-cell": ("ssru",),
    "transformer-postprocess": ("dan",), "transformer-preprocess": ("",), "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",), "transformer-train-position-embeddings": ("false",), "ulr": ("false",),
    "transformer-no-projection": ("false",), "input-types": ("[]",), "transformer-tied-layers": ("[]",),
    "right-left": ("false",), "lemma-dim-emb": ("0",), "transformer-pool": ("false",), "transformer-ffn-depth": ("2",),
    "transformer-ffn-activation": ("relu", "swish", "gelu"), "dec-cell-base-depth": ("2",),
}  # fmt: skip
# Theirs and ours, applied from top to bottom.
NAMES: list[tuple[str, Any]] = [
    (r"^(encoder|decoder)_l(\d+)_", lambda found: f"{found[1]}.blocks.{int(found[2]) - 1}."),
    (r"\.self_Wo_ln_", ".attention_residual.norm."),
    (r"\.context_Wo_ln_", ".memory_residual.norm."),
    (r"\.rnn_ffn_ln_", ".recurrence_residual.norm."),
    (r"\.ffn_ffn_ln_", ".feed_forward_residual.norm."),
    (r"\.norm\.scale$", ".norm.weight"),
    (r"\.rnn_W$", ".recurrence.input.weight"),
    (r"\.rnn_Wf$", ".recurrence.forget.weight"),
    (r"\.rnn_bf$", ".recurrence.forget.bias"),
    (r"\.ffn_", ".feed_forward."),
    (r"\.self_", ".attention."),
    (r"\.context_", ".memory_attention."),
    (r"\.W(\w)$", r".\1.weight"),
    (r"\.b(\w)$", r".\1.bias"),
    (r"\.q\.", ".query."), (r"\.k\.", ".key."), (r"\.v\.", ".value."), (r"\.o\.", ".output."),
    (r"\.1\.(weight|bias)$", r".expand.\1"), (r"\.2\.(weight|bias)$", r".contract.\1"),
]  # fmt: skip


def model_file(package: Package) -> str | None:
    """The one file of a folder that is Marian's model; None if there is none, or no vocabulary beside it."""
    names = package.names()
    models = [name for name in names if name.endswith(".bin") and not name.startswith("lex.")]
    return models[0] if len(models) == 1 and any(name.endswith(".spm") for name in names) else None


def read_firefox(package: Package) -> Converted:
    file = model_file(package)
    assert file is not None
    entries, said = read_entries(Bytes(package.read(file), package.name(file)))
    where = package.name(file)
    for key, values in MUST.items():
        if (given := said.get(key, values[0])) not in values:
            raise InputError(
                f"{where} was trained with {key}: {given[:40]!r}, and qkv reads {values[0]!r}; take another"
            )
    vocabulary = sorted(name for name in package.names() if name.endswith(".spm"))
    if len(vocabulary) > 1:
        raise InputError(f"{package.path} has a vocabulary for each language, and qkv reads models with one for both")
    pieces = read_pieces(package.read(vocabulary[0]), package.name(vocabulary[0]))
    words = [piece for piece, _, _ in pieces.pieces]
    unk = next((piece for piece, _, kind in pieces.pieces if kind == UNKNOWN), "")
    if not unk or ("</s>", CONTROL) not in [(piece, kind) for piece, _, kind in pieces.pieces]:
        raise InputError(f"{pieces.name} has no </s> or nothing for what it does not know; copy it again")
    both = joined(pieces, words, words, unk, {"</s>": "</s>"})
    table = entries.pop("Wemb", None)
    if table is None:
        raise InputError(f"{where} has no one table of words for both languages (Wemb), and qkv reads none else")
    bias = entries.pop("decoder_ff_logit_out_b", torch.zeros(len(table))).flatten()
    tables = WordTables.make(table, table, table, bias, both, [1, 1], zero_start=True, name=where)
    weights = {our_name(name): value.flatten() if "_W" not in name[-3:] else value for name, value in entries.items()}
    config = from_tree(SSRUConfig, settings(said, tables, len(both.source), where), where)
    return Converted("ssru", config, weights | tables.weights, both.tokenizer, about(package))


def settings(said: Tree, tables: WordTables, size: int, where: str) -> Tree:
    """Ours, of what the file says of itself."""
    try:
        numbers = {ours: int(said[key]) for key, ours in (
            ("enc-depth", "encoder_layers"), ("dec-depth", "decoder_layers"), ("transformer-heads", "n_heads"),
            ("transformer-dim-ffn", "d_ff"),
        )}  # fmt: skip
    except (KeyError, ValueError):
        raise InputError(f"{where} does not say its sizes as Marian does; copy it again") from None
    return {
        **numbers, "d_model": tables.width, "vocab_size": size, "position": "sinusoidal(layout='fairseq')", "eps": 1e-6,
        "activation": said.get("transformer-ffn-activation", "relu"), "attention_bias": True, "output_bias": True,
        "tied": tables.tied, "max_length": LONGEST,
    }  # fmt: skip


def our_name(name: str) -> str:
    for pattern, new in NAMES:
        name = re.sub(pattern, new, name)
    return name


def about(package: Package) -> Tree:
    """The languages, of the name of a vocabulary: vocab.enpt.spm; what is told beside it tells the rest."""
    known = package.table("model_info.json")
    found: Tree = {**RANKED, "origin": f"Marian ({known.get('modelName', 'as in Firefox')})"}
    parts = [re.fullmatch(r"vocab\.([a-z]{2,3})([a-z]{2})\.spm", name) for name in package.names()]
    for part in filter(None, parts):
        found |= {"source": part[1], "target": part[2]}
    if known.get("license") or known.get("licence"):
        found["licence"] = str(known.get("license") or known.get("licence"))[:200]
    return found


# -- the file ----------------------------------------------------------------------------------------------------------


def read_entries(data: Bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Version and count; four numbers for each entry (bytes of its name, type, sides, bytes of its data), then all
    names, all sides, a gap, and all data."""
    version, count = data.number("Q"), data.number("Q")
    if version != 1 or count > MOST:
        raise InputError(f"{data.name} is no model of Marian that qkv reads (version {version}); take another one")
    heads = [[data.number("Q") for _ in range(4)] for _ in range(count)]
    names = [data.text(head[0]).removesuffix("\0") for head in heads]
    shapes = [[data.number("i") for _ in range(min(head[2], MOST))] for head in heads]
    data.take(data.number("Q"))
    entries, said = dict[str, Tensor](), dict[str, str]()
    for name, (_, kind, _, size), shape in zip(names, heads, shapes, strict=True):
        content = data.take(size)
        if name == YAML:
            said = plain_yaml(bytes(content).decode(errors="replace").split("\0")[0])
        elif not name.endswith("_QuantMultA"):
            entries[name] = read_entry(data, name, kind, shape, content)
    return entries, said


def read_entry(data: Bytes, name: str, kind: int, shape: list[int], content: memoryview) -> Tensor:
    """Matrices as a linear layer of ours has them, (out, in): as 8 bits they stand in the file already turned, but for
    the table of words."""
    count, is_matrix = math.prod(shape), re.search(r"_W\w?$", name) is not None
    needed = {FLOAT: 4 * count, ROUNDED: count + 4}.get(kind, -1)
    if min(shape, default=0) < 1 or len(shape) != 2 or not 0 < needed <= len(content) <= needed + ALIGNED:
        raise data.damaged(
            f"{name[:80]!r} of the type {kind:#x} and the shape {shape} cannot have {len(content):,} bytes"
        )
    if kind == FLOAT:
        found = tensor(content[:needed], "float32", shape)
        return found.T.contiguous() if is_matrix else found
    factor = float(tensor(content[count : count + 4], "float32", [1]))
    if not math.isfinite(factor) or factor == 0:
        raise data.damaged(f"the factor of {name[:80]!r} is {factor}")
    return tensor(content[:count], "int8", shape[::-1] if is_matrix else shape) / factor


def plain_yaml(text: str) -> dict[str, str]:
    """The lines `key: value` of the settings that Marian writes; lists below a key are left out."""
    pairs = (line.partition(":") for line in text[:100_000].splitlines() if not line.startswith((" ", "-")))
    return {key.strip(): value.strip().strip("\"'") for key, colon, value in pairs if colon}
