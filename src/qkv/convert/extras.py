"""Libraries that only some commands need: imported where they are used, asked for in one sentence."""

import importlib
from typing import Any

from qkv.errors import InputError


def need(module: str, install: str) -> Any:
    """The module, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f'{module} is needed for this and is not installed; run: pip install "{install}"') from None
