"""What a model is asked: each objective prepares a batch and computes a loss, and knows nothing of training."""

from typing import Any

from qkv.config import build, to_call
from qkv.errors import InputError
from qkv.objectives.activation import Activation, TemporalActivation
from qkv.objectives.answers import Choices, Classes, Cloze, Heads, Number, Spans, Tags
from qkv.objectives.back_translation import BackTranslation
from qkv.objectives.bidirectional_lm import BidirectionalLM
from qkv.objectives.carrying import Carrying
from qkv.objectives.causal_lm import CausalLM
from qkv.objectives.continuation import Continuation
from qkv.objectives.entities import DenoisingEntities, Links
from qkv.objectives.masked_lm import MaskedLM
from qkv.objectives.mass import Mass
from qkv.objectives.objective import NOTHING, Asked, Loss, Objective
from qkv.objectives.one_way import LeftToRight, MaskedTranslation, RightToLeft, SequenceToSequenceLM
from qkv.objectives.permutation import PermutationLM
from qkv.objectives.sentences import NextSentence, SentenceDistance, SentenceOrder
from qkv.objectives.span_boundary import SpanBoundary
from qkv.objectives.together import Each, Either, Together, Weight, alternatives, plain
from qkv.objectives.tokens import Capitalisation, TokenDocument
from qkv.objectives.translation import Translation

OBJECTIVES: dict[str, type[Any]] = {
    "translation": Translation,
    "causal_lm": CausalLM,
    "continuation": Continuation,
    "bidirectional_lm": BidirectionalLM,
    "masked_lm": MaskedLM,
    "mass": Mass,
    "back_translation": BackTranslation,
    "permutation_lm": PermutationLM,
    "span_boundary": SpanBoundary,
    "left_to_right_lm": LeftToRight,
    "right_to_left_lm": RightToLeft,
    "sequence_to_sequence_lm": SequenceToSequenceLM,
    "masked_translation": MaskedTranslation,
    "next_sentence": NextSentence,
    "sentence_order": SentenceOrder,
    "sentence_distance": SentenceDistance,
    "capitalisation": Capitalisation,
    "token_document": TokenDocument,
    "denoising_entities": DenoisingEntities,
    "links": Links,
    "activation": Activation,
    "temporal_activation": TemporalActivation,
    "classes": Classes,
    "number": Number,
    "tags": Tags,
    "spans": Spans,
    "choices": Choices,
    "cloze": Cloze,
    "heads": Heads,
    "each": Each,
}


Named = list[tuple[Weight, str, Objective]]


def objective(spec: str) -> Objective:
    """The objective that a recipe's text names: name, name(key=value), a sum such as "classes + 0.5 * causal_lm", or
    several of which each batch asks one, "masked_lm | 2 * sentence_order"."""
    parts = [(weight, named(terms)) for weight, terms in alternatives(spec)]
    if len(parts) == 1:
        return one_of(parts[0][1])
    names = [named[0][1] for _, named in parts]
    numbered = [name if name not in names[:i] else f"{name}_{i + 1}" for i, name in enumerate(names)]
    return Either([(weight, name, one_of(named)) for (weight, named), name in zip(parts, numbered, strict=True)])


def one_of(parts: Named) -> Objective:
    return parts[0][2] if len(parts) == 1 and parts[0][0] == 1 else Together(parts)


def leads(name: str, spec: str) -> bool:
    """Whether the loss that is measured for a text is that of the objective `name`: alone, or the first of a sum."""
    return len(alternatives(spec)) == 1 and first(spec) == name


def first(spec: str) -> str:
    """The name of the first objective of a text."""
    return alternatives(spec)[0][1][0][1].partition("(")[0]


def in_full(spec: str) -> str:
    """The same text with every option of each objective, so that a later default does not change what it says."""
    found, several = list[str](), alternatives(spec)
    for weight, terms in several:
        parts = [(w, name, {k: v for k, v in vars(one).items() if k[0] != "_"}) for w, name, one in named(terms)]
        text = " + ".join(f"{w} * " * (w != 1) + to_call(name, options) for w, name, options in parts)
        found.append(f"{weight} * ({text})" if weight != 1 or (len(several) > 1 and parts[0][0] != 1) else text)
    return " | ".join(found)


def named(terms: list[tuple[Weight, str]]) -> Named:
    parts = []
    for weight, text in terms:
        try:
            parts.append((weight, text.partition("(")[0], build(OBJECTIVES, text)))
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(f"{text}: {error}") from None
    return parts
