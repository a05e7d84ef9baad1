"""The pictures of the lecture notes: each is one function that gives a figure and the numbers drawn in it."""

from collections.abc import Callable

from qkv.look import animation, architecture
from qkv.look.gallery import parts, sentences
from qkv.look.picture import Given, Picture, check_ending

# `qkv picture` adds those whose numbers are measured in rooms above this one.
PICTURES: dict[str, Callable[[Given], Picture]] = {
    "heat-map": sentences.heat_map,
    "heads": sentences.heads,
    "jane": sentences.jane,
    "positions": parts.positions,
    "gram": parts.gram,
    "rotation": parts.rotations,
    "masks": parts.masks,
    "bigbird": parts.bigbird,
    "patterns": parts.patterns,
    "xlnet": parts.xlnet,
    "architecture": architecture.architecture,
    "steps": parts.qkv_steps,
    "two-words": parts.two_words,
    "decoding": animation.decoding,
    "seq2seq": animation.seq2seq,
    "landscape": parts.landscape,
    "shopping": sentences.shopping,
    "norms": parts.norms,
}
ANIMATIONS = {"decoding", "seq2seq"}
