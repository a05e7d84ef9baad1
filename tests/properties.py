"""What must hold of every translator and of all that writes: each property is asserted here, once for all tests."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kit import along, close
from qkv.attention import SCORES, Soft

OTHER_ROWS = torch.tensor([2, 0, 0, 3, 1])


def is_without_effect(model: nn.Module, name: str) -> bool:
    """Location does not read keys; and softmax does not see a key's bias, which is the same for all keys of a query."""
    if ".key." not in name:
        return False
    part = getattr(model.get_submodule(name.rsplit(".", 2)[0]), "attend", None)
    ignores_keys = isinstance(part, Soft) and type(part.score) is SCORES["location"]
    return ignores_keys or name.endswith("bias")


def every_parameter_has_a_gradient(model: nn.Module, share: float = 1e-6) -> None:
    """After a backward pass: all are finite, and none so small beside the largest that it may be rounding."""
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    largest = max(p.grad.abs().max().item() for p in learning.values() if p.grad is not None)
    for name, parameter in learning.items():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
        if not is_without_effect(model, name):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > share * largest, name


def the_future_never_leaks(
    logits_of: Callable[[Tensor], Tensor], ids: Tensor, vocabulary: int, atol: float = 0.0
) -> None:
    """Other words from t on change what is said at t, in every row, and nothing before it."""
    clean = logits_of(ids)
    for t in range(1, ids.size(1)):
        changed = ids.clone()
        changed[:, t:] = 4 + (ids[:, t:] + 11) % (vocabulary - 4)
        found = logits_of(changed)
        close(found[:, :t], clean[:, :t], atol)
        assert ((found[:, t] - clean[:, t]).abs().amax(dim=-1) > 100 * atol).all()


def a_row_alone_is_the_row_in_a_batch(model: Any, src: Tensor, tgt: Tensor) -> None:
    together = model(src, tgt).logits
    for row in range(len(src)):
        own_src, own_tgt = src[row][src[row] != 0][None], tgt[row][tgt[row] != 0][None]
        close(model(own_src, own_tgt).logits[0], together[row, : own_tgt.size(1)])


def steps_equal_the_whole(model: Any, src: Tensor, tgt: Tensor) -> Any:
    """One token at a time; the state after the last of them."""
    _, state = model.start(src)
    steps = torch.stack([model.step(tgt[:, t], state) for t in range(tgt.size(1))], dim=1)
    close(steps, model(src, tgt).logits)
    return state


def a_reordered_state_goes_on_with_other_rows(model: Any, src: Tensor, tgt: Tensor) -> None:
    _, state = model.start(src)
    for t in range(3):
        model.step(tgt[:, t], state)
    state.reorder(OTHER_ROWS)
    steps = torch.stack([model.step(tgt[OTHER_ROWS, t], state) for t in range(3, tgt.size(1))], dim=1)
    close(steps, model(src[OTHER_ROWS], tgt[OTHER_ROWS]).logits[:, 3:])


def a_source_of_nothing_but_padding_harms_nobody(model: Any, src: Tensor, tgt: Tensor) -> None:
    """Its attention has nothing to look at: zeros, no nan, and no harm to its neighbours."""
    clean = model(src, tgt).logits
    logits = model(src.index_fill(0, torch.tensor([1]), 0), tgt).logits
    others = torch.tensor([0, 2, 3])
    assert logits.isfinite().all()
    close(logits[others], clean[others])
    (logits * along(logits)).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
