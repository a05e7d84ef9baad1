"""Where a token is: the position encodings, each one file, chosen by the names in POSITIONS."""

from qkv.positions.alibi import ALiBi
from qkv.positions.learned import Learned
from qkv.positions.position import NO_POSITION, Places, Position, Sizes, Tree
from qkv.positions.rotary import Rotary
from qkv.positions.shaw import Shaw
from qkv.positions.sinusoidal import Sinusoidal
from qkv.positions.t5 import T5
from qkv.positions.transformer_xl import TransformerXL
from qkv.positions.tree import Structural, StructuralRelative, depths, inherit, pad_trees, relations

POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "shaw": Shaw,
    "structural": Structural,
    "structural_relative": StructuralRelative,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5,
    "transformer_xl": TransformerXL,
}

__all__ = [
    "NO_POSITION",
    "POSITIONS",
    "T5",
    "ALiBi",
    "Learned",
    "Places",
    "Position",
    "Rotary",
    "Shaw",
    "Sinusoidal",
    "Sizes",
    "Structural",
    "StructuralRelative",
    "TransformerXL",
    "Tree",
    "depths",
    "inherit",
    "pad_trees",
    "relations",
]
