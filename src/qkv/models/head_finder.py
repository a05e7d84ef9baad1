"""The head finder: an encoder with any positions, and a bilinear score of each word against each possible head."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.attention import padding
from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import Dropout, Embedding, Norm, Stack, StackConfig, init_xavier
from qkv.models.model import Model
from qkv.positions import Places, Tree
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class HeadFinderConfig(StackConfig):
    """A small encoder; `d_arc` is the width in which words and heads are compared."""

    vocab_size: int = setting(8000, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(128, "width of the vectors that pass between blocks")
    d_ff: int = setting(256, "width inside the feed-forward networks")
    n_heads: int = setting(4, "attention heads; d_model must be divisible by it")
    norm: Norm = setting("pre", "layer norm after each residual or before each sub-layer")
    position: str = setting("sinusoidal", "any name that `qkv list positions` prints, e.g. structural_relative")
    max_length: int = setting(512, "longest sentence in sub-words that the model takes")
    layers: int = setting(2, "blocks of the encoder")
    d_arc: int = setting(64, "width in which words and heads are compared")


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "d_ff": 128, "n_heads": 4, "layers": 2, "d_arc": 32},
    "small": {"d_model": 128, "d_ff": 256, "n_heads": 4, "layers": 2, "d_arc": 64},
}


class HeadFinder(Model):
    """Dozat & Manning 2017, section 3.1: s(i, j) = head(j)^T U word(i) + head(j)^T u scores word j as the head of i.

    word and head are one-layer networks over what the encoder says of a word, which is what it says of its first
    sub-word. Differs: a Transformer encoder in place of three LSTMs, sub-words in place of words with their tags, and
    no search for the best tree: each word chooses its head alone.
    """

    config_class = HeadFinderConfig
    presets = PRESETS
    config: HeadFinderConfig
    shown = "{c.layers} layers, {c.n_heads} heads, {c.position}, dropout {c.dropout}"

    def __init__(self, config: HeadFinderConfig) -> None:
        super().__init__(config)
        self.tokens = Embedding(config.vocab_size, config.d_model)
        self.encoder = Stack(config, layers=config.layers)
        self.root = nn.Parameter(torch.randn(config.d_model))
        self.word = nn.Sequential(nn.Linear(config.d_model, config.d_arc), nn.ReLU(), Dropout(config.dropout))
        self.head = nn.Sequential(nn.Linear(config.d_model, config.d_arc), nn.ReLU(), Dropout(config.dropout))
        self.bilinear = nn.Linear(config.d_arc, config.d_arc)  # U and, as its bias, u
        init_xavier(self)
        nn.init.zeros_(self.bilinear.weight)  # all heads are equally likely at first

    def forward(self, ids: Tensor, first: Tensor, tree: Tree | None = None) -> Tensor:
        """Sub-word ids (B, S) and the place of each word's first one (B, T), -1 at padding: scores (B, T, 1 + T).

        Column 0 is the root, column j the j-th word. `tree` holds a tree position for each sub-word.
        """
        if tree is None and self.encoder.position.needs_tree:
            raise InputError(
                f"{self.config.position!r} needs a dependency tree for each sentence, and none was given; "
                "give trees, or use another position"
            )
        at = Places.span(0, ids.size(1), ids.device, tree=tree)
        hidden = self.encoder(self.tokens(ids), at, padding(ids, PAD))  # (B, S, D)
        place = first.clamp(min=0)[:, :, None].expand(-1, -1, hidden.size(2))
        words = hidden.gather(1, place)  # (B, T, D)
        heads = torch.cat((self.root.expand(len(ids), 1, -1), words), dim=1)  # (B, 1 + T, D)
        scores = self.bilinear(self.word(words)) @ self.head(heads).transpose(1, 2)  # (B, T, 1 + T)
        is_head = torch.cat((torch.ones_like(first[:, :1], dtype=torch.bool), first >= 0), dim=1)  # (B, 1 + T)
        return scores.masked_fill(~is_head[:, None, :], -torch.inf)
