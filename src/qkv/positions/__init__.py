"""Where a token is: the position encodings, each one file, chosen by the names in POSITIONS."""

from qkv.positions.learned import Learned
from qkv.positions.places import Places, Tree
from qkv.positions.position import NO_POSITION, Position, Sizes
from qkv.positions.sinusoidal import Sinusoidal

POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
}

__all__ = ["NO_POSITION", "POSITIONS", "Learned", "Places", "Position", "Sinusoidal", "Sizes", "Tree"]
