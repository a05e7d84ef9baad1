"""XLNet's two streams and its memory give the numbers of transformers' XLNetLMHeadModel with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from kit import close
from qkv.convert.families.xlnet import XLNET
from qkv.convert.family import our_weights, plain
from qkv.models import XLNet, XLNetConfig
from qkv.objectives import Asked, PermutationLM
from qkv.text.tokenizer import PAD

transformers = pytest.importorskip("transformers", reason="transformers is not installed; pip install 'qkv[dev]'")

V, B, T, P, M, LAYERS = 40, 3, 12, 4, 7, 2


class Twins:
    """Theirs and ours, and one question to both: ids, segments, who sees whom, and the places that are asked for. The
    second text has so much padding on its left."""

    def __init__(self, padding: int = 0) -> None:
        torch.manual_seed(0)
        config = transformers.XLNetConfig(
            vocab_size=V, d_model=32, n_layer=LAYERS, n_head=4, d_inner=48, dropout=0.0, mem_len=9, use_mems_train=True
        )
        self.theirs = transformers.XLNetLMHeadModel(config).eval()
        with torch.no_grad():
            for name, parameter in self.theirs.named_parameters():
                parameter.normal_(float("norm.weight" in name), 0.3)
        self.ours = XLNet(XLNetConfig(
            vocab_size=V, d_model=32, layers=LAYERS, n_heads=4, d_ff=48, dropout=0.0, activation="gelu", memory=9
        ))  # fmt: skip
        self.ours.load_state_dict(self.turned(self.theirs.state_dict()), strict=False)
        rng = torch.Generator().manual_seed(1)
        self.ids = torch.randint(4, V, (2, B, T), generator=rng)  # two windows
        self.segments = torch.randint(0, 3, (B, T), generator=rng)
        self.mask = torch.rand(B, T, T, generator=rng) < 0.5
        self.mask[:, :, 0] |= ~self.mask.any(dim=2)  # theirs looks at everything where it may look at nothing
        self.targets = torch.stack([torch.randperm(T, generator=rng)[:P] for _ in range(B)])
        self.ids[1, 1, :padding] = PAD
        self.mask[1, :, padding] = True
        self.targets[1] = padding + torch.randperm(T - padding, generator=rng)[:P] if padding else self.targets[1]
        self.real = self.ids[1] != PAD

    def turned(self, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        named = {plain(name, XLNET.prefix): tensor for name, tensor in theirs.items() if name != "lm_loss.weight"}
        found = our_weights(XLNET, named, None, range(V), 0, "")
        return {**found, "projection.weight": found["tokens.weight"]}

    def both(self, memory: bool, two: bool) -> tuple[Any, Any, Tensor]:
        """What theirs and ours say to the second window, after the first if they have a memory; our streams."""
        theirs, ours = {"attention_mask": self.real.float()}, {}
        if memory:
            theirs["mems"], ours["state"] = self.theirs(self.ids[0]).mems, self.ours(self.ids[0]).state
        if two:
            theirs |= {"perm_mask": (~self.mask).float(),
                       "target_mapping": torch.nn.functional.one_hot(self.targets, T).float()}  # fmt: skip
            ours |= {"mask": self.mask & self.real[:, None], "targets": self.targets}
        theirs = self.theirs(self.ids[1], token_type_ids=self.segments, output_hidden_states=True, **theirs)
        ours |= {"segments": self.segments}
        return theirs, self.ours(self.ids[1], **ours), self.ours.encode(self.ids[1], **ours)


def furthest(theirs: Any, ours: Any, whole: Tensor, two: bool, real: Tensor) -> float:
    """Over the last hidden states of both streams, the logits, and what is remembered, all of real tokens (B, T)."""
    last = torch.cat(theirs.hidden_states[-2:], dim=1) if two else theirs.hidden_states[-1]
    said = torch.ones(B, P, dtype=torch.bool) if two else real
    pairs = [(whole, last, torch.cat((real, said), dim=1) if two else real)]
    pairs += [(ours.hidden, theirs.hidden_states[-1], said), (ours.logits, theirs.logits, said)]
    for mine, other in zip(ours.state, theirs.mems, strict=True):
        pairs.append((mine, other.transpose(0, 1), real[:, -mine.size(1) :]))
    assert all(mine.shape == other.shape for mine, other, _ in pairs)
    return max(float((mine - other)[rows].detach().abs().max()) for mine, other, rows in pairs)


@pytest.mark.parametrize("padding", [0, 5])
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("two", [False, True])
def test_both_streams_and_the_memory(memory: bool, two: bool, padding: int) -> None:
    twins = Twins(padding)
    assert furthest(*twins.both(memory, two), two, twins.real) <= 1e-5


@pytest.mark.parametrize("memory", [False, True])
def test_the_loss_and_every_gradient(memory: bool) -> None:
    twins = Twins()
    theirs, ours, _ = twins.both(memory, True)
    labels = twins.ids[1].gather(1, twins.targets)
    labels[1, 2:] = PAD  # a row of fewer targets
    expected = torch.nn.functional.cross_entropy(theirs.logits[labels != PAD], labels[labels != PAD], reduction="sum")
    found = PermutationLM().loss(ours, Asked({"ids": twins.ids[1]}, labels, 0)).total
    assert abs(float((found - expected).detach())) <= 1e-5 * float(expected.detach())
    expected.backward()
    found.backward()
    grads = {name: p.grad for name, p in twins.theirs.named_parameters() if p.grad is not None}
    expected_of = twins.turned({**{n: torch.zeros_like(p) for n, p in twins.theirs.named_parameters()}, **grads})
    for name, parameter in twins.ours.named_parameters():
        assert parameter.grad is not None, name
        difference = (parameter.grad - expected_of[name]).abs().max()
        assert difference <= 1e-4 * max(1.0, float(expected_of[name].abs().max())), name


@pytest.mark.parametrize("name", ["query", "encoder.positions.1.u", "encoder.positions.0.segments",
                                  "encoder.blocks.1.attention.key.weight"])  # fmt: skip
def test_one_weight_with_another_sign_is_found(name: str) -> None:
    twins = Twins()
    with torch.no_grad():
        twins.ours.get_parameter(name).flatten()[0] *= -1
    assert furthest(*twins.both(True, True), True, twins.real) > 1e-5


def test_with_the_last_token_asked_for_it_is_an_ordinary_language_model() -> None:
    """What transformers' generation asks: the next token of a text, whatever stands in its place."""
    twins = Twins()
    ids, asked = twins.ids[1], torch.zeros(B, T, dtype=torch.bool)
    asked[:, -1] = True
    mask = PermutationLM(k=1).order(ids, asked, torch.rand(B, T))
    found = twins.ours(ids, mask=mask, targets=torch.full((B, 1), T - 1)).logits[:, -1]
    given = twins.theirs.prepare_inputs_for_generation(ids[:, :-1], use_mems=False)
    close(found, twins.theirs(**given).logits[:, 0])
