"""UniLM learns to write, and when to stop: the end of a target is hidden like its words."""

import torch

from kit import batch
from qkv.data import Batch, Place, generator
from qkv.decoding.greedy import greedy
from qkv.decoding.plain import padded
from qkv.models import UniLM
from qkv.models.unilm import UniLMConfig
from qkv.objectives.one_way import MaskedTranslation
from qkv.text.tokenizer import BOS, EOS

V, MASK, FIRST = 14, 4, 5


def rows(count: int, seed: int) -> list[list[int]]:
    """Two to seven words."""
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 8, (count,), generator=rng).tolist()
    return [torch.randint(FIRST, V, (n,), generator=rng).tolist() for n in lengths]


def pairs(several: list[list[int]]) -> Batch:
    """Each to be written backwards."""
    return batch(*([[*row, EOS], [BOS, *row[::-1], EOS]] for row in several))


def taught(steps: int) -> UniLM:
    torch.manual_seed(0)
    model = UniLM(UniLMConfig(vocab_size=V, d_model=48, n_heads=4, layers=2, max_length=24, dropout=0.0))
    asked = MaskedTranslation(label_smoothing=0.0)
    object.__setattr__(asked, "_mask_id", MASK)
    object.__setattr__(asked, "_special", torch.zeros(V, dtype=torch.bool))
    optimiser = torch.optim.Adam(model.parameters())
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50) * (1 - step / steps)
        question = asked.prepare(pairs(rows(48, step)), generator(1, Place(0, step)))
        optimiser.zero_grad()
        (asked.loss(model(**question.inputs), question).total / question.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.eval()


def test_it_stops_where_the_reference_stops() -> None:
    model, unseen = taught(300), rows(100, 10**6)
    found = greedy(model, padded(unseen), [16] * len(unseen))
    lengths, wanted = (sum(map(len, some)) / len(some) for some in ([h.tokens for h in found], unseen))
    right = sum(h.tokens == row[::-1] for h, row in zip(found, unseen, strict=True)) / len(unseen)
    print(f"mean length {lengths:.2f} of {wanted:.2f}, exactly right {right:.0%}")
    assert abs(lengths - wanted) <= 0.2 * wanted
    assert sum(h.ended for h in found) >= 0.95 * len(found)
    assert right >= 0.9
