"""The models and sentences that decoding is tested with: engines must find the same."""

import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("decoding_kit", Path(__file__).parents[1] / "decoding" / "conftest.py")
assert spec is not None
assert spec.loader is not None
kit = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kit)
model, make_model, sources, pad = kit.model, kit.make_model, kit.sources, kit.pad
