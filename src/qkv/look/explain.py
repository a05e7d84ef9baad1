"""The Q, K, V computation of one sentence, step by step, with a trained model's own numbers."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from qkv.attention import ATTENTIONS, SCORES, Soft
from qkv.attention.scores import ScaledDot
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.layers import Block, Embedding, FeedForward, GatedFeedForward, Inputs, Residual, Stack
from qkv.layers.stack_config import ACTIVATIONS
from qkv.look.facts import Which
from qkv.look.sentence import backbone_of, ids_of, read_ids, reads, run
from qkv.look.steps import Step, table
from qkv.models import Transformer, architecture_of
from qkv.objectives.answers import reading
from qkv.positions import Position
from qkv.text.normalise import normalise

AGAIN = "A normalised copy for the next sub-layer."
MOST = 256  # tokens of a sentence: scores are a table of each with each
Insides = dict[nn.Module, tuple[Any, Any]]  # what went into and out of each part of a model


@torch.no_grad()
def explain(opened: Any, text: str, *, stack: Which = "encoder", layer: int = 1, head: int = 1) -> list[Step]:
    """Embeddings, positions, q, k, v, scores, weights, context, heads, residual, norm and feed-forward of one block.

    `layer` and `head` count from 1. Of a translator the encoder explains the text itself, the decoder the translation
    that it writes; a backbone has one stack.
    """
    if not normalise(text):
        raise InputError('there is no text to explain; for example: qkv explain "I am good"')
    if isinstance(opened.model, Transformer):
        chosen, words, table_of, seen = watch_translating(opened, text, stack, layer, head)
    else:
        chosen, words, table_of, seen = watch_reading(opened, text, layer, head)
    block: Block = chosen.blocks[layer - 1]  # type: ignore[assignment]
    embedded, placed, x = seen[table_of][1][0], seen[chosen.dropout][1][0], seen[block][0][0][0]  # (T, D)
    scale = "" if table_of.scale == 1 else " * sqrt(d_model)"
    segment = " + S[segment]" if isinstance(table_of, Inputs) else ""
    sum_of = "E + P" if touches(chosen.position, "embed") else "E"
    is_normed = not isinstance(chosen.norm_inputs, nn.Identity)
    steps = [
        table("embeddings", f"E[token]{scale}{segment}", words, embedded, "One row of the table for each token."),
        table("positions", f"{norm_name(chosen.norm_inputs)}({sum_of})" if is_normed else sum_of, words, placed,
              "The same, with what the position encoding adds to it."),
        table("input of the block", "x", words, x, "What this block reads: the above, or what the block below wrote."),
        *attended(seen, block, words, head - 1),
        *finished(seen, block, words),
    ]  # fmt: skip
    if layer == len(chosen.blocks) and not isinstance(chosen.norm, nn.Identity):
        about = "Pre-norm: the last sum has had no norm yet, so one more follows the last block."
        steps.append(
            table("output of the stack", f"{norm_name(chosen.norm)}(z)", words, seen[chosen.norm][1][0], about)
        )
    return steps


Watched = tuple[Stack, list[str], Embedding, Insides]  # a stack, its tokens, the table that they come from, all inside


def watch_translating(translator: Translator, text: str, stack: Which, layer: int, head: int) -> Watched:
    model = translator.model
    assert isinstance(model, Transformer)
    is_encoder, chosen = stack == "encoder", getattr(model, stack)
    check_numbers(stack, layer, head, chosen, model.config.n_heads)
    check_length(len(translator.sources([normalise(text)])[0]))  # before it is translated
    src, tgt = ids_of(translator, text)
    check_length(0 if is_encoder else len(tgt))
    with watching(model, first=is_encoder) as seen:  # a shared table is read for the source first, then for the target
        run(translator, src, tgt)
    pieces = translator.tokenizer.pieces
    words = [*pieces(src), "</s>"] if is_encoder else ["<s>", *pieces(tgt)]
    return chosen, words, model.source if is_encoder else model.target, seen


def watch_reading(opened: Any, text: str, layer: int, head: int) -> Watched:
    if not reads(opened.model):
        raise InputError(
            f"only models of attention blocks have these steps, not {architecture_of(opened.model)} models; give "
            "another --model, such as a bert or a gpt2"
        )
    backbone: Any = backbone_of(opened.model)
    stack: Which = "encoder" if hasattr(backbone, "encoder") else "decoder"
    check_numbers(stack, layer, head, getattr(backbone, stack), backbone.config.n_heads)
    ids = read_ids(opened, text)
    check_length(len(ids))
    with watching(backbone, first=True) as seen:
        backbone.encode(**reading(torch.tensor([ids], device=next(backbone.parameters()).device)))
    table_of = backbone.tokens if hasattr(backbone, "tokens") else backbone.source
    return getattr(backbone, stack), opened.tokenizer.pieces(ids), table_of, seen


def check_length(tokens: int) -> None:
    if tokens > MOST:
        raise InputError(f"the sentence has {tokens:,} tokens, and at most {MOST} are explained; give a shorter one")


def check_numbers(stack: str, layer: int, head: int, chosen: Stack, heads: int) -> None:
    for name, number, most in (("layer", layer, len(chosen.blocks)), ("head", head, heads)):
        if not 1 <= number <= most:
            raise InputError(f"there is no {name} {number} in this {stack}; give 1 to {most}")


@contextmanager
def watching(model: nn.Module, *, first: bool) -> Iterator[Insides]:
    """Within, what goes into and out of each part is kept: of several calls the first, or the last."""
    seen: Insides = {}

    def keep(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not first or part not in seen:
            seen[part] = inputs, output

    with ExitStack() as hooks:
        for part in model.modules():
            hooks.enter_context(part.register_forward_hook(keep))
        yield seen


def norm_name(norm: nn.Module) -> str:
    return "RMSNorm" if isinstance(norm, nn.RMSNorm) else "LayerNorm"


def read_by(residual: Residual, name: str) -> str:
    """What a sub-layer reads of `name`: with pre-norm, a normalised copy."""
    return name if residual.place == "post" else f"{norm_name(residual.norm)}({name})"


def bias(linear: nn.Linear, name: str) -> str:
    """The bias of a projection in an equation, if it has one."""
    return "" if linear.bias is None else f" + {name}"


def touches(position: Position, hook: str) -> bool:
    """Whether a position encoding does anything at this place: embed, rotate ..."""
    return getattr(type(position), hook) is not getattr(Position, hook)


def attended(seen: Insides, block: Block, words: list[str], head: int) -> Iterator[Step]:
    """What attention reads; queries, keys, values, scores and weights of one head; then all heads together."""
    multi, residual = block.attention, block.attention_residual
    (q, k, v, at, mask, position), _ = seen[multi.attend]  # (1, H, T, K) each
    read = read_by(residual, "x")
    if residual.place == "pre":
        about = "Pre-norm: each sub-layer reads a normalised copy, the sum itself goes on as it is."
        yield table("norm of the input", read, words, seen[residual.norm][1][0], about)
    attend = multi.attend
    scores, visible = attend.score(q, k, at), attend.visible(at, mask)
    added = attend.bias(q, k, at, mask, position)
    width, h = q.size(-1), f"head {head + 1}"
    turned = "rotate({})" if touches(position, "rotate") else "{}"
    asks, answers = (
        f"{read} W^{name}{bias(part, f'b^{name}')}" for name, part in (("Q", multi.query), ("K", multi.key))
    )
    yield table("queries", f"q = {turned.format(asks)}, {h}", words, q[0, head], "What each token asks for.")
    yield table("keys", f"k = {turned.format(answers)}, {h}", words, k[0, head], "What each token answers to.")
    gives = f"v = {read} W^V{bias(multi.value, 'b^V')}, {h}"
    yield table("values", gives, words, v[0, head], "What each token gives.")
    dots = (q @ k.transpose(-1, -2))[0, head]
    yield table("products", "q k^T", words, dots, "How well each key (column) answers each query (row).", words)
    about = f"What softmax reads: the model's score ({type(attend.score).__name__})"
    about += "." if added is None else ", and what the position encoding adds to it."
    title, name = "scores", f"{named(attend.score, SCORES)}(q, k)"
    if type(attend.score) is ScaledDot:
        title, name = "scaled scores", f"q k^T / sqrt({width}) = q k^T / {math.sqrt(width):.4g}"
    if added is not None:
        scores, name = scores + added, f"{name} + positions"
    yield table(title, name, words, scores[0, head], about, words)
    if visible is not None and not bool(visible.all()):
        blocked = scores.masked_fill(~visible, -torch.inf)
        seen_by = "itself and what stands before it" if at.causal else "what is near it or of its sentence"
        about = f"A token sees at most {seen_by}; -inf becomes a weight of 0."
        yield table("masked scores", "-inf where the mask blocks", words, blocked[0, head], about, words)
    context, weights = attend.plain(q, k, v, at, mask, position)
    joined = context.transpose(1, 2).flatten(2)[0]  # (T, H * K)
    sums, one = weights[0, head].sum(dim=-1), weights.new_ones(())
    about = "Each row sums to 1." if torch.allclose(sums, one) else "The rows of this attention need not sum to 1."
    chosen = "softmax" if type(attend).choose is Soft.choose else named(attend, ATTENTIONS)
    yield table("weights", f"{chosen}, {h}", words, weights[0, head], about, words)
    mixed = "weights v" if position.value(weights, at) is None else "weights v + positions"
    yield table("context", f"{mixed}, {h}", words, context[0, head], "The values, mixed by the weights.")
    yield table("heads side by side", "Concat(head_1 .. head_h)", words, joined, f"All {q.size(1)} heads in one row.")
    out = seen[multi.output][1][0]  # (T, D)
    name = f"Concat W^O{bias(multi.output, 'b^O')}"
    yield table("attention's output", name, words, out, "Back to the width of the model.")


def named(part: nn.Module, parts: Mapping[str, type[nn.Module]]) -> str:
    """What a recipe calls it."""
    return next((name for name, kind in parts.items() if kind is type(part)), type(part).__name__)


def finished(seen: Insides, block: Block, words: list[str]) -> Iterator[Step]:
    """The residuals, norms and the feed-forward network, in the order in which this block has them."""
    first, last, network = block.attention_residual, block.feed_forward_residual, block.feed_forward
    name = "a" if block.has_memory else "y"  # of what the next sub-layer takes
    yield from around(seen, first, words, "x", f"attention({read_by(first, 'x')})", name)
    if block.has_memory:
        second, where = block.memory_residual, " after the source"
        over = f"attention({read_by(second, name)}, source)"
        if second.place == "pre":
            yield table("norm before the source", read_by(second, name), words, seen[second.norm][1][0], AGAIN)
        about = "The same steps once more, with the keys and values of what the encoder wrote."
        yield table("attention over the source", over, words, seen[block.memory_attention.output][1][0], about)
        yield from around(seen, second, words, name, over, "y", where)
    read = read_by(last, "y")
    if last.place == "pre":
        yield table("norm", read, words, seen[last.norm][1][0], AGAIN)
    inside, out, result = seen[network.contract][0][0][0], seen[network.contract][1][0], seen[block][1][0]
    bent = formula(network, read)
    yield table("feed-forward, inside", bent, words, inside, "Wider, and bent: what is below 0 is cut or flattened.")
    widths = f"{bent} W_2{bias(network.contract, 'b_2')}"
    yield table("feed-forward", widths, words, out, "Back to the width of the model.")
    total = f"y + FFN({read})"
    ends = f"z = {norm_name(last.norm)}({total})" if last.place == "post" else f"z = {total}"
    yield table("output of the block", ends, words, result, "What the next block reads.")


def around(
    seen: Insides, residual: Residual, words: list[str], taken: str, sub_layer: str, name: str, where: str = ""
) -> Iterator[Step]:
    """What a residual makes of what it takes and of what its sub-layer writes; the result has a name."""
    total, result = f"{taken} + {sub_layer}", seen[residual][1][0]
    about = "The input is added to it."
    if residual.place == "pre":
        yield table(f"residual{where}", f"{name} = {total}", words, result, about)
        return
    yield table(f"residual{where}", total, words, seen[residual.norm][0][0][0], about)
    about = "Every token on its own: mean 0, variance 1, then the learned scale and shift."
    yield table(f"norm{where}", f"{name} = {norm_name(residual.norm)}({total})", words, result, about)


def formula(network: FeedForward, read: str) -> str:
    """What is inside a feed-forward network: Vaswani et al. 2017, Eq. 2, or Shazeer 2020, Eq. 6 if it is gated."""
    name = next(name for name, bends in ACTIVATIONS.items() if bends is network.activation)
    bent = "max(0, {})" if name == "relu" else f"{name}({{}})"
    wide = f"{read} W_1{bias(network.expand, 'b_1')}"
    return f"{bent.format(f'{read} W')} * ({read} V)" if isinstance(network, GatedFeedForward) else bent.format(wide)
