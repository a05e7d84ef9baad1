"""ELMo, two language models that read words by their letters (Peters et al. 2018, "Deep contextualized word
representations")."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    NO_LETTER,
    CharacterCNN,
    Dropout,
    Embedding,
    ModelConfig,
    NoProjection,
    ProjectedLSTM,
    Projection,
    Recurrence,
)
from qkv.models.model import Backbone, Outputs
from qkv.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

SHARES = (1 / 32, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of d_model: the paper's 32, 32, 64 .. 1024 filters


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(ModelConfig):
    """Peters et al. 2018, section 3.4 and the authors' released model, unless said otherwise.

    Differs: no layer norm before the mix, and word vectors beside it are learned with the task.
    """

    vocab_size: int = setting(793471, "words that are predicted (read from the tokenizer)")
    d_model: int = setting(1024, "width of the states, both directions side by side")
    d_cell: int = setting(0, "cells of each LSTM, from which its state is projected; 0 for 4 * d_model")
    layers: int = setting(2, "LSTMs on each other in each direction")
    letters: int = setting(50, "symbols that are read of a word: its bytes, and its beginning and end")
    d_character: int = setting(16, "width of a symbol's vector")
    filters: list[int] = setting([], "filters over 1, 2, 3 .. symbols; [] for the paper's seven, in shares of d_model")
    highways: int = setting(2, "highway layers over the filters; 0 for none")
    cell_clip: float = setting(3.0, "largest value of a cell; 0 for no limit")
    projection_clip: float = setting(3.0, "largest value of a state; 0 for no limit")
    dropout: float = setting(0.1, "dropout before each LSTM and before the prediction")
    predicts: bool = setting(True, "whether it has what predicts words")
    max_length: int = setting(512, "longest text in tokens that the model takes")
    features: Literal["top", "mix", "none"] = setting(
        "top", "what stands for a word: states of the top layer, ELMo's learned mix of all, or none: word vectors alone"
    )
    d_words: int = setting(0, "width of word vectors beside these, learned with the task; 0 for none")
    d_tagger: int = setting(0, "width of a BiLSTM over all of these, in each direction; 0 for none")
    feature_dropout: float = setting(0.5, "dropout of what stands for a word")

    OTHER = ("d_cell", "highways", "cell_clip", "projection_clip", "d_words", "d_tagger")

    def __post_init__(self) -> None:
        super().__post_init__()
        if low := [name for name in self.OTHER if not getattr(self, name) >= 0]:
            raise InputError(f"{low[0]} must be at least 0, not {getattr(self, low[0])}")
        if self.d_model % 2:
            raise InputError(f"d_model is the width of two directions and must be even, not {self.d_model}")
        if any(n < 1 for n in self.filters) or self.letters < 3 or len(self.filters) > self.letters:
            raise InputError(
                f"filters={self.filters} over words of letters={self.letters} symbols cannot be; give counts of 1 or "
                "more, not more of them than symbols, and letters of 3 or more"
            )
        if self.features == "none" and not self.d_words:
            raise InputError("features is none and d_words is 0, so that nothing stands for a word; give d_words")

    @property
    def kernels(self) -> list[int]:
        """How many filters there are over 1, 2, 3 .. symbols."""
        return self.filters or [max(1, int(self.d_model * share)) for share in SHARES[: self.letters]]


# base: the paper; small and medium: AllenNLP's; tiny and mini are ours.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "d_cell": 256, "highways": 1},
    "mini": {"d_model": 256, "d_cell": 512, "highways": 1},
    "small": {"d_model": 256, "d_cell": 1024, "filters": [32, 32, 64, 128, 256, 512, 1024], "highways": 1},
    "medium": {"d_model": 512, "d_cell": 2048, "filters": [32, 32, 64, 128, 256, 512, 1024], "highways": 1},
    "base": {"d_model": 1024, "d_cell": 4096},
}


class Spelled(NamedTuple):
    """The words of texts: their ids (B, W), PAD where no word is; their symbols (B, W, L), and the word (B, T) that
    each token is of."""

    words: Tensor
    letters: Tensor
    number: Tensor

    def by_token(self, x: Tensor) -> Tensor:
        """What is said of words (B, W, D) -> of each of their tokens (B, T, D)."""
        return x.gather(1, self.number.clamp(min=0)[:, :, None].expand(-1, -1, x.size(2)))


def words_of(ids: Tensor, begins: Tensor, special: Tensor) -> Tensor:
    """At the first token of each word its id, or UNK if it has several tokens; PAD elsewhere: (B, T).

    `begins` and `special` (V,) are True at the tokens that a word begins with, and at those that are no text.
    """
    starts = begins[ids] | special[ids]
    starts[:, 1:] |= special[ids[:, :-1]]
    starts[:, 0] = True
    goes_on = F.pad(~starts[:, 1:] & (ids[:, 1:] != PAD), (0, 1))
    return ids.masked_fill(goes_on, UNK).masked_fill(~starts | (ids == PAD), PAD)


class Spelling(nn.Module):
    """From tokens to the letters of whole words: a word of several tokens, as one that the vocabulary does not have, is
    spelled by all of them. Until it is told the vocabulary, every token is a word, and its letters are the digits of
    its id."""

    begins: Tensor  # (V,)
    special: Tensor
    symbols: Tensor  # (V, n) of each token, 0 behind them
    lengths: Tensor

    def __init__(self, vocab_size: int, letters: int) -> None:
        super().__init__()
        self.most = letters
        digits = torch.arange(vocab_size)[:, None] // 10 ** torch.arange(len(str(vocab_size))) % 10
        self.keep(torch.ones(vocab_size, dtype=torch.bool), digits + ord("0") + 1)

    def know(self, tokenizer: Tokenizer) -> None:
        device = self.symbols.device
        texts = [text[: self.most - 2] for text in tokenizer.letters()]
        longest = max(map(len, texts))
        symbols = torch.tensor([[*(byte + 1 for byte in text), *[0] * (longest - len(text))] for text in texts])
        self.keep(torch.tensor(tokenizer.begins_word).to(device), symbols.to(device))
        self.special[list(tokenizer.specials.values())] = True

    def keep(self, begins: Tensor, symbols: Tensor) -> None:
        for number, symbol in ((PAD, 0), (BOS, BEGIN_SENTENCE), (EOS, END_SENTENCE)):
            symbols[number] = 0
            symbols[number, 0] = symbol
        special = torch.zeros_like(begins)
        lengths = (symbols > 0).sum(dim=1)
        tables = {"begins": begins, "special": special, "symbols": symbols.to(torch.int16), "lengths": lengths}
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def forward(self, ids: Tensor) -> Spelled:
        found = words_of(ids, self.begins, self.special)
        starts, sizes = found != PAD, self.lengths[ids]
        number = starts.cumsum(dim=1) - 1  # (B, T)
        before = sizes.cumsum(dim=1) - sizes
        place = 1 + before - torch.where(starts, before, 0).cummax(dim=1).values  # of a token's first letter
        words = ids.new_zeros(len(ids), max(1, int(number.max()) + 1))  # (B, W)
        letters = ids.new_zeros(*words.shape, self.most)
        row = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
        words[row[starts], number[starts]] = found[starts]
        is_word = words != PAD
        letters[is_word] = NO_LETTER
        letters[:, :, 0] = torch.where(is_word, BEGIN_WORD, 0)
        for i in range(int(sizes.max())):
            there = (i < sizes) & (place + i < self.most - 1)  # the last place is for END_WORD
            letters[row[there], number[there], (place + i)[there]] = self.symbols[ids[there], i].long()
        end = (letters != NO_LETTER).sum(dim=2, keepdim=True).clamp(max=self.most - 1)
        letters.scatter_(2, end, torch.where(is_word, END_WORD, 0)[:, :, None])
        return Spelled(words, letters, number)


class BiLM(nn.Module):
    """Peters et al. 2018, section 3.1: a language model from left to right and one from right to left. They share the
    vectors of words and nothing else.

    Each LSTM after the first adds what it reads to what it gives (section 3.4).
    """

    def __init__(self, c: ElmoConfig) -> None:
        super().__init__()
        width, cells = c.d_model // 2, c.d_cell or 4 * c.d_model
        self.characters = CharacterCNN(c.d_character, c.kernels, c.highways, width)
        clips = {"cell_clip": c.cell_clip, "projection_clip": c.projection_clip}
        self.ahead, self.back = (
            nn.ModuleList(ProjectedLSTM(width, cells, width, **clips) for _ in range(c.layers)) for _ in range(2)
        )
        self.dropout = Dropout(c.dropout)

    def forward(self, letters: Tensor, real: Tensor) -> list[Tensor]:
        """Symbols (B, W, L), and where words are (B, W), which begin at the left -> the states of all layers, (B, W, D)
        each, both directions side by side; the first are the vectors of the words, twice. No word: 0."""
        place, n = torch.arange(real.size(1), device=real.device), real.sum(dim=1, keepdim=True)
        turned = torch.where(place < n, n - 1 - place, place)[:, :, None]  # (B, W, 1): each row from its end
        x = self.characters(letters.flatten(0, 1)).view(*real.shape, -1)
        ahead, back, found = x, x.gather(1, turned.expand_as(x)), [torch.cat((x, x), dim=2)]
        for i, (right, left) in enumerate(zip(self.ahead, self.back, strict=True)):
            ahead, back = self.dropout(ahead), self.dropout(back)
            ahead, back = right(ahead) + (ahead if i else 0), left(back) + (back if i else 0)
            found.append(torch.cat((ahead, back.gather(1, turned.expand_as(back))), dim=2))
        return [states * real[:, :, None] for states in found]


class ScalarMix(nn.Module):
    """Peters et al. 2018, Eq. 1: ELMo_k = gamma sum_j softmax(w)_j h_k,j."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights, self.gamma = nn.Parameter(torch.zeros(layers)), nn.Parameter(torch.ones(1))

    def forward(self, layers: list[Tensor]) -> Tensor:
        return self.gamma * sum(s * h for s, h in zip(self.weights.softmax(dim=0), layers, strict=True))


