"""Logits -> text: greedy and beam search, sampling, and the translator that is made of them."""

from qkv.decoding.beam import beam_search
from qkv.decoding.engine import Engine, Native, Search, padded
from qkv.decoding.engines import ENGINES
from qkv.decoding.greedy import greedy, sample
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.decoding.translator import Translated, Translator

__all__ = [
    "ENGINES",
    "Engine",
    "Hypothesis",
    "Native",
    "Search",
    "Translated",
    "Translator",
    "beam_search",
    "greedy",
    "length_penalty",
    "padded",
    "sample",
]
