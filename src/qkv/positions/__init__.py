"""Where a token is: the position encodings, chosen by the names in POSITIONS."""

from qkv.positions.absolute import Learned, Rotary, Sinusoidal
from qkv.positions.position import NO_POSITION, Places, Position, Sizes, Tree
from qkv.positions.relative import T5, ALiBi, Shaw, TransformerXL
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
