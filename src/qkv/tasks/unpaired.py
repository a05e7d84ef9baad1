"""Sentences of several languages, none paired with another, in; an encoder-decoder out: how MASS begins."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.config import Tree, setting
from qkv.data import each_row
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.evaluation import score
from qkv.folder import About, Loaded
from qkv.models import Model, Transformer
from qkv.tasks.corpus import Corpus, Found, Survey
from qkv.tasks.measuring import asked_together
from qkv.tasks.on_encoder_decoder import OnEncoderDecoder
from qkv.tasks.text_config import TextConfig
from qkv.text import read_sentences
from qkv.text.examples import Monolingual
from qkv.text.normalise import normalise
from qkv.text.tokenizer import EOS, Tokenizer
from qkv.wording import count_of

COUNTED = 200_000  # sentences whose tokens are counted, to tell which language has which
NEIGHBOURS = 1024  # tokens whose neighbours are searched at a time


@dataclass(frozen=True, kw_only=True)
class SentencesConfig(TextConfig):
    """How sentences of several languages become ids and batches."""

    languages: list[str] = setting([], "the languages of the sentences; unless given, what the names of files say")
    parallel_valid: bool = setting(
        False, "line i of one validation file translates line i of the other: measure BLEU by them, and learn nothing"
    )
    max_length: int = setting(200, "sentences with more tokens than this are left out, and counted")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}")
        if len(set(self.languages)) < len(self.languages):
            raise ValueError(f"languages names one of {', '.join(self.languages)} twice; give each once")


class Unpaired(OnEncoderDecoder):
    """Song et al. 2019 (MASS), section 3.2: sentences of some languages to a model that restores what is hidden of
    them, with which translators begin; asked for back-translation too, it is a translator of both directions."""

    name = "unpaired"
    shape = "monolingual"
    example_class = Monolingual
    kinds = (Transformer,)
    objective = "mass"
    figures = ("loss", "perplexity", "accuracy", "bleu", "bleu_back", "word_by_word", "word_by_word_back")
    score = "loss"
    data_class = SentencesConfig
    files = "plain files, a sentence on each line, for example: qkv train train.en train.de --task unpaired"
    unit = "sentences"
    key_is = "text"
    columns = 1
    sizes = (0,)
    specials = ("<mask>",)

    # -- from files to batches -----------------------------------------------------------------------------------

    def __init__(self, data: SentencesConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.known = list(data.languages)  # languages, in their order

    def read(self, paths: Sequence[Path]) -> Iterator[Monolingual]:
        return map(self.noted, read_sentences(paths))

    def from_memory(self, given: Any, place: str) -> Monolingual:
        return self.noted(super().from_memory(given, place))

    def noted(self, sentence: Monolingual) -> Monolingual:
        """A sentence whose language is one of those that are asked for, or is now known."""
        if (language := sentence.language) not in self.known:
            if self.data.languages:
                known = ", ".join(self.data.languages)
                raise InputError(f"{sentence.place} is in {language or 'no language'!r}; data.languages are {known}")
            self.known.append(language)
            if "" in self.known and len(self.known) > 1:
                named = ", ".join(filter(None, self.known))
                raise InputError(
                    f"{sentence.place}: some sentences are in {named}, and others say no language; let the name of "
                    "every file end in one, such as train.en and train.de"
                )
        return sentence

    def examine(
        self, examples: Iterator[Monolingual], held_out: Container[str], found: Found, name: str
    ) -> Iterator[Monolingual]:
        empty = 0

        def with_words() -> Iterator[Monolingual]:
            nonlocal empty
            for example in examples:
                if example.text.strip():
                    yield example
                elif self.data.parallel_valid and name == "valid":
                    raise InputError(f"{example.place} is empty, and data.parallel_valid wants pairs; leave out both")
                else:
                    empty += 1

        yield from super().examine(with_words(), held_out, found, name)
        found.read += empty
        if empty:
            found.findings.append(f"{count_of(empty, 'lines')} had no word: dropped")

    def key(self, example: Monolingual) -> str:
        return normalise(example.text)

    def told(self) -> Tree:
        return {"languages": list(filter(None, self.known))}

    def named_tokens(self) -> tuple[str, ...]:
        return (*super().named_tokens(), *(f"<{language}>" for language in self.data.languages))

    def facts(self, survey: Survey, tokenizer: Tokenizer | None = None) -> About:
        languages = self.data.languages
        source, target = languages[:2] if len(languages) > 1 else ["", ""]
        return {"languages": languages, "source": source, "target": target}

    def encode(self, examples: Sequence[Monolingual], tokenizer: Tokenizer, facts: About) -> list[Any]:
        """x1 .. xn </s>, behind the mark of its language if it has one"""
        rows = tokenizer.encode_batch([self.key(sentence) for sentence in examples])
        marks = {
            language: [tokenizer.special(f"<{language}>")] if language else []
            for language in {sentence.language for sentence in examples}
        }
        return [([*marks[one.language], *ids, EOS],) for one, ids in zip(examples, rows, strict=True)]

    @property
    def longest(self) -> tuple[int]:
        return (self.data.max_length + 2,)

    def counted(self, corpus: Corpus) -> str:
        languages = f" of {', '.join(corpus.facts['languages'])}" if corpus.facts["languages"] else ""
        return f"{count_of(len(corpus.train), 'sentences')}{languages} to train on, {len(corpus.valid):,} to validate"

    # -- what comes of it ----------------------------------------------------------------------------------------

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """What the frequency of each token says, its end among them, with one more of each."""
        marks = int(bool(corpus.facts["languages"]))  # before each sentence
        counts = np.ones(len(corpus.tokenizer))
        for (row,) in islice(each_row(corpus.train), COUNTED):
            np.add.at(counts, row[marks:], 1)
        asked = [token for (row,) in islice(each_row(corpus.valid), COUNTED) for token in row[marks:]]
        return {"frequency": float(-np.log(counts / counts.sum())[asked].mean())}

    def sides(self, corpus: Corpus, most: int | None = None) -> dict[str, list[str]]:
        """The sentences to validate on, of each of two languages; number i of one translates number i of the other."""
        found: dict[str, list[str]] = defaultdict(list)
        for sentence in corpus.valid_examples(Monolingual):
            found[sentence.language].append(sentence.text)
        counts = [f"{len(texts):,} of {language or 'no language'}" for language, texts in found.items()]
        if len(found) != 2 or len(set(map(len, found.values()))) > 1:
            raise InputError(
                f"data.parallel_valid wants as many sentences of each of two languages, and there are "
                f"{', '.join(counts)}; give two --valid files whose lines translate each other, or leave it out"
            )
        return {language: found[language][:most] for language in corpus.facts["languages"] if language in found}

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        """BLEU in both directions, and that of translating token by token with the vectors as they are now."""
        if not self.data.parallel_valid or not training.bleu_sentences:
            return dict
        there, back = self.sides(corpus, training.bleu_sentences).items()
        frequency = frequencies(corpus)

        def bleus() -> dict[str, float]:
            found = dict[str, float]()
            for (source, texts), (target, references), end in ((there, back, ""), (back, there, "_back")):
                how: Any = {"target_language": target}
                about: About = {**loaded.about, "source": source, "target": target}
                lines = self.translated(Translator(loaded.model, loaded.tokenizer, about), texts)
                found[f"bleu{end}"] = score(lines, references, **how).bleu
                table = nearest_tokens(loaded.model.source.weight, frequency[source], frequency[target]).tolist()  # type: ignore[arg-type, union-attr]
                rows = [[table[token] for token in ids] for ids in loaded.tokenizer.encode_batch(texts)]
                words = loaded.tokenizer.decode_batch(rows)
                found[f"word_by_word{end}"] = score(words, references, **how).bleu
            return found

        return bleus

    def translated(self, translator: Translator, texts: list[str]) -> list[str]:
        return asked_together(self.sharing, lambda some: [x.text for x in translator.translate(some, beam=1)], texts)


def frequencies(corpus: Corpus) -> dict[str, Tensor]:
    """How often each token stands in sentences of each language, (V,)."""
    marks = {corpus.tokenizer.special(f"<{language}>"): language for language in corpus.facts["languages"]}
    counts: dict[str, Counter[int]] = {language: Counter() for language in marks.values()}
    for (row,) in islice(each_row(corpus.train), COUNTED):
        counts[marks[row[0]]].update(row[1:-1])
    return {language: as_shares(found, len(corpus.tokenizer)) for language, found in counts.items()}


def as_shares(counts: Counter[int], size: int) -> Tensor:
    found = torch.zeros(size)
    found[list(counts)] = torch.tensor([*map(float, counts.values())])
    return found / found.sum().clamp(min=1)


@torch.inference_mode()
def nearest_tokens(table: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Translation token by token: for each of the source language, the one of the target language whose vector has the
    nearest direction, (V,); the means of both languages are taken out of their vectors first.

    A token is of a language if at least half as frequent in it as in the other; one that is of both stands for itself,
    as names, numbers and stops do.
    """
    ours, theirs = source * 2 >= target, (target * 2 >= source) & (target > 0)
    table = table.float().cpu()
    own, other = (table[some].mean(dim=0).nan_to_num() for some in (ours & ~theirs, theirs & ~ours))  # 0 if of none
    centre = torch.where(theirs[:, None], other, own)  # (V, D)
    vectors = F.normalize(table - centre, dim=1)
    (chosen,) = theirs.nonzero(as_tuple=True)
    best = [(some @ vectors[chosen].T).argmax(dim=1) for some in vectors.split(NEIGHBOURS)]
    return torch.where(theirs, torch.arange(len(table)), chosen[torch.cat(best)])
