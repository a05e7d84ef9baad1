"""What training and decoding ask of a model, whatever its architecture."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from qkv.attention import Choice
from qkv.layers import Projection


@dataclass(frozen=True)
class Outputs:
    """Hidden states (B, T, D) and the projection that turns them into logits (B, T, V).

    Kept apart, so that a loss can project a few rows at a time; `logits` projects all of them.
    """

    hidden: Tensor
    projection: Projection
    choices: list[Choice] = field(default_factory=list)  # what hard attentions have drawn

    @property
    def logits(self) -> Tensor:
        projected: Tensor = self.projection(self.hidden)
        return projected


class State(Protocol):
    """What a model remembers between decoding steps; row i belongs to hypothesis i."""

    def reorder(self, rows: Tensor) -> None: ...


class Writes(Protocol):
    """A model that writes one token after another."""

    def start(self, given: Tensor) -> tuple[Tensor, State]:
        """Read what is given: the first tokens to go on from (B,), and the state before them.

        An encoder-decoder is given source ids (B, S), padded at the right, and begins with <s>. A model of one stack
        is given prompts (B, T), padded at the left, of at least one token, and begins with the last token of each.
        """
        ...

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """The last token of each hypothesis (B,) -> logits of the next one (B, V); the state moves on."""
        ...


class Model(nn.Module):
    """Made from its settings alone. `forward` takes the named inputs that an objective prepares."""

    config_class: ClassVar[type[Any]]
    presets: ClassVar[dict[str, dict[str, Any]]] = {}  # names of sizes -> settings
    config: Any

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def sizes(self) -> str:
        """The sizes that a person wants to see at a glance."""
        raise NotImplementedError


class EncoderDecoder(Model):
    """A model that reads one text and writes another: `Writes`."""

    def forward(self, src: Tensor, tgt: Tensor) -> Outputs:
        """Source ids (B, S) and target ids (B, T), both padded: for each target token, what should come next."""
        raise NotImplementedError

    def start(self, given: Tensor) -> tuple[Tensor, State]:
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        raise NotImplementedError


class Backbone(Model):
    """A model that says something of each token of a text: what heads stand on (models/headed.py)."""

    @property
    def width(self) -> int:
        """D of what `encode` gives."""
        return int(self.config.d_model)

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Token ids (B, T), padded with PAD on the right -> hidden states (B, T, D). No real token sees padding.

        `segments` (B, T) numbers the parts of a text; a backbone that has no vectors for them does not read them.
        `mask` is True at real tokens, (B, T), or where a token may look, (B, T, S).
        """
        raise NotImplementedError


class CausalBackbone(Backbone):
    """A backbone whose tokens see only what stands before them, so that it can write on: `Writes`."""

    def forward(self, ids: Tensor, mask: Tensor | None = None, documents: Tensor | None = None) -> Outputs:
        """Token ids (B, T): for each, what should come next.

        `documents` (B, T) numbers the documents that share a row: none sees another, and each begins at place 0.
        """
        raise NotImplementedError

    def start(self, given: Tensor) -> tuple[Tensor, State]:
        raise NotImplementedError

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        raise NotImplementedError
