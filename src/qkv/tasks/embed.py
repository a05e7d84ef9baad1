"""Embedding: a text in, a vector out, by any backbone."""

from dataclasses import dataclass

from qkv.config import setting
from qkv.device import ENGINE
from qkv.engines.embedder import Embedder
from qkv.folder import Loaded
from qkv.models import Backbone
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
        assert issubclass(self.model, Backbone)
        return Embedder(
            loaded, frame=self.model.frame, most=self.bounds(loaded.model.config)["max_length"], engine=engine,
            pool=pool or self.data.pool or None, lowercase=self.data.lowercase,
            normalise=self.data.normalise if normalise is None else normalise,
        )  # fmt: skip
