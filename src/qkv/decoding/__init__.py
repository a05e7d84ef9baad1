"""Logits -> text: greedy and beam search, sampling; translators, generators and summarisers made of them."""

from qkv.decoding.beam import beam_search
from qkv.decoding.engine import Engine, Plain, Search, padded
from qkv.decoding.generator import Generated, Generator
from qkv.decoding.greedy import greedy
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.decoding.sampling import sample
from qkv.decoding.searcher import Searcher
from qkv.decoding.summariser import Summariser, Summary
from qkv.decoding.translator import Translated, Translator