class OneSoftmax(Projection):
    """One softmax for both directions, of states side by side: log p(w | what is before) + log p(w | what comes after),
    but for a constant."""

    def ready(self, hidden: Tensor) -> Tensor:
        return torch.add(*hidden.chunk(2, dim=-1))


class Elmo(Backbone):
    """Peters et al. 2018, sections 3.1 to 3.3: words are read letter by letter, so that no word is unknown.

    `forward` says what should stand at each place, by the states of its neighbours: language modelling. `encode` gives
    what stands for a word elsewhere: the states of the top layer, or with features="mix" the learned mix of all
    layers, word vectors beside it and a BiLSTM over both (section 3.3), while the biLM stays as it is:
    training.freeze = "backbone.bilm".

    Differs: one symbol, </s>, parts texts, where the paper has </S> <S>; and no state is carried from window to window.
    """

    config_class = ElmoConfig
    presets = PRESETS
    config: ElmoConfig
    learns_by, sub_words = "bidirectional_lm", "words"
    pool = "mean"
    shown = "{c.layers} layers each way, dropout {c.dropout}, features {c.features}"

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        c, width = config, config.d_words
        self.spelling = Spelling(c.vocab_size, c.letters)
        self.projection: Any = NoProjection()
        self.words = Embedding(c.vocab_size, c.d_words, scale=1.0) if c.d_words else None
        if c.features != "none":
            self.bilm, width = BiLM(c), width + c.d_model
            if c.predicts:
                self.projection = OneSoftmax(c.vocab_size, c.d_model // 2, tied=None, bias=True)
        self.mix = ScalarMix(c.layers + 1) if c.features == "mix" else None
        self.dropout, self.feature_dropout = Dropout(c.dropout), Dropout(c.feature_dropout)
        self.tagger = Recurrence("lstm", width, c.d_tagger, layers=1, bidirectional=True) if c.d_tagger else None

    @property
    def width(self) -> int:
        c = self.config
        return 2 * c.d_tagger or c.d_words + (c.d_model if c.features != "none" else 0)

    def know(self, tokenizer: Tokenizer) -> None:
        self.spelling.know(tokenizer)

    def forward(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Outputs:
        """Token ids (B, T): for each word, what should stand there, by the state before it and by the one behind it.
        (B, T, D) is the same at all tokens of a word; a half without a neighbour is 0."""
        spelled = self.spelling(hidden_by(ids, mask))
        ahead, back = self.dropout(self.states(spelled)[-1]).chunk(2, dim=2)
        neighbours = torch.cat((F.pad(ahead, (0, 0, 1, 0))[:, :-1], F.pad(back, (0, 0, 0, 1))[:, 1:]), dim=2)
        return Outputs(spelled.by_token(neighbours), self.projection, [])

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """... -> (B, T, D), the same at all tokens of a word."""
        spelled = self.spelling(hidden_by(ids, mask))
        parts = [] if self.words is None else [self.words(spelled.words)]
        if self.config.features != "none":
            layers = self.states(spelled)
            parts.append(layers[-1] if self.mix is None else self.mix(layers))
        x = self.feature_dropout(torch.cat(parts, dim=2))  # (B, W, D)
        if self.tagger is not None:
            x, _ = self.tagger(x, lengths=(spelled.words != PAD).sum(dim=1))
        return spelled.by_token(x)

    def states(self, spelled: Spelled) -> list[Tensor]:
        """Of each layer, the words' vectors first: (B, W, D)."""
        return self.bilm(spelled.letters, spelled.words != PAD)


def hidden_by(ids: Tensor, mask: Tensor | None) -> Tensor:
    """Ids (B, T) with PAD where a mask (B, T) is False."""
    if mask is not None and mask.dim() != 2:
        raise InputError("an LSTM reads one word after another: a mask cannot say who looks at whom; leave it out")
    return ids if mask is None else ids.masked_fill(~mask, PAD)
