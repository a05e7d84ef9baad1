"""Comparing: variations of one recipe, trained for the same budget, in one table."""

from qkv.comparing.run import Comparison, compare
