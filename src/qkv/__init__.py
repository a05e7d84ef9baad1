"""qkv (queries, keys, values): train a Transformer on your own sentence pairs, translate with it, look inside it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Each public name and where it is. It is imported when it is first used, and torch with it: `import qkv` is light.
NAMES = {
    "Classifier": "qkv.tasks",
    "Embedder": "qkv.tasks",
    "Generated": "qkv.decoding",
    "Generator": "qkv.decoding",
    "InputError": "qkv.errors",
    "Trained": "qkv.training",
    "Translated": "qkv.decoding",
    "Translator": "qkv.decoding",
    "compare": "qkv.comparing",
    "load": "qkv.opening",
    "record_attention": "qkv.look",
    "register": "qkv.parts",
    "train": "qkv.training",
}

if TYPE_CHECKING:  # the same for readers of types
    from qkv.comparing import compare as compare
    from qkv.decoding import Generated as Generated
    from qkv.decoding import Generator as Generator
    from qkv.decoding import Translated as Translated
    from qkv.decoding import Translator as Translator
    from qkv.errors import InputError as InputError
    from qkv.look import record_attention as record_attention
    from qkv.opening import load as load
    from qkv.parts import register as register
    from qkv.tasks import Classifier as Classifier
    from qkv.tasks import Embedder as Embedder
    from qkv.training import Trained as Trained
    from qkv.training import train as train

__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    """PEP 562: a public name that nobody has used yet."""
    if name not in NAMES:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
