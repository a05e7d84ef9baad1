"""Other people's weights <-> ours: CTranslate2, ONNX and Hugging Face's folders."""

from qkv.convert.export import EXPORTS, digest, exporting, mark
from qkv.convert.extras import need
from qkv.convert.foreign import Foreign
from qkv.convert.hugging_face import NORMS, Converted, read_hugging_face
from qkv.convert.onnx import OnnxModel

__all__ = [
    "EXPORTS",
    "NORMS",
    "Converted",
    "Foreign",
    "OnnxModel",
    "digest",
    "exporting",
    "mark",
    "need",
    "read_hugging_face",
]
