"""Small models to search with, and sentences for them."""

from searches import make_model, model, pad, sources

__all__ = ["make_model", "model", "pad", "sources"]
