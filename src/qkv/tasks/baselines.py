"""What a model must beat to be worth its training: baselines that are counted, or learned in seconds."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain


def majority(train: Sequence[int], valid: Sequence[int]) -> float:
    """Always the most frequent training label."""
    [(label, _)] = Counter(train).most_common(1)
    return sum(one == label for one in valid) / len(valid)


def bag_of_words(
    train: Sequence[Sequence[int]], labels: Sequence[int], valid: Sequence[Sequence[int]], gold: Sequence[int],
    *, vocab_size: int,
) -> dict[str, float]:  # fmt: skip
    """Pang et al. 2002: logistic regression on which words a document has, not how often nor where; each document is a
    row of length 1. Nothing, where scikit-learn is not installed."""
    try:
        from scipy.sparse import csr_array
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        return {}

    def occurrences(documents: Sequence[Sequence[int]]) -> csr_array:
        rows = [sorted(set(words)) for words in documents]
        values = [len(row) ** -0.5 for row in rows for _ in row]
        starts = [0, *accumulate(map(len, rows))]
        return csr_array((values, [*chain.from_iterable(rows)], starts), shape=(len(rows), vocab_size))

    if len(set(labels)) < 2:
        return {}
    learned = LogisticRegression(max_iter=1000).fit(occurrences(train), labels)
    return {"bag of words": float(learned.score(occurrences(valid), gold))}
