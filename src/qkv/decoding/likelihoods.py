"""How probable a language model finds texts, in windows where they are longer than its context."""

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from qkv.decoding.searcher import by_length
from qkv.evaluation.perplexity import windows
from qkv.models import Model
from qkv.text.tokenizer import PAD

CELLS = 2**12  # tokens whose probabilities are computed at a time


@torch.inference_mode()
def nats(model: Model, rows: list[list[int]], first: int) -> list[float]:
    """-log p of each row of tokens, before which the token `first` stands."""
    parts = [(row, at) for row, ids in enumerate(rows) for at in windows(len(ids), int(model.config.max_length))]
    totals, device = [0.0] * len(rows), next(model.parameters()).device
    for batch in by_length([window.stop - window.start for _, window in parts], CELLS):
        some = [parts[i] for i in batch]
        given = [torch.tensor([first, *rows[row]][at.start : at.stop]) for row, at in some]
        # What should follow each token of it: PAD where that is not counted.
        after_it = [torch.tensor([PAD] * (at.first - at.start) + rows[row][at.first : at.stop]) for row, at in some]
        read, asked = (pad_sequence(side, batch_first=True).to(device) for side in (given, after_it))
        logits = model(ids=read).logits.float()  # (B, T, V)
        losses = F.cross_entropy(logits.transpose(1, 2), asked, ignore_index=PAD, reduction="none").double()
        for (row, _), loss in zip(some, losses.sum(dim=1).tolist(), strict=True):
            totals[row] += loss
    return totals
