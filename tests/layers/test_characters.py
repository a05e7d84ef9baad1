"""Words by their letters: convolutions and highways against loops over numbers."""

import math

import torch

from kit import close, stirred
from qkv.layers import BEGIN_WORD, END_WORD, NO_LETTER, CharacterCNN

WORDS = [b"a", b"dog", b"do", b"dog", b"abcdefgh", b""]


def symbols(words: list[bytes], letters: int) -> torch.Tensor:
    """By hand: the beginning, bytes + 1, the end, and nothing; the last row is where no word is."""
    rows = [[BEGIN_WORD, *(byte + 1 for byte in word), END_WORD] for word in words]
    return torch.tensor([[*row, *[NO_LETTER] * (letters - len(row))] for row in rows] + [[0] * letters])


def cnn() -> CharacterCNN:
    torch.manual_seed(0)
    return stirred(CharacterCNN(3, [2, 1, 3], 2, 4), 0.3)


def test_each_word_is_what_loops_say() -> None:
    """Largest over all windows, those over the end and behind it too; y = t relu(W x + b) + (1 - t) x."""
    model, given = cnn(), symbols(WORDS, 14)
    table = model.symbols.weight.tolist()
    for row, found in zip(given.tolist(), model(given).tolist(), strict=True):
        x = []
        for width, filters in enumerate(model.filters, start=1):
            for weight, bias in zip(filters.weight.tolist(), filters.bias.tolist(), strict=True):
                windows = [
                    bias + sum(weight[d][k] * table[row[i + k]][d] for k in range(width) for d in range(3))
                    for i in range(len(row) - width + 1)
                ]
                x.append(max(0.0, max(windows)))
        for highway in model.highways:
            gate, new = (linear(x, part) for part in (highway.gate, highway.transform))
            t = [1 / (1 + math.exp(-value)) for value in gate]
            x = [t[i] * max(0.0, new[i]) + (1 - t[i]) * x[i] for i in range(len(x))]
        close(torch.tensor(found), torch.tensor(linear(x, model.projection)))


def linear(x: list[float], layer: torch.nn.Linear) -> list[float]:
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [bias + sum(w * value for w, value in zip(row, x, strict=True)) for row, bias in rows]


def test_different_words_once_and_few_empty_places_change_nothing() -> None:
    """Not even for a word that fills its row."""
    model, given = cnn().double(), symbols([*WORDS, b"abcdefghijkl"], 14)
    found, plain = (compute(given)[:, :, None] for compute in (model, model.plain))
    close(found, plain, atol=1e-12)
    for number in range(len(given)):
        close(model(given[number : number + 1])[:, :, None], plain[number : number + 1], atol=1e-12)
    parameters = list(model.parameters())
    slopes = (torch.autograd.grad(said.square().sum(), parameters) for said in (found, plain))
    for one, other in zip(*slopes, strict=True):
        close(one, other, atol=1e-10)
