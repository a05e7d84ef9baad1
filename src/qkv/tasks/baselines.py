"""What a model must beat to be worth its training: baselines that are counted, or learned in seconds."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.data.examples import Examples
from qkv.models import Model
from qkv.objectives import Objective


def majority(train: Sequence[int], valid: Sequence[int]) -> float:
    """Always the most frequent training label."""
    [(label, _)] = Counter(train).most_common(1)
    return sum(one == label for one in valid) / len(valid)


def bag_of_words(
    train: Sequence[Sequence[int]], labels: Sequence[int], valid: Sequence[Sequence[int]], gold: Sequence[int],
    *, vocab_size: int, steps: int = 100, decay: float = 1.0,
) -> float:  # fmt: skip
    """Pang et al. 2002: logistic regression on which words a document has, not how often nor where.

    p(class) = softmax(x W + b); x is 1 / sqrt(words) for each word that occurs. L-BFGS on all documents at once lowers
    the summed loss and `decay` / 2 times the squared length of W.
    """
    x, y, n_classes = Occurrences(train), torch.tensor(labels), max(*labels, *gold) + 1
    w, b = torch.zeros(vocab_size, n_classes, requires_grad=True), torch.zeros(n_classes, requires_grad=True)
    learner = torch.optim.LBFGS([w, b], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        learner.zero_grad()
        found = F.cross_entropy(x @ w + b, y, reduction="sum") + decay / 2 * w.square().sum()
        found.backward()
        return found

    learner.step(loss)
    with torch.no_grad():
        found = (Occurrences(valid) @ w + b).argmax(dim=1)
    return float((found == torch.tensor(gold)).float().mean())


class Occurrences:
    """The words that each document has, all of them with the weight 1 / sqrt(their number): rows of length 1."""

    def __init__(self, documents: Sequence[Sequence[int]]) -> None:
        rows = [sorted(set(words)) for words in documents]
        self.ids = torch.tensor([word for row in rows for word in row])
        self.starts = torch.tensor([0, *accumulate(len(row) for row in rows[:-1])])
        self.values = torch.tensor([len(row) ** -0.5 for row in rows for _ in row])

    def __matmul__(self, w: Tensor) -> Tensor:
        """(documents, V) @ (V, classes), though the many zeros are nowhere."""
        return F.embedding_bag(self.ids, w, self.starts, mode="sum", per_sample_weights=self.values)


def learned(
    model: Model, objective: Objective, train: Examples, valid: Examples, *, epochs: int, rate: float = 3e-3
) -> float:
    """A small model after a few epochs of Adam: the best accuracy of all epochs, which is to its advantage."""
    learner, best, stream = torch.optim.Adam(model.parameters(), lr=rate), 0.0, train.stream()
    for _ in range(epochs):
        model.train()
        for batch, _ in islice(stream, train.count(0)):
            inputs, labels = objective.prepare(batch)
            (objective.loss(model(*inputs), labels).total / objective.count(labels)).backward()
            learner.step()
            learner.zero_grad()
        best = max(best, accuracy(model, objective, valid))
    return best


@torch.inference_mode()
def accuracy(model: Model, objective: Objective, valid: Examples) -> float:
    model.eval()
    right = count = 0.0
    for batch in valid.in_order():
        inputs, labels = objective.prepare(batch)
        loss = objective.loss(model(*inputs), labels)
        right, count = right + float(loss.parts["accuracy"]), count + loss.tokens
    return right / count
