"""What every objective hands over: a question that can be moved to a device, whatever it is made of."""

from typing import NamedTuple

import torch

from kit import batch
from qkv.data import Place, generator
from qkv.objectives import Asked, Heads
from qkv.objectives.objective import moved
from qkv.positions import Tree


class Pair(NamedTuple):
    """Two tensors with names."""

    left: torch.Tensor
    right: torch.Tensor


def test_whatever_holds_tensors_is_moved() -> None:
    tensor = torch.ones(2)
    inputs = {"ids": tensor, "list": [tensor, 3], "tuple": (tensor, None), "pair": Pair(tensor, tensor), "name": "x"}
    found = Asked(inputs, (tensor, [tensor]), 5).to("meta")
    assert found.count == 5
    assert found.inputs["ids"].device.type == "meta"
    assert isinstance(found.inputs["list"], list)
    assert (found.inputs["list"][0].device.type, found.inputs["list"][1]) == ("meta", 3)
    assert (found.inputs["tuple"][0].device.type, found.inputs["tuple"][1]) == ("meta", None)
    assert isinstance(found.inputs["pair"], Pair)
    assert found.inputs["pair"].right.device.type == "meta"
    assert found.inputs["name"] == "x"
    assert (found.labels[0].device.type, found.labels[1][0].device.type) == ("meta", "meta")
    assert tensor.device.type == "cpu"


def test_trees_are_moved_too() -> None:
    asked = Heads().prepare(batch([[7, 8], [0, 1], [0, 1]]), generator(0, Place())).to("meta")
    assert isinstance(asked.inputs["tree"], Tree)
    tree = asked.inputs["tree"]
    assert (tree.depth.device.type, tree.relation.device.type) == ("meta", "meta")
    assert moved(None, "meta") is None
