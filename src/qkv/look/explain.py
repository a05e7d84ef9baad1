"""The Q, K, V computation of one sentence, step by step, with a trained model's own numbers."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from qkv.attention import ATTENTIONS, SCORES, Soft
from qkv.attention.scores import ScaledDot
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.layers import Block, Embedding, Inputs, Stack
from qkv.look.sentence import backbone_of, ids_of, read_ids, reads, run
from qkv.look.steps import Step, table
from qkv.models import Transformer
from qkv.objectives.answers import reading
from qkv.text.normalise import normalise

Which = Literal["encoder", "decoder"]
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
    is_normed = not isinstance(chosen.norm_inputs, nn.Identity)
    return [
        table("embeddings", f"E[token]{scale}{segment}", words, embedded, "One row of the table for each token."),
        table("positions", "LayerNorm(E + P)" if is_normed else "E + P", words, placed,
              "The same, with what the position encoding adds to it."),
        table("input of the block", "x", words, x, "What this block reads: the above, or what the block below wrote."),
        *attended(seen, block, words, head - 1),
        *finished(seen, block, words),
    ]  # fmt: skip


Watched = tuple[Stack, list[str], Embedding, Insides]  # a stack, its tokens, the table that they come from, all inside


def watch_translating(translator: Translator, text: str, stack: Which, layer: int, head: int) -> Watched:
    model = translator.model
    assert isinstance(model, Transformer)
    is_encoder, chosen = stack == "encoder", getattr(model, stack)
    check_numbers(stack, layer, head, chosen, model.config.n_heads)
    src, tgt = ids_of(translator, text)
    with watching(model, first=is_encoder) as seen:  # a shared table is read for the source first, then for the target
        run(translator, src, tgt)
    pieces = translator.tokenizer.pieces
    words = [*pieces(src), "</s>"] if is_encoder else ["<s>", *pieces(tgt)]
    return chosen, words, model.source if is_encoder else model.target, seen


def watch_reading(opened: Any, text: str, layer: int, head: int) -> Watched:
    if not reads(opened.model):
        raise InputError(f"only a transformer has these steps, not a {type(opened.model).__name__.lower()} model")
    backbone: Any = backbone_of(opened.model)
    stack: Which = "encoder" if hasattr(backbone, "encoder") else "decoder"
    check_numbers(stack, layer, head, getattr(backbone, stack), backbone.config.n_heads)
    ids = read_ids(opened, text)
    with watching(backbone, first=True) as seen:
        backbone.encode(**reading(torch.tensor([ids], device=next(backbone.parameters()).device)))
    table_of = backbone.tokens if hasattr(backbone, "tokens") else backbone.source
    return getattr(backbone, stack), opened.tokenizer.pieces(ids), table_of, seen


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


def attended(seen: Insides, block: Block, words: list[str], head: int) -> Iterator[Step]:
    """Queries, keys, values, scores and weights of one head; then all heads together."""
    (q, k, v, at, mask, position), _ = seen[block.attention.attend]  # (1, H, T, K) each
    attend = block.attention.attend
    scores, bias, visible = attend.score(q, k, at), position.score(q, k, at), attend.visible(at, mask)
    width, h = q.size(-1), f"head {head + 1}"
    yield table("queries", f"q = x W^Q, {h}", words, q[0, head], "What each token asks for.")
    yield table("keys", f"k = x W^K, {h}", words, k[0, head], "What each token answers to.")
    yield table("values", f"v = x W^V, {h}", words, v[0, head], "What each token gives.")
    dots = (q @ k.transpose(-1, -2))[0, head]
    yield table("products", "q k^T", words, dots, "How well each key (column) answers each query (row).", words)
    about = f"What softmax reads: the model's score ({type(attend.score).__name__})"
    about += "." if bias is None else ", and what the position encoding adds to it."
    title, name = "scores", f"{named(attend.score, SCORES)}(q, k)"
    if type(attend.score) is ScaledDot:
        title, name = "scaled scores", f"q k^T / sqrt({width}) = q k^T / {math.sqrt(width):.4g}"
    scores = scores if bias is None else scores + bias
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
    yield table("context", f"weights v, {h}", words, context[0, head], "The values, mixed by the weights.")
    yield table("heads side by side", "Concat(head_1 .. head_h)", words, joined, f"All {q.size(1)} heads in one row.")
    out = seen[block.attention.output][1][0]  # (T, D)
    yield table("attention's output", "Concat W^O", words, out, "Back to the width of the model.")


def named(part: nn.Module, parts: Mapping[str, type[nn.Module]]) -> str:
    """What a recipe calls it."""
    return next((name for name, kind in parts.items() if kind is type(part)), type(part).__name__)


def finished(seen: Insides, block: Block, words: list[str]) -> Iterator[Step]:
    """The residuals, norms and the feed-forward network, in the order in which this block has them."""
    is_post, network = block.attention_residual.place == "post", block.feed_forward
    x, y = seen[block][0][0][0], seen[block.feed_forward_residual][0][0][0]  # what enters the block, and the network
    added = x + seen[block.attention.output][1][0]
    yield table("residual", "x + attention(x)", words, added, "The input is added to it.")
    if is_post:
        about = "Every token on its own: mean 0, variance 1, then the learned scale and shift."
        yield table("norm", "LayerNorm(x + attention(x))", words, seen[block.attention_residual.norm][1][0], about)
    if block.has_memory:
        yield table("after the source", "y", words, y, "What attention over the source has added to it.")
    if not is_post:
        about = "Pre-norm: each sub-layer reads a normalised copy, the sum itself goes on as it is."
        yield table("norm", "LayerNorm(y)", words, seen[block.feed_forward_residual.norm][1][0], about)
    inside = network.activation(seen[network.expand][1][0])
    out, result = seen[network.contract][1][0], seen[block][1][0]
    bent = "max(0, y W_1 + b_1)" if network.activation is F.relu else "activation(y W_1 + b_1)"
    last = "LayerNorm(y + FFN(y))" if is_post else "y + FFN(LayerNorm(y))"
    yield table("feed-forward, inside", bent, words, inside, "Wider, and bent: what is below 0 is cut or flattened.")
    yield table("feed-forward", f"{bent} W_2 + b_2", words, out, "Back to the width of the model.")
    yield table("output of the block", last, words, result, "What the next block reads.")
