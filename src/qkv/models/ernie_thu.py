"""ERNIE of Tsinghua, a BERT that is told what names stand for (Zhang et al. 2019, "ERNIE: Enhanced Language
Representation with Informative Entities")."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from qkv.attention import MultiHead
from qkv.config import setting
from qkv.errors import InputError
from qkv.layers import Block, Prediction, Residual, Stack, init_normal
from qkv.models.bert import Bert, BertConfig
from qkv.models.entities import Entities, EntitiesConfig, Names
from qkv.models.transe import TransEConfig
from qkv.positions import Places, Position
from qkv.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ErnieThuConfig(BertConfig, EntitiesConfig):
    """Zhang et al. 2019, section 4, unless said otherwise: BERT base, of which the upper half are aggregators."""

    aggregators: int = setting(0, "of the blocks, the last that also read entities; 0 for half of them")
    entity_heads: int = setting(4, "attention heads over entities; d_entity must be divisible by it")

    OTHER = (*BertConfig.OTHER, "aggregators")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.aggregators <= self.layers:
            raise InputError(f"aggregators must be 0 to {self.layers}, some of the layers, not {self.aggregators}")
        if self.d_entity % self.entity_heads:
            raise InputError(f"d_entity={self.d_entity} is not divisible by entity_heads={self.entity_heads}")

    @property
    def first_aggregator(self) -> int:
        return self.layers - (self.aggregators or (self.layers + 1) // 2)


class Aggregator(Block):
    """Zhang et al. 2019, section 3.3: a block of BERT in which tokens and entities meet. Both look at themselves, and
    for a token w with its entity e, or without one, where e is 0:

        h = f(W_t w + W_e e + b),    w' = W_t' h + b_t,    e' = W_e' h + b_e.

    A residual and a norm stand around each part, as in the authors' code, and f is within alone. The `last` one says
    nothing of entities any more, since nobody reads it. The parts for tokens bear the names of BERT's.

    Differs: in the authors' code the first aggregator has no attention over entities, tokens without one get a bias for
    it too, and the first token counts as if it had one, so that entities always have something to look at.
    """

    def __init__(self, c: ErnieThuConfig, layer: int, *, last: bool) -> None:
        super().__init__(c, layer=layer)
        narrow = replace(c, d_model=c.d_entity, n_heads=c.entity_heads, d_k=0)
        self.entity_attention = MultiHead(narrow, attention=c.attention_of("encoder", layer))
        self.entity_residual = Residual(c.d_entity, c.dropout, c.norm, c.eps)
        self.entity_expand = nn.Linear(c.d_entity, c.inner_width, bias=False)
        self.entity_contract = None if last else nn.Linear(c.inner_width, c.d_entity)
        self.fusion_residual = None if last and c.norm == "post" else Residual(c.d_entity, c.dropout, c.norm, c.eps)

    def forward(  # type: ignore[override]
        self, x: Tensor, e: Tensor, linked: Tensor, at: Places, position: Position, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Tokens (B, T, D), the entity of each (B, T, d_entity), 0 where `linked` (B, T) is not; the same after it."""
        x = self.attention_residual(x, lambda x: self.attention(x, at, mask=mask, position=position))
        there = linked[:, :, None]
        e = self.entity_residual(e, lambda e: self.entity_attention(e, at, mask=linked[:, None, None])) * there
        read = e if self.fusion_residual is None else self.fusion_residual.read(e) * there
        w = self.feed_forward_residual.read(x)
        h = self.feed_forward.inner(self.feed_forward.expand(w) + self.entity_expand(read))  # (B, T, F)
        x = self.feed_forward_residual(x, lambda _: self.feed_forward.contract(h))
        if (contract := self.entity_contract) is not None and self.fusion_residual is not None:
            e = self.fusion_residual(e, lambda _: contract(h)) * there
        return x, e


class Aggregating(Stack):
    """Zhang et al. 2019, Figure 2: blocks for tokens (the T-Encoder), then aggregators (the K-Encoder)."""

    def __init__(self, c: ErnieThuConfig) -> None:
        super().__init__(c, layers=c.layers, norm_inputs=True)
        self.first = c.first_aggregator
        if self.extra is not None:
            raise InputError("bigbird(kind='etc') puts tokens in front of a text, which stand for no entity; use 'itc'")

    def block(self, c: Any, layer: int, **how: Any) -> Block:
        is_plain = layer < c.first_aggregator
        return super().block(c, layer, **how) if is_plain else Aggregator(c, layer, last=layer == c.layers - 1)

    def forward(  # type: ignore[override]
        self, x: Tensor, at: Places, mask: Tensor | None, *, entities: Tensor, linked: Tensor
    ) -> Tensor:
        x, e = self.begun(x, at), entities
        for i, (run, position) in enumerate(self.each()):
            if i < self.first:
                x = run(x, at, position, mask)
            else:
                x, e = run(x, e, linked, at, position, mask)
        return self.norm(x)


class Predictions(Prediction):
    """BERT's, and linear(w) of section 3.4, which is compared with vectors of entities: (.., D) -> (.., d_entity)."""

    def __init__(self, c: ErnieThuConfig, **how: Any) -> None:
        super().__init__(c.vocab_size, c.d_model, activation=c.activation, eps=c.eps, **how)
        self.entity = nn.Linear(c.d_model, c.d_entity)


class ErnieThu(Bert):
    """Zhang et al. 2019, section 3: BERT, whose last blocks read beside each first token of a name the vector of what
    it names, trained on a graph before (TransE), which stays as it is. Without entities it is BERT.

    Which names stand where is told as `entities`; or else they are found in the text. Marks that a person may write
    around words (section 3.5, Figure 3): <ent> around the name whose type is asked for, <head> and <tail> around the
    two whose relation is (the paper writes [ENT], [HD] and [TL]).
    """

    config_class = ErnieThuConfig
    config: ErnieThuConfig
    begins_with = (BertConfig, TransEConfig)  # section 4: its words, and its entities
    marks = ("<ent>", "<head>", "<tail>")

    def __init__(self, config: ErnieThuConfig) -> None:
        super().__init__(config)
        self.names = Names(config.entities)
        if not config.entities:
            return
        self.encoder = Aggregating(config)
        self.entities = Entities(len(config.entities), config.d_entity, learns=False)
        if config.predicts:
            self.projection = Predictions(config, tied=self.tokens)
        init_normal(self)

    def know(self, tokenizer: Tokenizer) -> None:
        self.names.know(tokenizer)

    def encode(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None,
        entities: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """`entities` (B, T) are the numbers of those that names stand for, at the first token of each; 0 elsewhere."""
        x = self.tokens(ids, segments)
        if not self.config.entities:
            return self.read(x, ids, mask)
        entities = self.names.find(ids) if entities is None else entities
        linked = entities > 0 if mask is None or mask.dim() > 2 else (entities > 0) & mask
        return self.read(x, ids, mask, entities=self.entities(entities) * linked[:, :, None], linked=linked)

    def sizes(self) -> str:
        return f"{super().sizes()}, {len(self.config.entities):,} entities"
