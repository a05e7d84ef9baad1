"""Our Transformer as two ONNX graphs, encoder.onnx and decoder.onnx, and a model that runs them.

    encoder.onnx: src (B, S)                              -> source_0_k (B, H, S, K), source_0_v, source_1_k, ..
    decoder.onnx: tokens (B,), src, source_.., past_..    -> logits (B, V), new_0_k (B, H, T + 1, K), new_0_v, ..

The encoder gives the keys and values that each decoder block has of the source. The decoder takes one step: what it
calls new is the past of the next step, and the first past has a length of 0.
"""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import Remembered, padding
from qkv.convert.plain import need, output_bias, place_table
from qkv.errors import InputError
from qkv.files import write_json
from qkv.layers import Seen
from qkv.models import Transformer
from qkv.positions import NO_POSITION, Places
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

OPSET = 17  # what onnxruntime 1.12 and later read
# The axes of any length, beside the batch.
AXES: dict[str, dict[int, str]] = {"tokens": {}, "logits": {}, "src": {1: "source_length"},
    "source": {2: "source_length"}, "past": {2: "length"}, "new": {2: "new_length"}}  # fmt: skip


class OnnxEncoder(nn.Module):
    """The encoder stack, and what the decoder's blocks make of its memory. Places are rows of a table."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("table", place_table(model.encoder, model.config.max_length), persistent=False)

    def forward(self, src: Tensor) -> tuple[Tensor, ...]:
        at, mask = Places.span(0, src.size(1), src.device), padding(src, PAD)
        x = self.model.source(src) + self.table[: src.size(1)]  # type: ignore[index]
        for block in self.model.encoder.blocks:
            x = block(x, at, NO_POSITION, mask)
        memory = self.model.encoder.norm(x)  # (B, S, D)
        parts: list[Any] = [block.memory_attention for block in self.model.decoder.blocks]
        return tuple(part.heads(project(memory)) for part in parts for project in (part.key, part.value))


class OnnxDecoder(nn.Module):
    """One step of the decoder stack."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model, self.layers = model, model.config.decoder_layers
        self.register_buffer("table", place_table(model.decoder, model.config.max_length), persistent=False)
        self.register_buffer("bias", output_bias(model), persistent=False)

    def forward(self, tokens: Tensor, src: Tensor, *source_and_past: Tensor) -> tuple[Tensor, ...]:
        source, past = source_and_past[: 2 * self.layers], source_and_past[2 * self.layers :]
        at, mask = Places.span(0, 1, src.device), padding(src, PAD)
        x = self.model.target(tokens[:, None]) + self.table[past[0].size(2)]  # type: ignore[index]
        new: list[Any] = []
        for layer, block in enumerate(self.model.decoder.blocks):
            seen, now = Seen(), slice(2 * layer, 2 * layer + 2)
            (seen.source.k, seen.source.v), (seen.own.k, seen.own.v) = source[now], past[now]
            # Of the memory, only its length is asked: its keys and values have been seen.
            x = block(x, at, NO_POSITION, None, src[:, :, None], mask, seen)
            new += [seen.own.k, seen.own.v]
        hidden = self.model.decoder.norm(x)[:, -1]
        return F.linear(hidden, self.model.vocabulary.weight, self.bias), *new  # type: ignore[arg-type]


def write_onnx(
    out: Path, model: Transformer, tokenizer: Tokenizer, about: Mapping[str, Any], quantization: str = ""
) -> None:
    """Into an empty folder: the two graphs, tokenizer.json, and the ids and sizes that a search needs."""
    need("onnx", "qkv[onnx]")
    c = model.config
    layers, src, tokens = c.decoder_layers, torch.tensor([[4, 5, EOS], [6, EOS, PAD]]), torch.tensor([BOS, BOS])
    copied = copy.deepcopy(model).cpu().eval()
    encoder, decoder = OnnxEncoder(copied), OnnxDecoder(copied)
    with torch.no_grad():
        source = encoder(src)
    past = [torch.zeros(2, c.n_heads, 1, c.head_width) for _ in range(2 * layers)]
    save(encoder, (src,), out / "encoder.onnx", ["src"], names("source", layers), AXES)
    inputs = ["tokens", "src", *names("source", layers), *names("past", layers)]
    save(decoder, (tokens, src, *source, *past), out / "decoder.onnx", inputs, ["logits", *names("new", layers)], AXES)
    tokenizer.save(out / "tokenizer.json")
    ids = {"pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    sizes = {"decoder_layers": layers, "n_heads": c.n_heads, "head_width": c.head_width, "max_length": c.max_length}
    write_json(out / "config.json", {"model_type": "qkv-onnx", **about, **ids, **sizes})


def names(kind: str, layers: int) -> list[str]:
    return [f"{kind}_{layer}_{part}" for layer in range(layers) for part in "kv"]


def save(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, given: list[str], made: list[str],
    lengths: Mapping[str, dict[int, str]],
) -> None:  # fmt: skip
    """By torch's tracer: what the plain model branches on does not depend on the text. `lengths` are the axes of any
    length beside the batch, by what a name begins with."""
    axes = {name: {0: "batch", **lengths.get(name.split("_")[0], {})} for name in given + made}
    with warnings.catch_warnings(action="ignore"):  # the tracer's remarks on sizes that it takes as constants
        torch.onnx.export(
            module, inputs, str(path), input_names=given, output_names=made, dynamic_axes=axes, opset_version=OPSET,
            dynamo=False,
        )  # fmt: skip


@dataclass
class OnnxState(Remembered):
    """The source with its keys and values, and the keys and values of what has been written."""

    src: Tensor
    source: list[Tensor]
    past: list[Tensor]


class OnnxModel:
    """The two graphs with the interface that every search here asks for: `start` and `step`."""

    def __init__(self, folder: Path) -> None:
        runtime = need("onnxruntime", "qkv[onnx]")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self.encoder, self.decoder = (
                runtime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
                for name in ("encoder", "decoder")
            )
        except Exception as error:  # the library raises classes of its own
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder} is no ONNX export of qkv or is damaged ({reason}); export it again") from None
        self.layers = (len(self.decoder.get_inputs()) - 2) // 4

    def start(self, given: Tensor) -> tuple[Tensor, OnnxState]:
        source = [torch.from_numpy(one) for one in self.encoder.run(None, {"src": given.numpy()})]
        past = [torch.zeros(len(given), source[0].size(1), 0, source[0].size(3)) for _ in source]
        return given.new_full((len(given),), BOS), OnnxState(given, source, past)

    def step(self, tokens: Tensor, state: OnnxState) -> Tensor:
        known = [*names("source", self.layers), *names("past", self.layers)]
        given = {"tokens": tokens, "src": state.src, **dict(zip(known, state.source + state.past, strict=True))}
        logits, *new = self.decoder.run(None, {name: tensor.numpy() for name, tensor in given.items()})
        state.past = [torch.from_numpy(one) for one in new]
        return torch.from_numpy(logits)  # (B, V)
