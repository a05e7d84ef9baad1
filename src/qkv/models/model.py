"""What training and decoding ask of a model, whatever its architecture."""

import re
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor, nn

from qkv.attention import Choice, drawing
from qkv.config import Tree
from qkv.layers import Embedding, Projection
from qkv.positions import Places
from qkv.text.frames import ENDS, Frame, Pool
from qkv.text.tokenizer import BOS, Tokenizer


@dataclass(frozen=True)
class Outputs:
    """Hidden states (B, T, D) and the projection, if there is one, that turns them into logits (B, T, V).

    Kept apart, so that a loss can project a few rows at a time; `logits` projects all of them.
    """

    hidden: Tensor
    projection: Projection
    choices: list[Choice]  # what hard attentions have drawn
    state: tuple[Tensor, ...] = field(default=(), kw_only=True)  # after the last token, to go on from

    @property
    def logits(self) -> Tensor:
        return self.projection(self.hidden)


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
    shown: ClassVar[str]  # what `sizes` says, with {c} for the settings
    begins_with: ClassVar[tuple[type[Any], ...]] = ()  # settings of other models whose weights it can begin with
    reads_text: ClassVar[bool] = True  # whether its tokenizer is that of what it reads, and belongs to its weights
    new_rows: ClassVar[Literal["drawn", "mean"]] = "drawn"  # of words that a model to start from does not have
    learns_by: ClassVar[str] = ""  # the objective of running text in its paper, by name; "" for that of the task
    sub_words: ClassVar[str] = ""  # the tokenizer of its paper, likewise
    config: Any

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def fitting(cls, tokenizer: Tokenizer) -> Tree:
        """Settings that follow from the vocabulary, beside its size."""
        return {}

    def inputs(self) -> set[str]:
        """The names of what it reads."""
        return set(signature(self.forward).parameters)

    def know(self, tokenizer: Tokenizer) -> None:
        """Be told whose ids it reads: most models need not know, but one that reads letters must."""

    def sizes(self) -> str:
        """The sizes that a person wants to see at a glance."""
        shown = f"d_model {self.config.d_model}, {self.shown.format(c=self.config)}"
        return re.sub(r"(?<=, 1 )(layer|head)s\b", r"\1", shown)


class SequenceToSequence(Model, Writes):
    """A model that reads one text and writes another. Lengths are in tokens; a source is counted without its end."""

    @classmethod
    def context(cls, source: int, target: int) -> int:
        """The max_length that a source and a target of these lengths need, neither counted with its ends."""
        return max(source, target) + 2

    @property
    def longest_source(self) -> int:
        """What it can read and still write on."""
        return int(self.config.max_length) - 1

    def room(self, source: int) -> int:
        """What it can write, the end included, after a source of that length."""
        return int(self.config.max_length) - 1


class EncoderDecoder(SequenceToSequence):
    """An encoder that reads, and a decoder that writes; `tied` says which of their three tables of words are one."""

    vocabulary: Projection

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.source = Embedding(config.vocab_size, config.d_model)
        self.target = self.source if config.tied == "all" else Embedding(config.vocab_size, config.d_model)

    def output(self) -> Projection:
        """From hidden states to the vocabulary: what a model makes last."""
        c, tied = self.config, None if self.config.tied == "none" else self.target
        return Projection(c.vocab_size, c.d_model, tied=tied, bias=c.output_bias)

    def forward(self, src: Tensor, tgt: Tensor) -> Outputs:
        """Source ids (B, S) and target ids (B, T), both padded: for each target token, what should come next."""
        with drawing() as choices:
            hidden = self.decode(tgt, self.read(src))
        return Outputs(hidden, self.vocabulary, choices)

    def start(self, given: Tensor) -> tuple[Tensor, Any]:
        return given.new_full((len(given),), BOS), self.read(given)

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        return self.vocabulary(self.decode(tokens[:, None], state)[:, -1])

    def decode(self, tgt: Tensor, state: Any) -> Tensor:
        """The next target ids (B, T) -> hidden states (B, T, D); the state moves on."""
        start, state.length = state.length, state.length + tgt.size(1)
        return self.write(self.target(tgt), Places.span(start, state.length, tgt.device, causal=True), state)

    def read(self, src: Tensor) -> Any:
        """Source ids (B, S) -> the state before the first target token."""
        raise NotImplementedError

    def write(self, x: Tensor, at: Places, state: Any) -> Tensor:
        """Embedded target tokens (B, T, D), where they stand, and the state -> hidden states (B, T, D)."""
        raise NotImplementedError


class Backbone(Model):
    """A model that says something of each token of a text: what heads stand on (models/headed.py)."""

    frame: ClassVar[Frame] = ENDS  # what stands around a text
    pool: ClassVar[Pool] = "last"  # which token's state stands for a text,
    dense: ClassVar[bool] = False  # and whether a layer with tanh comes before a head on it
    specials: ClassVar[tuple[str, ...]] = ()  # named tokens that it needs, beside those of its frame
    marks: ClassVar[tuple[str, ...]] = ()  # special tokens that a person may write around words of a text
    class_head: ClassVar[str] = "classes"  # the head that names classes, unless another is asked for
    endless: ClassVar[bool] = False  # whether it reads on from the state that the text before has left

    def inputs(self) -> set[str]:
        return set(signature(self.encode).parameters)

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

    def at_holes(self, ids: Tensor, holes: Tensor) -> Outputs:
        """What it says (N, D) at the N holes of texts: `holes` (B, T) is True where <mask> stands."""
        outputs: Outputs = self(ids)
        return replace(outputs, hidden=outputs.hidden[holes])


class CausalBackbone(Backbone, Writes):
    """A backbone whose tokens see only what stands before them, so that it can write on."""

    def forward(self, ids: Tensor, mask: Tensor | None = None, documents: Tensor | None = None) -> Outputs:
        """Token ids (B, T): for each, what should come next.

        `documents` (B, T) numbers the documents that share a row: none sees another, and each begins at place 0.
        """
        raise NotImplementedError


def count_parameters(model: nn.Module) -> int:
    """Every weight once, however many names share it."""
    return sum(p.numel() for p in model.parameters())
