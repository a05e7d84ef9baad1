"""The extractive stage before a summary: of a text that is too long, the sentences that are most about its title."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from qkv.text.normalise import normalise
from qkv.text.sentences import split_sentences
from qkv.text.tokenizer import Tokenizer


class Extract(NamedTuple):
    """What is read of a text: ids of so many of its sentences; `cut`, if there is one that was too long by itself."""

    ids: list[int]
    read: int
    sentences: int
    cut: bool = False

    def remarks(self) -> list[str]:
        """What a person should know of it."""
        if self.cut:
            return ["begins with a sentence that is longer than all that the model reads: its first tokens were read"]
        if self.read == self.sentences:
            return []
        what = f"is longer than the model reads at once: {self.read} of its {self.sentences} sentences were read"
        return [f"{what}, those nearest to the first by tf-idf"]


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def relevance(units: Sequence[str], query: str) -> list[float]:
    """Liu et al. 2018, section 4.1, tf-idf: sum over the words w of a query of N_w log(N_d / N_dw), where w stands N_w
    times in the unit, and in N_dw of all N_d units."""
    counts = [Counter(words_of(unit)) for unit in units]
    asked = sorted({*words_of(query)})
    weights = {word: math.log(len(units) / n) for word in asked if (n := sum(word in one for one in counts))}
    return [sum(one[word] * weight for word, weight in weights.items()) for one in counts]


def sentences_of(text: str) -> list[str]:
    return [one for sentence in split_sentences(text) if (one := normalise(sentence))]


def extract(text: str, tokenizer: Tokenizer, longest: int) -> Extract:
    """A whole text as ids; of one with more than `longest`, the first sentence, which is its title where it has one,
    and the most relevant to that which fit beside it, in their order.

    Differs: the paper ranks paragraphs of several sources against the title of an article.
    """
    sentences = sentences_of(text)
    whole = tokenizer.encode(" ".join(sentences))
    if len(whole) <= longest:
        return Extract(whole, len(sentences), len(sentences))
    sizes = [len(ids) for ids in tokenizer.encode_batch(sentences)]
    ranks = relevance(sentences, sentences[0])
    order, room = sorted(range(1, len(sentences)), key=lambda i: -ranks[i]), longest - sizes[0]
    chosen = [0]
    for i in order:
        if sizes[i] <= room:
            chosen.append(i)
            room -= sizes[i]
    while len(ids := tokenizer.encode(" ".join(sentences[i] for i in sorted(chosen)))) > longest and len(chosen) > 1:
        chosen.pop()  # the spaces between sentences may be tokens too
    return Extract(ids[:longest], len(chosen), len(sentences), cut=len(ids) > longest)
