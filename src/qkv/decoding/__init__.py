"""Logits -> text: greedy and beam search, sampling; translators, generators and summarisers made of them."""

from typing import TYPE_CHECKING

from qkv.decoding.engine import Engine as Engine
from qkv.decoding.engine import Search as Search
from qkv.decoding.hypothesis import Hypothesis as Hypothesis
from qkv.decoding.hypothesis import length_penalty as length_penalty
from qkv.decoding.searcher import Searcher as Searcher
from qkv.decoding.translator import Translated as Translated
from qkv.decoding.translator import Translator as Translator
from qkv.late import late

if TYPE_CHECKING:
    from qkv.decoding.beam import beam_search as beam_search
    from qkv.decoding.generator import Generated as Generated
    from qkv.decoding.generator import Generator as Generator
    from qkv.decoding.plain import Plain as Plain
    from qkv.decoding.plain import padded as padded
    from qkv.decoding.sampling import sample as sample
    from qkv.decoding.summariser import Summariser as Summariser
    from qkv.decoding.summariser import Summary as Summary

# What computes with torch; the search `greedy` is qkv.decoding.greedy.greedy, since its module has the name here.
__getattr__ = late(__name__, {
    "Generated": "generator", "Generator": "generator", "Plain": "plain", "Summariser": "summariser",
    "Summary": "summariser", "beam_search": "beam", "padded": "plain", "sample": "sampling",
})  # fmt: skip
