"""Tagging: words in, a tag for each out: names (CoNLL-2003, WNUT-17), parts of speech."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from qkv.config import Tree
from qkv.data import each_row
from qkv.errors import InputError, nearest
from qkv.evaluation import marks_phrases, phrase_scores, phrases
from qkv.folder import About, Loaded
from qkv.models import Backbone
from qkv.objectives import Asked
from qkv.objectives.answers import NO_TAG, answered
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.measuring import asked_together
from qkv.tasks.on_backbone import OnBackbone
from qkv.tasks.predictor import Predictor
from qkv.text import read_tagged
from qkv.text.asking import parsed
from qkv.text.examples import Tagged
from qkv.text.tokenizer import Tokenizer
from qkv.wording import count_of

WORD = re.compile(r"[@#]?\w(?:[\w'’.&/-]*\w)?|\S")  # signs at the ends of a word are words; those inside it are not
SHAPE = 'give a text, or {"words": ["...", ...]}'


class TagWords(OnBackbone):
    """Devlin et al. 2019, section 5.3: the first sub-word of each word says its tag.

    A sentence that is longer than the model reads at once is read in parts, each as many whole words as it can.
    """

    name = "tag"
    shape = "tagged"
    example_class = Tagged
    objective = "tags"
    figures = ("loss", "accuracy", "precision", "recall", "f1")
    score = "f1"
    defaults = {"training": {"best_by": "f1"}}  # noqa: RUF012
    files = "CoNLL files, a word and its tag on each line, for example: qkv train names.conll --task tag --start bert"
    speed = "words"
    key_is = "sentence"
    columns = 3

    # -- from files to batches -----------------------------------------------------------------------------------

    def read(self, paths: Sequence[Path]) -> Iterator[Tagged]:
        return read_tagged(paths)

    def from_memory(self, given: Any, place: str) -> Tagged:
        return checked(super().from_memory(given, place))

    def question(self, given: Any, place: str) -> Tagged:
        given = parsed(given)
        words = given.get("words") if isinstance(given, Mapping) else given
        if isinstance(words, str):
            words = WORD.findall(words)
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise InputError(f"{place} is {given!r:.60}; {SHAPE}")
        if not words or not all(word.strip() for word in words):
            raise InputError(f"{place} has no word, or an empty one; {SHAPE}")
        return Tagged(list(words), [], place)

    def key(self, example: Tagged) -> str:
        return " ".join(example.words)

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        labels = sorted({tag for sentence in survey.train for tag in sentence.tags})
        if len(labels) < 2:
            raise InputError(f"every word has the tag {labels[0]!r}; give sentences with two tags or more")
        marks_phrases(labels)
        return {"labels": labels}

    def heads(self, facts: About) -> dict[str, str]:
        return {"tags": f"tags(n={len(facts['labels'])})"}

    def parts(self, example: Tagged, tokenizer: Tokenizer, facts: About) -> list[Tagged]:
        """As many whole words at a time as the model reads; of a word that alone is too long, its first sub-words."""
        assert issubclass(self.model, Backbone)
        ids, numbers = tokenizer.encode_words(example.words)
        if len(ids) <= (room := facts["max_length"] - self.model.frame.size(1)):
            return [example]
        first = map(len, tokenizer.encode_batch(example.words))  # a word that begins a part has no space before it
        sizes = [max(size, one) for size, one in zip(Counter(numbers).values(), first, strict=True)]
        borders, used = [0], 0
        for word, size in enumerate(sizes):
            if used + size > room and word:
                borders.append(word)
                used = 0
            used += size
        self.counts["cut"] += 1
        spans = pairwise([*borders, len(example.words)])
        return [Tagged(example.words[a:b], example.tags[a:b], example.place) for a, b in spans]

    def encode(self, examples: Sequence[Tagged], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(the words in their frame, the place of each one's first sub-word, its tag)"""
        assert issubclass(self.model, Backbone)
        numbers, rows = {tag: number for number, tag in enumerate(facts["labels"])}, []
        for one in examples:
            if unknown := set(one.tags) - set(numbers):
                tag = min(unknown)
                raise InputError(
                    f"{one.place} has the tag {tag!r}, which no training word has; {nearest(tag, facts['labels'])}"
                )
            ids, words = tokenizer.encode_words(one.words)
            framed, _ = self.model.frame.join(tokenizer, [ids], facts["max_length"])
            first = [words.index(word) + len(self.model.frame.before) for word in range(len(one.words))]
            rows.append([framed, first, [numbers[tag] for tag in one.tags] or [0] * len(first)])
        return rows

    def remarks(self) -> list[str]:
        cut = self.counts["cut"]
        return [f"{count_of(cut, 'sentences')} had more tokens than the model reads at once: read in parts"] * (cut > 0)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """Each word has the tag that it has most often in training; a new one, the most frequent of all."""
        counts, labels = defaultdict[tuple[int, ...], Counter[int]](Counter), corpus.facts["labels"]
        for row in each_row(corpus.train):
            for word, tag in zip(pieces(row), row[2], strict=True):
                counts[word][tag] += 1
        usual = sum(counts.values(), Counter[int]()).most_common(1)
        found, gold = list[list[str]](), list[list[str]]()
        for row in each_row(corpus.valid):
            best = [(counts[word].most_common(1) if word in counts else usual)[0][0] for word in pieces(row)]
            found.append([labels[tag] for tag in best])
            gold.append([labels[tag] for tag in row[2]])
        return {"most frequent tag of each word": phrase_scores(found, gold, marks_phrases(labels)).f1}

    def figures_of(self, loaded: Loaded, examples: Sequence[Tagged]) -> dict[str, float]:
        """Of the phrases in whole sentences."""
        tagger = self.open(loaded, engine="float32")
        found = asked_together(self.sharing, lambda some: [one["tags"] for one in tagger.answer(some)], [*examples])
        gold = [list(example.tags) for example in examples]
        return phrase_scores(found, gold, marks_phrases(loaded.about["labels"]))._asdict()

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        examples = corpus.valid_examples(Tagged)
        return lambda: self.figures_of(loaded, examples)

    def evaluate(self, loaded: Loaded, examples: Sequence[Tagged], **how: Any) -> Tree:
        return {**super().evaluate(loaded, examples, **how), **self.figures_of(loaded, examples)}

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[Tagged], tagger: Predictor) -> list[Tree]:
        """The words of each sentence, their tags, how probable each tag is; and room for phrases, if tags mark some."""
        best = answered(outputs, "tags").softmax(dim=2).max(dim=2)
        labels, found = tagger.about["labels"], list[Tree]()
        more: Tree = {"phrases": []} if marks_phrases(labels) else {}
        for one, p, tags, at in zip(examples, best.values, best.indices, asked.labels != NO_TAG, strict=True):
            said = {"tags": [labels[i] for i in tags[at].tolist()], "probabilities": p[at].tolist()}
            found.append({"words": one.words, **said, **more})
        return found

    def joined(self, example: Tagged, answers: list[Tree]) -> Tree:
        """All parts as one sentence, and the phrases in it."""
        names = ("words", "tags", "probabilities")
        whole: Tree = {name: [one for answer in answers for one in answer[name]] for name in names}
        if "phrases" in answers[0]:
            words, found = whole["words"], phrases(whole["tags"])
            whole["phrases"] = [{"type": kind, "text": " ".join(words[a:b]), "words": [a, b]} for a, b, kind in found]
        return whole


def pieces(row: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """The sub-words of each word of a row; those of the last with the end of the frame."""
    ids, first, _ = row
    return (tuple(ids[a:b]) for a, b in pairwise([*first, len(ids)]))


def checked(sentence: Tagged) -> Tagged:
    """A sentence with a tag for each word."""
    words, tags = len(sentence.words), len(sentence.tags)
    if words != tags or not words:
        raise InputError(f"{sentence.place} has {words} words and {tags} tags; give one tag for each word")
    if not all(isinstance(one, str) and one.strip() for one in [*sentence.words, *sentence.tags]):
        raise InputError(f"{sentence.place} has a word or a tag that is empty or no text; give both as texts")
    return sentence
