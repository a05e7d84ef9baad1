"""The pictures of the lecture notes: each is one function that gives a figure and the numbers drawn in it."""

from collections.abc import Callable

from qkv.look.animation import decoding, seq2seq
from qkv.look.architecture import architecture
from qkv.look.gallery.masks import bigbird, masks, xlnet
from qkv.look.gallery.parts import landscape, norms, qkv_steps, two_words
from qkv.look.gallery.positions import gram, positions, rotations
from qkv.look.gallery.sentences import heads, heat_map, jane, shopping
from qkv.look.picture import Given, Picture, check_ending

__all__ = ["ANIMATIONS", "PICTURES", "Given", "Picture", "check_ending"]

Draw = Callable[[Given], Picture]

# `qkv picture` adds those whose numbers are measured in rooms above this one.
PICTURES: dict[str, Draw] = {
    "heat-map": heat_map,
    "heads": heads,
    "jane": jane,
    "positions": positions,
    "gram": gram,
    "rotation": rotations,
    "masks": masks,
    "bigbird": bigbird,
    "xlnet": xlnet,
    "architecture": architecture,
    "steps": qkv_steps,
    "two-words": two_words,
    "decoding": decoding,
    "seq2seq": seq2seq,
    "landscape": landscape,
    "shopping": shopping,
    "norms": norms,
}
ANIMATIONS = {"decoding", "seq2seq"}
