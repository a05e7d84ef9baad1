"""Attention over attention: each word of a question looks at the document, and the document says whom to trust."""

import torch
from torch import Tensor


def over_attention(scores: Tensor, document: Tensor, question: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cui et al. 2017, section 3: which document words answer a question; returns (s, alpha, beta).

    With M(i, j) = h_doc(i) . h_query(j) as the scores:
        alpha(t) = softmax(M(1, t), .., M(|D|, t))    for each question word t, over the document
        beta(t)  = softmax(M(t, 1), .., M(t, |Q|))    for each document word t, over the question
        mean     = (beta(1) + .. + beta(|D|)) / |D|
        s        = alpha^T mean                       for each document word; sums to 1

    scores (B, S, T), S the document and T the question; document (B, S) and question (B, T) are True at real words.
    """
    real = document[:, :, None] & question[:, None, :]  # (B, S, T)
    blocked = scores.masked_fill(~real, -torch.inf)
    alpha = blocked.softmax(dim=1).masked_fill(~real, 0)  # columns of padding see nothing: zeros, not nan
    beta = blocked.softmax(dim=2).masked_fill(~real, 0)
    mean = beta.sum(dim=1) / document.sum(dim=1, keepdim=True).clamp(min=1)  # (B, T)
    s = (alpha @ mean[:, :, None]).squeeze(2)  # (B, S)
    return s, alpha, beta
