"""UniLM, a BERT that reads in four ways and can write (Dong et al. 2019, "Unified Language Model Pre-training")."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention import SOURCE, TARGET, Remembered, causal, unified
from qkv.config import Tree, setting
from qkv.errors import InputError
from qkv.layers import Seen
from qkv.models.bert import Bert, BertConfig
from qkv.models.model import SequenceToSequence
from qkv.positions import Places
from qkv.text.tokenizer import BOS, PAD, Tokenizer


@dataclass(frozen=True, kw_only=True)
class UniLMConfig(BertConfig):
    """Dong et al. 2019, section 2.2, with the sizes of BERT base; the number of segments is the authors' code's."""

    vocab_size: int = setting(28996, "size of the vocabulary (read from the tokenizer)")
    segments: int = setting(6, "vectors for the parts of a text and the way to read it: two for BERT's, then four")
    mask_id: int = setting(4, "the id of <mask>, which it writes by (read from the tokenizer)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segments <= TARGET:
            raise InputError(f"segments must be at least {TARGET + 1}, one for each way to read, not {self.segments}")
        if self.mask_id >= self.vocab_size:
            raise InputError(f"mask_id is {self.mask_id}, but there are {self.vocab_size} tokens; leave it out")


@dataclass
class UniLMState(Remembered):
    """What each block has seen of source and target, which of it is no padding, and whether a target has begun."""

    seen: list[Seen]
    real: Tensor  # (B, S)
    has_begun: bool = False


class UniLM(Bert, SequenceToSequence):
    """Dong et al. 2019, section 2: BERT, whose tokens see what their segment says (`unified`), with one set of weights.

    It writes y_t as what should stand in a <mask> behind <s> source </s> y_1 .. y_t-1 (section 2.4). No token sees a
    <mask> behind it, so that keys and values of all others are computed once.
    """

    config_class = UniLMConfig
    config: UniLMConfig
    specials = ("<mask>",)
    learns_by = (  # section 2.3; next_sentence, which the first is asked for too, needs several documents
        "2 * masked_lm(unit='ngram') | 2 * sequence_to_sequence_lm(unit='ngram') | left_to_right_lm(unit='ngram') | "
        "right_to_left_lm(unit='ngram')"
    )
    sub_words = "bpe"  # the paper: WordPiece, which does not write text as it stood
    begins_with = (BertConfig,)  # section 3: from BERT large

    def __init__(self, config: UniLMConfig) -> None:
        super().__init__(config)
        self.encoder.refuse_whole("what it writes must not see what follows")

    @classmethod
    def fitting(cls, tokenizer: Tokenizer) -> Tree:
        return {"mask_id": tokenizer.special("<mask>")}

    def encode(self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """A `mask` of pairs (B, T, S) takes the place of what the segments say. Those of BERT, 0 and 1, say nothing;
        but a graph that is traced is for all."""
        x, ways, is_pairs = self.tokens(ids, segments), None, mask is not None and mask.dim() == 3
        if segments is not None and not is_pairs and (torch.jit.is_tracing() or bool((segments > 1).any())):
            ways = unified(segments)
        return self.read(x, ids, mask, ways)

    # -- writing -------------------------------------------------------------------------------------------------

    @classmethod
    def context(cls, source: int, target: int) -> int:
        return source + target + 3  # <s> x </s> y </s>

    @property
    def longest_source(self) -> int:
        return self.config.max_length // 2

    def room(self, source: int) -> int:
        return self.config.max_length - source - 2

    def start(self, given: Tensor) -> tuple[Tensor, UniLMState]:
        """The <s> that it gives is for the searches: what a target begins with is its first word."""
        ids = F.pad(given, (1, 0), value=BOS)  # (B, S)
        state = UniLMState([Seen() for _ in self.encoder.blocks], ids != PAD)
        at = Places.span(0, ids.size(1), ids.device)
        x = self.tokens(ids, torch.full_like(ids, SOURCE))
        self.encoder(x, at, state.real[:, None, None], seen=state.seen)
        return ids[:, 0], state

    def step(self, tokens: Tensor, state: UniLMState) -> Tensor:
        """Reads the last token, if there is one yet, and a <mask>, which is then forgotten."""
        ids = torch.full_like(tokens, self.config.mask_id)[:, None]
        if state.has_begun:
            ids = torch.cat((tokens[:, None], ids), dim=1)  # (B, 2)
        real = F.pad(state.real, (0, ids.size(1)), value=True)
        at = Places.counted(real, ids.size(1))  # padding stands between source and target, and takes no place
        x = self.tokens(ids, torch.full_like(ids, TARGET))
        hidden = self.encoder(x, at, causal(at) & real[:, None, None], seen=state.seen)
        for seen in state.seen:
            seen.own.forget_last()
        state.real, state.has_begun = real[:, :-1], True
        logits: Tensor = self.projection(hidden[:, -1])
        logits[:, self.config.mask_id] = -torch.inf  # a hole is no word
        return logits
