"""The hierarchical attention network: words make sentences, sentences make the document (Yang et al. 2016)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.attention.pooling import Pooling, mean
from qkv.config import setting
from qkv.layers import Dropout, Norm, Stack, StackConfig
from qkv.models.model import Model
from qkv.positions import Places
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class HierarchicalConfig(StackConfig):
    """Yang et al. 2016, section 3.3: embeddings of 200, a GRU of 50 in each direction at both levels."""

    vocab_size: int = setting(8000, "size of the joint vocabulary (read from the tokenizer)")
    d_model: int = setting(100, "width of the sentence and document vectors: both directions of the GRU together")
    d_ff: int = setting(200, "with encoder self: width inside the feed-forward networks")
    n_heads: int = setting(4, "with encoder self: attention heads")
    dropout: float = setting(0.3, "dropout of word, sentence and document vectors")
    norm: Norm = setting("pre", "with encoder self: layer norm before or after each sub-layer")
    max_length: int = setting(4096, "with encoder self: longest sentence, in words, or document, in sentences")
    n_classes: int = setting(2, "classes that a document may have (read from the labels)")
    d_embedding: int = setting(200, "width of the word embeddings")
    levels: int = setting(2, "2 for words and sentences, 1 for one attention over all words of a document")
    encoder: Literal["gru", "self", "none"] = setting(
        "gru", "what reads words and sentences: gru (the paper), self for encoder blocks, none for nothing"
    )
    pooling: Literal["attention", "mean"] = setting("attention", "learned-query attention (the paper), or the average")
    layers: int = setting(1, "with encoder self: blocks at each level")
    word_dropout: float = setting(0.0, "share of the words that are hidden from each training document")

    def __post_init__(self) -> None:
        if self.levels not in (1, 2):
            raise ValueError(f"levels must be 1 (words) or 2 (words and sentences), not {self.levels}")
        super().__post_init__()
        if self.encoder == "gru" and self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} is not even, but the GRU has two directions")
        if self.encoder != "gru" and self.d_embedding != self.d_model:
            raise ValueError(
                f"d_embedding={self.d_embedding} is not d_model={self.d_model}; only encoder gru changes the width"
            )

    def check_heads(self) -> None:
        if self.encoder == "self":
            super().check_heads()


PRESETS: dict[str, dict[str, Any]] = {
    "han": {"d_embedding": 200, "d_model": 100, "encoder": "gru"},
    "han-self": {"d_embedding": 100, "d_model": 100, "encoder": "self"},
}


class Level(nn.Module):
    """Yang et al. 2016, Figure 2: one level of it; vectors of words (or sentences) become the vector of the whole."""

    def __init__(self, c: HierarchicalConfig, width: int) -> None:
        super().__init__()
        if c.encoder == "gru":
            self.gru = nn.GRU(width, c.d_model // 2, batch_first=True, bidirectional=True)
        elif c.encoder == "self":
            self.stack = Stack(c, layers=c.layers)
        self.pooling = Pooling(c, c.d_model) if c.pooling == "attention" else mean

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), mask (B, S) whose True stand first: (B, D)."""
        if hasattr(self, "gru"):
            lengths = mask.sum(dim=1).clamp(min=1).cpu()  # a row of nothing is read as one zero, and pooled away
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=mask.size(1))
        elif hasattr(self, "stack"):
            x = self.stack(x, Places.span(0, x.size(1), x.device), mask[:, None, None])
        return self.pooling(x, mask)


class Hierarchical(Model):
    """Yang et al. 2016, section 2.2: attention over the words of a sentence, then over the sentences of a document.

    With encoder "self" the two GRUs are encoder blocks (Vaswani et al. 2017). With levels = 1 the document is one long
    sentence: plain attention. Differs: word embeddings are learned with the rest, where the paper takes word2vec's.
    """

    config_class = HierarchicalConfig
    presets = PRESETS
    config: HierarchicalConfig
    shown = "{c.levels} levels, encoder {c.encoder}, pooling {c.pooling}, dropout {c.dropout}"

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_embedding)
        std = 1.0 if config.encoder == "self" else 0.1  # positions have unit variance
        nn.init.normal_(self.embedding.weight, std=std)
        self.words = Level(config, config.d_embedding)
        if config.levels == 2:
            self.sentences = Level(config, config.d_model)
        self.dropout, self.word_dropout = Dropout(config.dropout), Dropout(config.word_dropout)
        self.output = nn.Linear(config.d_model, config.n_classes)

    def forward(self, words: Tensor) -> Tensor:
        """Word ids (B, N, S) of the sentences of texts, padded: logits (B, n_classes)."""
        if self.config.levels == 1:
            words = from_the_left(words[words != PAD], (words != PAD).flatten(1))[0][:, None]
        is_word = words != PAD
        has_words = is_word.any(dim=2)  # (B, N); sentences of nothing but padding are left out
        s = self.words(self.embed(words[has_words]), is_word[has_words])  # (R, D): of all texts
        sentences, mask = from_the_left(self.dropout(s), has_words)  # (B, N, D), (B, N)
        v = self.dropout(self.sentences(sentences, mask)) if self.config.levels == 2 else sentences[:, 0]  # (B, D)
        return self.output(v)

    def embed(self, words: Tensor) -> Tensor:
        x: Tensor = self.dropout(self.embedding(words))  # (R, S) -> (R, S, D)
        return x * self.word_dropout(x.new_ones(*words.shape, 1))


def from_the_left(found: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """What stands where keep (B, N) is True, `found` (R, ..) row by row, without the gaps: (B, N, ..), mask (B, N)."""
    count = keep.sum(dim=1)
    mask = torch.arange(max(1, int(count.max())), device=keep.device) < count[:, None]
    laid = found.new_zeros(*mask.shape, *found.shape[1:])
    laid[mask] = found
    return laid, mask
