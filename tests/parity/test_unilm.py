"""UniLM, under each of its four masks, gives the numbers of transformers' BERT with the same weights that is handed
these masks; transformers has no UniLM."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import close, padded, stirred
from qkv import folder
from qkv.convert.families import bert
from qkv.convert.family import our_weights
from qkv.models import UniLM
from qkv.models.unilm import UniLMConfig
from qkv.text.tokenizer import PAD

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

V, T = 40, 6
# Dong et al. 2019, Figure 1, by the authors' numbers: the segment of each token, and whether token i sees token j.
WAYS: dict[str, tuple[list[int], Callable[[int, int], bool]]] = {
    "both ways": ([0, 0, 0, 1, 1, 1], lambda i, j: True),
    "left to right": ([2] * T, lambda i, j: j <= i),
    "right to left": ([3] * T, lambda i, j: j >= i),
    "source, target": ([4, 4, 4, 5, 5, 5], lambda i, j: j < 3 or j <= i),
}
every_way = pytest.mark.parametrize("way", WAYS)


class Twins:
    """Theirs and ours, and two texts in one way, of which the second has two tokens fewer."""

    def __init__(self, way: str) -> None:
        torch.manual_seed(1)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
                 "max_position_embeddings": 20, "type_vocab_size": 6, "vocab_size": V, "pad_token_id": PAD,
                 "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # fmt: skip
        config = transformers.BertConfig(**sizes, attn_implementation="eager")
        self.theirs: Any = stirred(transformers.BertForMaskedLM(config).eval(), 0.2)
        self.ours = UniLM(UniLMConfig(vocab_size=V, d_model=32, layers=2, n_heads=4, d_ff=48, max_length=20)).eval()
        folder.fill(self.ours, self.turned(self.theirs.state_dict()), Path("theirs"))
        numbers, sees = WAYS[way]
        self.segments = torch.tensor([numbers, numbers])
        self.mask = torch.tensor([[sees(i, j) for j in range(T)] for i in range(T)])
        self.ids = padded([T, T - 2], V)
        self.real = self.ids != PAD

    def turned(self, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        named = {name.removeprefix("bert."): value for name, value in theirs.items()}
        return our_weights(bert.BERT, named, None, range(V), 0, "")

    def both(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The last states and the logits of all real tokens, of theirs and of ours."""
        blocked = torch.finfo(torch.float32).min
        seen = (self.mask & self.real[:, None])[:, None]
        given = {"input_ids": self.ids, "token_type_ids": self.segments,
                 "attention_mask": torch.zeros(seen.shape).masked_fill(~seen, blocked)}  # fmt: skip
        theirs = self.theirs(**given, output_hidden_states=True)
        ours = self.ours(self.ids, segments=self.segments)
        return (theirs.hidden_states[-1][self.real], theirs.logits[self.real]), (
            ours.hidden[self.real],
            ours.logits[self.real],
        )

    def furthest(self) -> float:
        return max(float((mine - other).detach().abs().max()) for other, mine in zip(*self.both(), strict=True))


@every_way
def test_states_and_logits(way: str) -> None:
    assert Twins(way).furthest() <= 1e-5


@every_way
def test_every_gradient(way: str) -> None:
    """Of the loss of three tokens, which stand in both texts."""
    twins = Twins(way)
    labels = torch.tensor([7, 21, 33])
    for _, logits in twins.both():
        F.cross_entropy(logits[[1, 4, T + 2]], labels, reduction="sum").backward()
    tensors = {name: twins.theirs.get_parameter(name) for name in twins.theirs.state_dict()}
    expected = twins.turned({n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in tensors.items()})
    compared = 0
    for name, parameter in twins.ours.named_parameters():
        if parameter.grad is not None:
            close(parameter.grad, expected[name], atol=1e-5 * max(1.0, float(expected[name].abs().max())))
            compared += bool(parameter.grad.any())
    assert compared == sum(p.grad is not None and bool(p.grad.any()) for p in twins.theirs.parameters())


@every_way
@pytest.mark.parametrize("name", ["tokens.segments", "encoder.blocks.0.attention.key.weight",
                                  "encoder.blocks.1.feed_forward.expand.bias", "projection.bias"])  # fmt: skip
def test_one_weight_with_another_sign_is_found(way: str, name: str) -> None:
    twins = Twins(way)
    with torch.no_grad():
        weight = twins.ours.get_parameter(name)
        weight.view(-1)[twins.segments[0, 0] * 32 if name == "tokens.segments" else 0] *= -1
    assert twins.furthest() > 1e-5


@every_way
def test_another_mask_is_found(way: str) -> None:
    """One pair that is seen, or is not."""
    twins = Twins(way)
    twins.mask[1, 2] ^= True
    assert twins.furthest() > 1e-4
