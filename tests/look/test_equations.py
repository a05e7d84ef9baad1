"""Every step of an explanation is computed again from its own equation and the steps that were shown before it.

The equations are read as they stand: "z = LayerNorm(y + FFN(y))" is worked out by hand from the y and the FFN(y) that a
person sees, with the weights of the model. What is said and what is shown cannot differ.
"""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit import tiny_model, tokenizer
from qkv.decoding import Generator, Translator
from qkv.layers.stack_config import ACTIVATIONS
from qkv.look.explain import Which, explain
from qkv.look.steps import Step
from qkv.positions import Places
from qkv.text.tokenizer import EOS

TOKENIZER = tokenizer("two dogs play in the snow")
TEXT = "two dogs play"
HEAD, WIDTH = 3, 4  # of 4 heads
BENT = {
    "max0": lambda x: x.where(x > 0, 0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1 + torch.exp(-x)),
}
NAMES = {  # what a step is called in the equations after it
    "embeddings": "E", "positions": "x", "input of the block": "x", "queries": "q", "keys": "k", "values": "v",
    "scaled scores": "scores", "masked scores": "scores", "weights": "weights", "heads side by side": "Concat",
    "attention's output": "attended", "attention over the source": "attended", "feed-forward": "fed",
}  # fmt: skip
NORMS = {  # the part of a block whose norm an equation means
    "norm of the input": "attention", "queries": "attention", "keys": "attention", "values": "attention",
    "residual": "attention", "norm": "attention", "norm before the source": "memory",
    "attention over the source": "memory", "residual after the source": "memory", "norm after the source": "memory",
}  # fmt: skip


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    """Ba et al. 2016, Eq. 4, or Zhang & Sennrich 2019, Eq. 4."""
    if isinstance(norm, nn.RMSNorm):
        return x / ((x**2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred**2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


class Reader:
    """Works equations out: `a b` is a product of matrices, names are the steps and the weights."""

    def __init__(self, stack: nn.Module, layer: int, table: Any, ids: list[int], memory: Tensor | None) -> None:
        self.stack, self.block, self.memory = stack.double(), stack.blocks[layer - 1], memory
        multi, network = self.block.attention, self.block.feed_forward
        self.at = Places.span(0, len(ids), "cpu")
        parts = {"Q": multi.query, "K": multi.key, "V": multi.value, "O": multi.output}
        own = {f"{kind}_{name}": getattr(part, what) for name, part in parts.items()
               for kind, what in (("W", "weight"), ("b", "bias"))}  # fmt: skip
        own |= {"W_1": network.expand.weight, "b_1": network.expand.bias, "V": network.expand.weight,
                "W_2": network.contract.weight, "b_2": network.contract.bias}  # fmt: skip
        own |= {"W": network.gate.weight} if hasattr(network, "gate") else {}
        self.known: dict[str, Any] = {
            name: one.double().mT if one.dim() > 1 else one.double() for name, one in own.items() if one is not None
        }
        self.known |= {"E": table.weight.double(), "token": ids, "d_model": table.weight.size(1), **BENT}
        self.known |= {"P": self.added(len(ids)), "sqrt": math.sqrt, "rotate": self.rotated, "source": None}
        self.known |= {"attention": self.attention, "FFN": lambda read: self.known["fed"]}

    def added(self, length: int) -> Tensor:
        nothing = torch.zeros(1, length, self.stack.blocks[0].attention.query.in_features, dtype=torch.float64)
        return self.stack.position.embed(nothing, self.at)[0]

    def rotated(self, x: Tensor) -> Tensor:
        """Of all heads, which an equation means until one is picked."""
        heads = x.view(len(x), -1, WIDTH).transpose(0, 1)[None]
        return self.stack.position.rotate(heads, self.at)[0].transpose(0, 1).flatten(1)

    def attention(self, read: Tensor, *over: None) -> Tensor:
        """What was shown of it; of the attention over the source, what its own weights give, head by head."""
        if not over or "attended" in self.known:
            return self.known["attended"]
        multi, memory = self.block.memory_attention, self.memory
        heads = []
        for start in range(0, multi.query.out_features, WIDTH):
            q, k, v = ((x @ part.weight.T + (0 if part.bias is None else part.bias))[:, start : start + WIDTH]
                       for x, part in ((read, multi.query), (memory, multi.key), (memory, multi.value)))  # fmt: skip
            heads.append((q @ k.T / math.sqrt(WIDTH)).softmax(-1) @ v)
        bias = 0 if multi.output.bias is None else multi.output.bias
        return torch.cat(heads, dim=-1) @ multi.output.weight.T + bias

    def norm(self, step: Step) -> nn.Module:
        """Pre-norm's step "norm" is before the feed-forward network."""
        if step.title in ("positions", "output of the stack"):
            return self.stack.norm_inputs if step.title == "positions" else self.stack.norm
        is_last = step.title == "norm" and "+" not in step.equation
        return getattr(
            self.block, f"{'feed_forward' if is_last else NORMS.get(step.title, 'feed_forward')}_residual"
        ).norm

    def work_out(self, step: Step) -> Tensor:
        norm = self.norm(step)
        said, _, of_head = step.equation.partition(", head ")
        text = said.rpartition(" = ")[2].replace("k^T", "k.T").replace("max(0, ", "max0(").replace("^", "_")
        text = re.sub(r"(?<=[\w)]) (?=[\w(])", " @ ", text)
        names = {**self.known, "LayerNorm": lambda x: normed(norm, x), "RMSNorm": lambda x: normed(norm, x)}
        found: Tensor = eval(text, {"__builtins__": {}}, names)  # noqa: S307 - our own equations
        if of_head and step.title in ("queries", "keys", "values"):
            assert int(of_head) == HEAD
            found = found[:, WIDTH * (HEAD - 1) : WIDTH * HEAD]
        return found

    def check(self, step: Step) -> None:
        """One step; what it shows is what those after it are computed from."""
        if step.title == "masked scores":
            kept = step.values.isfinite()
            assert kept.tolist() == torch.ones_like(kept).tril().tolist()
            expected = self.known["scores"].masked_fill(~kept, -torch.inf)
        elif step.title == "weights":
            raised = (self.known["scores"] - self.known["scores"].amax(-1, keepdim=True)).exp()
            expected = raised / raised.sum(-1, keepdim=True)
        elif step.title == "heads side by side":
            expected = step.values.clone()
            expected[:, WIDTH * (HEAD - 1) : WIDTH * HEAD] = self.known["context"]
        elif step.equation == "x":
            expected = self.known.get("x", step.values)
        else:
            expected = self.work_out(step)
        torch.testing.assert_close(
            step.values, expected.double(), atol=1e-5, rtol=1e-5, msg=lambda m: f"{step.title}: {m}"
        )
        letter = re.match(r"([ayz]) = ", step.equation)
        name = letter[1] if letter else NAMES.get(step.title, step.title)
        self.known[name] = step.values
        if letter:
            self.known.pop("attended", None)  # the next attention is another one


def read_all(steps: list[Step], reader: Reader, layer: int) -> None:
    assert len({step.title for step in steps}) == len(steps)
    for step in steps:
        reader.check(step)
        if step.title == "positions" and layer > 1:
            del reader.known["x"]  # it comes from the block below


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("layer", [1, 2])
def test_every_step_is_what_its_equation_says(stack: Which, layer: int, norm: str, activation: str) -> None:
    model: Any = tiny_model(
        "transformer", vocab_size=len(TOKENIZER), n_heads=4, encoder_layers=2, decoder_layers=2, max_length=1024,
        output_bias=True, norm=norm, activation=activation, position="learned", attention_bias=layer == 2,
    )  # fmt: skip
    with torch.no_grad():
        model.vocabulary.bias[EOS] = 2.0  # so that it comes to an end
    translator = Translator(model, TOKENIZER, {})
    steps = explain(translator, TEXT, stack=stack, layer=layer, head=HEAD)
    src = [*TOKENIZER.encode(TEXT), EOS]
    memory = model.double().encode(torch.tensor([src]))[0][0]
    ids = src if stack == "encoder" else [1, *TOKENIZER.encode(translator.translate(TEXT).text)]
    table = model.source if stack == "encoder" else model.target
    read_all(steps, Reader(getattr(model, stack), layer, table, ids, memory), layer)
    equations = {step.title: step.equation for step in steps}
    bias = " + b^Q" * (layer == 2)
    assert equations["queries"] == f"q = {'x' if norm == 'post' else 'LayerNorm(x)'} W^Q{bias}, head {HEAD}"
    assert ("norm of the input" in equations) == (norm == "pre")
    assert ("output of the stack" in equations) == (norm == "pre" and layer == 2)
    read = "y" if norm == "post" else "LayerNorm(y)"
    bent = {"relu": f"max(0, {read} W_1 + b_1)"}.get(activation, f"{activation}({read} W_1 + b_1)")
    assert equations["feed-forward, inside"] == bent


def test_a_gated_network_and_rotary_positions() -> None:
    """Llama: RMS norms, no biases, a gate, and queries and keys that are turned."""
    model: Any = tiny_model("llama", vocab_size=len(TOKENIZER), n_heads=4, layers=2, max_length=64)
    steps = explain(Generator(model, TOKENIZER, {}), TEXT, layer=2, head=HEAD)
    ids = [EOS, *TOKENIZER.encode(TEXT), EOS]
    assert steps[0].rows == TOKENIZER.pieces(ids)
    read_all(steps, Reader(model.decoder, 2, model.tokens, ids, None), 2)
    equations = {step.title: step.equation for step in steps}
    assert equations["queries"] == f"q = rotate(RMSNorm(x) W^Q), head {HEAD}"
    assert equations["feed-forward, inside"] == "swish(RMSNorm(y) W) * (RMSNorm(y) V)"
    assert equations["positions"] == "E"
    assert equations["output of the stack"] == "RMSNorm(z)"
