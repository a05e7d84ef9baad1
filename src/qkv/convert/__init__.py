"""Other people's weights <-> ours: CTranslate2, ONNX and Hugging Face's folders."""

from qkv.convert.adopt import adopt
from qkv.convert.export import EXPORTS, digest, exporting, mark
from qkv.convert.families import FAMILIES, their_task
from qkv.convert.foreign import Converted
from qkv.convert.hugging_face import family_of, heads_held
from qkv.convert.onnx import OnnxModel
from qkv.convert.packages import find_package
from qkv.convert.plain import need
