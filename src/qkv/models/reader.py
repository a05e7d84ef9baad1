"""The readers of cloze questions: attention over attention (Cui et al. 2017), and the attention sum before it."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from qkv.attention.over_attention import over_attention
from qkv.config import setting
from qkv.layers import Dropout, ModelConfig
from qkv.models.model import Model
from qkv.text.cloze import ANONYMOUS
from qkv.text.tokenizer import PAD


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(ModelConfig):
    """The sizes of an open re-implementation of Cui et al. 2017: embeddings of 384, states of 256."""

    vocab_size: int = setting(10000, "words and anonymous ids (read from the word list)")
    d_model: int = setting(384, "width of the word embeddings")
    d_hidden: int = setting(256, "width of each direction of the two GRUs")
    dropout: float = setting(0.1, "dropout of the embeddings")
    shuffle: bool = setting(True, "draw the ids of anonymous words anew in each training step (Hermann et al. 2015)")
    attention: Literal["over_attention", "sum"] = setting(
        "over_attention", "over_attention (Cui et al. 2017), or sum: one vector for the question (Kadlec et al. 2016)"
    )


PRESETS: dict[str, dict[str, Any]] = {
    "small": {"d_model": 128, "d_hidden": 64, "dropout": 0.3},
    "large": {"d_model": 384, "d_hidden": 256, "dropout": 0.1},
}


@dataclass(frozen=True)
class Reading:
    """Where in the document the answer stands: weights (B, S) over its words (B, S), which sum to 1."""

    weights: Tensor
    document: Tensor

    def probability(self, words: Tensor) -> Tensor:
        """Cui et al. 2017, section 3: P(w) is the sum of s over all places of w; words (B, C) -> (B, C)."""
        same = self.document[:, None, :] == words[:, :, None]  # (B, C, S)
        return (same * self.weights[:, None, :]).sum(dim=2)  # (B, C)


class BothWays(nn.Module):
    """Cho et al. 2014, section 2.3, read both ways: one GRU from the first word on, one from the last word back.

    Each row is turned round by itself, so that padding stays at the end and is never read before a word. It gives what
    torch's packed bidirectional GRU gives, which takes five times as long to train on a CPU.
    """

    def __init__(self, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.onward = nn.GRU(d_model, d_hidden, batch_first=True)
        self.back = nn.GRU(d_model, d_hidden, batch_first=True)
        for name, weight in self.named_parameters():
            if name.endswith("weight_hh_l0"):
                for gate in weight.chunk(3):
                    nn.init.orthogonal_(gate)

    def forward(self, x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, T, D), real (B, T): the states of both at each word (B, T, 2K), and the last of each (B, 2K)."""
        place, length = torch.arange(x.size(1), device=x.device), real.sum(dim=1)[:, None]
        turned = torch.where(real, length - 1 - place, place)[:, :, None]  # (B, T, 1)
        onward, _ = self.onward(x)  # (B, T, K)
        back, _ = self.back(x.gather(1, turned.expand_as(x)))
        last = (length - 1).clamp(min=0)[:, :, None].expand(-1, -1, back.size(2))
        ends = torch.cat((onward.gather(1, last), back.gather(1, last)), dim=2).squeeze(1)
        return torch.cat((onward, back.gather(1, turned.expand_as(back))), dim=2), ends


class Reader(Model):
    """Cui et al. 2017, Figure 1: two bidirectional GRUs read document and question, attention points at the answer.

    With `attention = "sum"` it is the attention-sum reader (Kadlec et al. 2016, section 3): the question is one vector,
    its two last states, and s = softmax(h_doc(i) . question).

    Differs: candidates are anonymous (see text.cloze), and in training they exchange their ids at random, as in Hermann
    et al. 2015, so that nothing can be learned of a name but that it is one; both papers have a vector for each word.
    """

    config_class = ReaderConfig
    presets = PRESETS
    config: ReaderConfig
    shown = "d_hidden {c.d_hidden}, {c.attention}, dropout {c.dropout}"

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.words.weight, std=0.3)  # 0.03 learns nothing for long, 1 half as fast: results/tasks.md
        self.dropout = Dropout(config.dropout)
        self.document, self.question = (BothWays(config.d_model, config.d_hidden) for _ in range(2))

    def forward(self, document: Tensor, question: Tensor) -> Reading:
        """Word ids of documents (B, S) and questions (B, T), both padded."""
        is_word, is_asked = document != PAD, question != PAD
        words, asked = self.shuffled(document, question)
        h_doc, _ = self.document(self.dropout(self.words(words)), is_word)  # (B, S, 2K)
        h_query, last = self.question(self.dropout(self.words(asked)), is_asked)  # (B, T, 2K), (B, 2K)
        if self.config.attention == "sum":
            scores = (h_doc @ last[:, :, None]).squeeze(2)  # (B, S)
            weights = scores.masked_fill(~is_word, -torch.inf).softmax(dim=1)
        else:
            weights, _, _ = over_attention(h_doc @ h_query.transpose(1, 2), is_word, is_asked)
        return Reading(weights, document)

    def shuffled(self, *texts: Tensor) -> list[Tensor]:
        """In training, the texts (B, T) with the anonymous ids of each row exchanged at random, alike in all texts."""
        first, n = ANONYMOUS.start, min(len(ANONYMOUS), self.config.vocab_size - ANONYMOUS.start)
        if not (self.training and self.config.shuffle and n > 0):
            return [*texts]
        order = torch.rand(len(texts[0]), n, device=texts[0].device).argsort(dim=1) + first
        is_name = [(ids >= first) & (ids < first + n) for ids in texts]
        places = [(ids - first).clamp(0, n - 1) for ids in texts]
        return [torch.where(*each) for each in zip(is_name, [order.gather(1, at) for at in places], texts, strict=True)]
