"""Masks: what may be seen, what padding does, why an encoder needs no second direction; what families of models see."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import causal, from_blocked, padding, permuted, recording
from qkv.look import draw
from qkv.look.gallery.parts import unilm
from qkv.models import MODELS
from qkv.text.tokenizer import PAD
from qkv.why.claim import Measured, amended, apart, influence, look, multi_head, noise, places, stack, true

WORDS = 6  # as many as the masks of UniLM have
LEFT, BOTH, ANY = "one direction", "both directions, auto-encoding", "both directions, autoregressive"
FAMILIES = {
    "ELMo": (LEFT, "two LSTMs, one for each direction, joined only above"),
    "ULMFiT": (LEFT, "LSTM language model, unfrozen layer by layer"),
    "SiATL": (LEFT, "LSTM language model whose loss stays on in fine-tuning"),
    "GPT": (LEFT, "Transformer decoder"),
    "GPT-2": (LEFT, "Transformer decoder, pre-norm, larger"),
    "BERT": (BOTH, "masked words and next sentence"),
    "MASS": (BOTH, "an encoder-decoder: the encoder sees the rest, the decoder writes the masked half, left to right"),
    "UniLM": (BOTH, "one network under four masks: both ways, left to right, right to left, and source-then-target"),
    "ERNIE (Baidu)": (BOTH, "masks whole phrases and entities"),
    "ERNIE (Tsinghua)": (BOTH, "adds vectors of a knowledge graph's entities"),
    "MT-DNN": (BOTH, "BERT, then supervised tasks together: no pre-training of its own"),
    "ERNIE 2.0": (BOTH, "many tasks, one joining after another"),
    "SpanBERT": (BOTH, "masks spans, predicted from their borders"),
    "RoBERTa": (BOTH, "BERT with masks drawn anew, more text, no next sentence"),
    "XLNet": (ANY, "predicts in a random order: both sides, and still one word after another"),
}
# Those whose computation is here; ERNIE 1.0, MT-DNN and SpanBERT compute what BERT does, and are asked other things.
OURS = {"GPT": "gpt", "GPT-2": "gpt2", "BERT": "bert", "RoBERTa": "roberta", "ERNIE 2.0": "ernie2",
        "ERNIE (Tsinghua)": "ernie_thu", "ERNIE (Baidu)": "bert", "MT-DNN": "bert", "SpanBERT": "bert"}  # fmt: skip


def masks() -> Measured:
    """Two sentences of 6 and 4 words in one batch; and a decoder's triangle."""
    ids = torch.tensor([[5, 6, 7, 8, 9, 4], [5, 6, 7, 8, PAD, PAD]])
    x = noise(2, 6, 16)
    dirty = x.clone()
    dirty[1, 4:] = 100.0
    encoder, at = stack(), places(6)
    real = padding(ids, PAD)
    together, alone = encoder(x, at, real)[1:, :4], encoder(x[1:, :4], places(4), None)
    junk = encoder(dirty, at, real)[1:, :4]
    leak = apart(encoder(dirty, at, None)[1:, :4], encoder(x, at, None)[1:, :4])
    triangle = causal(at)
    feels = influence(lambda y: encoder(y, at, triangle), x[:1])
    _, weights = look(multi_head(), x[:1], triangle)
    nothing, _ = look(multi_head(), x[:1], torch.zeros(6, 6, dtype=torch.bool))
    drawn = from_blocked(torch.ones(6, 6).triu(diagonal=1))  # a picture in which 0 means useful
    rows = [
        ("padded batch, less the sentence alone", apart(together, alone)),
        ("... when the padding holds junk", apart(together, junk)),
        ("... without the mask", leak),
        ("causal: influence of later words on earlier ones", feels.triu(diagonal=1).max().item()),
        ("causal: least influence of an earlier word", feels[triangle].min().item()),
        ("causal: weight of the first word on itself", weights[0, :, 0, 0].min().item()),
        ("a word that may see nothing: largest output", nothing.abs().max().item()),
        ("cells that differ, mask of 0 = useful read as such", int((drawn ^ triangle).sum())),
    ]
    padded, dirtied, _, later, earlier, *last = (number for _, number in rows)
    names = [f"word {i}" for i in range(6)]
    return true(
        rows=rows,
        why="A blocked score becomes -inf, its weight exactly 0: padding and the future change nothing. The two "
        "masks are joined by and. In qkv True means may look; masks and pictures of the other kind (0 = useful) go "
        "through `from_blocked`.",
        holds=max(padded, dirtied) < 1e-12 and leak > 1e-2 and later == 0 and earlier > 0 and last == [1, 0, 0],
        picture=lambda path: draw(triangle.double(), names, names, path, title="dark passes, white is blocked"),
    )


