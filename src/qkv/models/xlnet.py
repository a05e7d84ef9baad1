"""XLNet, which learns every order of reading (Yang et al. 2019, "Generalized Autoregressive Pretraining")."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.attention import drawing, visible
from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import Activation, Embedding, NoProjection, Projection, Stack, StackConfig, init_normal
from qkv.models.bert import PRESETS  # base and large have BERT's sizes in the paper too
from qkv.models.model import Backbone, Outputs
from qkv.positions import Places
from qkv.text.frames import Frame
from qkv.text.tokenizer import BOS, PAD

ALONE = 2  # the segment of <s>, beside 0 and 1 of two texts (the authors' code)


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(StackConfig):
    """Yang et al. 2019, appendix A.4.1, and the released base model, unless said otherwise.

    Differs: no dropout of the attention weights, nor of the sinusoids; attention = "scaled_dot(dropout=0.1)" has the
    former. GELU is by tanh, as in the authors' code; transformers' is exact.
    """

    vocab_size: int = setting(32000, "size of the vocabulary (read from the tokenizer)")
    d_model: int = setting(768, "width of the vectors that pass between blocks")
    d_ff: int = setting(0, "width inside the feed-forward networks; 0 for 4 * d_model")
    n_heads: int = setting(12, "attention heads; d_model must be divisible by it")
    activation: Activation = setting("gelu_tanh", "inside the feed-forward networks: relu, gelu, gelu_tanh or swish")
    eps: float = setting(1e-12, "added to the variance in layer norms")
    position: str = setting("transformer_xl(segments=True)", "any name that `qkv list positions` prints, e.g. rotary")
    max_length: int = setting(512, "longest text in tokens that the model takes")
    layers: int = setting(12, "blocks")
    memory: int = setting(0, "tokens of the windows before that each block remembers; 0 for none (the paper: 384)")
    predicts: bool = setting(True, "whether it has what predicts hidden words")

    fused = True
    segments: ClassVar[int] = ALONE + 1
    OTHER = (*StackConfig.OTHER, "memory")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 0:
            raise InputError(f"memory must be a number of tokens, or 0 for none, not {self.memory}")


class XLNet(Backbone):
    """Yang et al. 2019, section 2.3: two streams through the same blocks. The content h_i of a token sees all that
    comes before it in an order of reading, and itself; the query g_i, which begins as a vector w that all share, sees
    the same keys but not the token, and knows its place. What stands at i is predicted by g_i.

    Both are rows of one tensor, the queries behind the contents, and keys are made of contents alone. Places are those
    of Transformer-XL (section 2.4), to which come segments as relations (section 2.5): a token knows whether another
    stands in its segment, not in which. A text is read as A </s> <s>, two as A </s> B </s> <s>: <s>, the paper's <cls>,
    is last. Weights are drawn from N(0, 0.02).

    Differs: the authors pad on the left. Here padding may stand on either side: no real token sees it, and places are
    relative.
    """

    config_class = XLNetConfig
    presets = PRESETS
    config: XLNetConfig
    learns_by, sub_words = "permutation_lm", "unigram"
    shown = "{c.layers} layers, {c.n_heads} heads, dropout {c.dropout}, context {c.max_length}{c.unusual}"
    frame = Frame((), ("</s>",), ("</s>", "<s>"))
    dense = True

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__(config)
        self.tokens = Embedding(config.vocab_size, config.d_model, scale=1.0)
        self.query = nn.Parameter(nn.init.normal_(torch.empty(config.d_model), std=0.02))  # w
        self.encoder = Stack(config, layers=config.layers)
        self.encoder.refuse_trees("texts")
        self.encoder.refuse_whole("an order of reading hides some of them")
        self.projection: Any = NoProjection()
        if config.predicts:
            self.projection = Projection(config.vocab_size, config.d_model, tied=self.tokens, bias=True)
        init_normal(self)

    def forward(self, ids: Tensor, **given: Any) -> Outputs:
        """Token ids (B, T) and what else `encode` reads: what it gives, or where there are targets, their queries alone
        (B, P, D); and the state to go on from."""
        with drawing() as choices:
            hidden, state = self.read(ids, remember=self.config.memory, whole=False, **given)
        return Outputs(hidden, self.projection, choices, state=state)

    def encode(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None,
        targets: Tensor | None = None, state: tuple[Tensor, ...] = (),
    ) -> Tensor:  # fmt: skip
        """The contents (B, T, D), and behind them the queries at the places `targets` (B, P): (B, T + P, D).

        A `mask` of pairs (B, T, T) says what each query sees; a content sees itself too. Without one, nothing sees the
        targets: they are holes in the text. `state` is what the blocks have read of the text before (section 2.4).
        """
        return self.read(ids, segments=segments, mask=mask, targets=targets, state=state)[0]

    def read(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None,
        targets: Tensor | None = None, state: tuple[Tensor, ...] = (), remember: int = 0, whole: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
        """What `encode` gives, if not the `whole` then without contents, which the last block need not compute; and for
        each block what it has read, of which nothing learns: the last `remember` contents (B, M, D)."""
        before, length = state[0].size(1) if state else 0, ids.size(1)
        at, seen = Places.span(before, before + length, ids.device), self.seen(ids, mask, targets)
        x, own = self.tokens(ids), torch.zeros_like(ids) if segments is None else segments
        segments = own = own.masked_fill(ids == BOS, ALONE)
        if targets is not None:
            x = torch.cat((x, self.query.expand(*targets.shape, -1)), dim=1)  # (B, T + P, D)
            at = replace(at, query=torch.cat((at.query.expand_as(ids), before + targets), dim=1))
            own = torch.cat((own, own.gather(1, targets)), dim=1)
        # What is remembered counts as the first segment (the authors' code).
        at = replace(at, same=own[:, :, None] == F.pad(segments, (before, 0))[:, None])
        if targets is None and not state and not remember:
            return self.encoder(x, at, seen), ()
        remembered = list[Tensor]()

        def keys(block: int, x: Tensor) -> Tensor:
            found = torch.cat((state[block], x[:, :length]), dim=1) if state else x[:, :length]
            remembered.append(found[:, -remember:].detach())
            return found

        seen = None if seen is None else F.pad(seen, (before, 0), value=True)
        hidden = self.encoder(x, at, seen, keys=keys, unasked=0 if whole or targets is None else length)
        return hidden, tuple(remembered) if remember else ()

    def seen(self, ids: Tensor, mask: Tensor | None, targets: Tensor | None) -> Tensor | None:
        """What each row of x sees of the text: (B, 1, T or T + P, T), (B, 1, 1, T), or None for all of it."""
        seen, is_pairs = visible(ids, mask, PAD), mask is not None and mask.dim() == 3
        itself = torch.eye(ids.size(1), dtype=torch.bool, device=ids.device)
        if targets is None:
            return seen | itself if seen is not None and is_pairs else seen
        if seen is None or not is_pairs:
            text = torch.ones_like(ids, dtype=torch.bool).scatter(1, targets, False)[:, None, None]
            seen = (text if seen is None else text & seen).expand(-1, -1, ids.size(1), -1)
        queries = seen.gather(2, targets[:, None, :, None].expand(-1, -1, -1, ids.size(1)))
        return torch.cat((seen | itself, queries), dim=2)

    def at_holes(self, ids: Tensor, holes: Tensor) -> Outputs:
        """The queries at the holes, which nothing sees."""
        targets, real = places_of(holes)
        outputs = self(ids, targets=targets)
        return replace(outputs, hidden=outputs.hidden[real])


def places_of(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Where flags (B, T) are True, in their order (B, P), and which of these are: a row of fewer repeats its first."""
    order = flags.int().argsort(dim=1, descending=True, stable=True)[:, : int(flags.sum(dim=1).max())]
    real = flags.gather(1, order)
    return torch.where(real, order, order[:, :1]), real
