"""qkv (queries, keys, values): train a Transformer on your own sentence pairs, translate with it, look inside it."""

from qkv.memory import no_collection

with no_collection():  # torch is here 0.2 s sooner
    from qkv.decoding import Translated, Translator
    from qkv.engines import load_translator as load
    from qkv.errors import InputError
    from qkv.look import record_attention
    from qkv.tasks import train
    from qkv.training import Trained

__version__ = "0.1.0"

__all__ = ["InputError", "Trained", "Translated", "Translator", "load", "record_attention", "train"]