def directions() -> Measured:
    """How much of the text before and after it a word feels; and what reading backwards changes."""
    x = noise(1, 8, 16)
    encoder, at = stack(), places(8)
    lstm = nn.LSTM(16, 16, batch_first=True).double()
    parts: dict[str, Callable[[Tensor], Tensor]] = {
        "encoder": lambda y: encoder(y, at, None),
        "decoder (causal)": lambda y: encoder(y, at, causal(at)),
        "LSTM": lambda y: lstm(y)[0],
    }
    rows = []
    for name, f in parts.items():
        feels = influence(f, x) > 0
        before, after = feels.tril(diagonal=-1).sum().item(), feels.triu(diagonal=1).sum().item()
        backwards = apart(f(x.flip(1)).flip(1), f(x))
        rows.append((name, before / 28, after / 28, backwards))  # 28 = 8 * 7 / 2 pairs
    return amended(
        columns=("model without positions", "earlier words felt", "later words felt", "difference, read backwards"),
        rows=rows,
        why="An encoder sees both sides at once and has no first word: read backwards it gives the same vectors. A "
        "causal decoder is one-directional, as an LSTM is; of it the sentence is not true.",
        holds=[row[1:3] for row in rows] == [(1, 1), (1, 0), (1, 0)]
        and rows[0][3] < 1e-12 and min(rows[1][3], rows[2][3]) > 1e-3,
    )  # fmt: skip


def seen_in(model: str) -> Tensor:
    """Which word (row) gives a weight to which (column) in one of our models, as it was recorded: (WORDS, WORDS)."""
    sizes = {"vocab_size": 10, "d_model": 16, "n_heads": 2, "layers": 1, "max_length": WORDS}
    with torch.random.fork_rng(devices=[]):  # whatever its weights are
        backbone: Any = MODELS[model](MODELS[model].config_class(**sizes)).eval()
    with torch.no_grad(), recording(backbone) as maps:
        backbone.encode(torch.arange(4, 4 + WORDS)[None])
    (weights,) = maps.values()
    return weights[0].sum(dim=0) > 0


def visible(name: str) -> dict[str, Tensor]:
    """Which word (row) may see which (column) in training, for each kind of pass that the model makes.

    Of the models that we have it is measured; of the others it is the mask of their paper.
    """
    if name in OURS:
        return {"": seen_in(OURS[name])}
    ways = unilm()
    both, left, right = (ways[way] for way in ("both directions", "left to right", "right to left"))
    special = {
        "ELMo": {"forward": left, "backward": right},
        "MASS": {"encoder": both, "decoder": left},
        "UniLM": ways,
        "XLNet": {"one order": permuted(torch.randperm(WORDS).argsort())},
    }
    return special.get(name, {"": left if FAMILIES[name][0] == LEFT else both})


def families() -> Measured:
    counts = {
        name: ", ".join(f"{kind} {int(mask.sum())}".strip() for kind, mask in visible(name).items())
        for name in FAMILIES
    }
    orders = torch.stack([visible("XLNet")["one order"] for _ in range(2000)]).double().mean(dim=0)
    ahead = orders[~causal(places(WORDS))].mean().item()
    half = WORDS * (WORDS + 1) // 2
    return amended(
        columns=("model", "family in the notes", f"pairs seen, of {WORDS * WORDS}", "what it is"),
        rows=[(name, family, counts[name], about) for name, (family, about) in FAMILIES.items()],
        why="The three families are real: a triangle of pairs, all pairs, or a triangle in a new order each time - "
        f"over many orders XLNet sees each later word in {ahead:.2f} of them. But MASS is an encoder-decoder, UniLM "
        "trains one network under four masks, and MT-DNN adds no pre-training: it is BERT and tasks.",
        holds=all(str(half) in counts[n] for n, (f, _) in FAMILIES.items() if f != BOTH)
        and counts["BERT"] == str(WORDS * WORDS) and counts["MASS"] != counts["BERT"] != counts["UniLM"]
        and abs(ahead - 0.5) < 0.05,
    )  # fmt: skip
