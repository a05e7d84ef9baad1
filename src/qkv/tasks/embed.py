"""Embedding: a text in, a vector out, by any backbone."""

from dataclasses import dataclass

from qkv.config import setting
from qkv.device import ENGINE
from qkv.folder import Loaded
from qkv.tasks.embedder import Embedder
from qkv.tasks.on_backbone import BackboneConfig, OnBackbone
from qkv.text.frames import Pool


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(BackboneConfig):
    """How a text becomes a vector; the keys that a model folder's config.json may have."""

    normalise: bool = setting(False, "make every vector have the length 1")
    lowercase: bool = setting(False, "read capital letters as small ones")


class Embed(OnBackbone):
    """Reimers and Gurevych 2019 (Sentence-BERT), section 3: the pooled states of a backbone are the vector of a text.

    Any backbone does it as it is; nothing is learned for it here, so that it is among USES and not among TASKS.
    """

    name = "embed"
    data_class = EmbedConfig
    files = "texts, one on each line"
    asks = "qkv embed sentences.txt"

    def open(
        self, loaded: Loaded, *, engine: str = ENGINE, pool: Pool | None = None, normalise: bool | None = None
    ) -> Embedder:
        return Embedder(self, loaded, engine=engine, pool=pool, normalise=normalise)
