"""A model folder: config.json, tokenizer.json and model.safetensors; nothing else is needed to load it."""

from typing import TYPE_CHECKING

from qkv.folder.loaded import About as About
from qkv.folder.loaded import Loaded as Loaded
from qkv.folder.loaded import RunFolder as RunFolder
from qkv.folder.loaded import in_brief as in_brief
from qkv.folder.loaded import load as load
from qkv.folder.loaded import look as look
from qkv.folder.loaded import read_config as read_config
from qkv.folder.loaded import splits as splits
from qkv.late import late

if TYPE_CHECKING:
    from qkv.folder.building import fill as fill
    from qkv.folder.building import made as made
    from qkv.folder.building import origin as origin
    from qkv.folder.building import origin_of as origin_of
    from qkv.folder.building import save as save
    from qkv.folder.building import start_from as start_from
    from qkv.folder.building import weights as weights

NAMES = ("fill", "made", "origin", "origin_of", "save", "start_from", "weights")
__getattr__ = late(__name__, dict.fromkeys(NAMES, "building"))
