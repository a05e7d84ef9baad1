"""Words read by their letters: convolutions over a word's symbols, and what they find as one vector."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qkv.layers.embedding import Embedding

# The symbols of a word (Peters et al. 2018, the authors' code; all numbers are one higher, as in AllenNLP, since 0 is
# where no word is): 256 bytes of UTF-8, then these.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, NO_LETTER = range(257, 262)
SYMBOLS = 262


class Highway(nn.Module):
    """Srivastava et al. 2015, Eq. 3: y = t * relu(W x + b) + (1 - t) * x, with the gate t = sigmoid(W_t x + b_t)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -2.0)  # at first x passes as it is (section 2.2)

    def forward(self, x: Tensor) -> Tensor:
        t = self.gate(x).sigmoid()
        return t * self.transform(x).relu() + (1 - t) * x


class CharacterCNN(nn.Module):
    """Kim et al. 2016, section 2.2, as ELMo has it (Peters et al. 2018, section 3.4): `filters[i]` filters over i + 1
    symbols each, the largest value of each over the word, relu, highways, and a projection.

    A word is a row of symbols: BEGIN_WORD, its bytes + 1, END_WORD, and NO_LETTER to the end.
    """

    def __init__(self, d_character: int, filters: Sequence[int], highways: int, width: int) -> None:
        super().__init__()
        self.symbols = Embedding(SYMBOLS, d_character, scale=1.0)
        self.filters = nn.ModuleList(nn.Conv1d(d_character, n, kernel_size=i) for i, n in enumerate(filters, start=1))
        self.highways = nn.Sequential(*(Highway(sum(filters)) for _ in range(highways)))
        self.projection = nn.Linear(sum(filters), width)

    def forward(self, letters: Tensor) -> Tensor:
        """Symbols of words (N, L) -> vectors (N, D). Each different word is computed once, and of the empty places
        behind the longest just enough for every window that there is."""
        different, which = letters.unique(dim=0, return_inverse=True)
        used = int(((different != NO_LETTER) & (different > 0)).any(dim=0).sum())
        return self.plain(different[:, : used + len(self.filters)])[which]

    def plain(self, letters: Tensor) -> Tensor:
        """The same, word by word and place by place."""
        x = self.symbols(letters).transpose(1, 2)  # (N, d_character, L)
        found = torch.cat([convolve(x).amax(dim=2) for convolve in self.filters], dim=1).relu()
        return self.projection(self.highways(found))
