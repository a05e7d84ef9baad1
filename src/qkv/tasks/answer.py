"""Reading: a question and a text in, out comes the part of the text that answers it (SQuAD)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qkv.config import Tree, setting
from qkv.errors import InputError
from qkv.evaluation import exact_match, overlap_f1
from qkv.evaluation.answers import bare_words
from qkv.folder import About, Loaded
from qkv.models import Backbone
from qkv.objectives import Asked
from qkv.objectives.answers import answered
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.measuring import asked_together
from qkv.tasks.on_backbone import BackboneConfig, OnBackbone
from qkv.tasks.predictor import Predictor
from qkv.text import read_spans
from qkv.text.asking import Names, fields
from qkv.text.examples import SpanQuestion
from qkv.text.sentences import split_sentences
from qkv.text.spans import checked
from qkv.text.tokenizer import Tokenizer

FIELDS: Names = {"a question": ["question"], "a text": ["context", "text"]}
WINDOW = 384  # Devlin et al. 2019, the authors' code: tokens of a window; it moves on by a third of that, 128,
N_BEST = 20  # this many answers of each window are looked at,
SHOWN = 5  # and so many are told


@dataclass(frozen=True, kw_only=True)
class AnswerConfig(BackboneConfig):
    """How questions and texts become windows of ids."""

    max_length: int = setting(0, "tokens of a window: question and a part of the text; 0 for 384, or the context")
    stride: int = setting(0, "tokens by which the windows of a long text move on; 0 for a third of a window")
    max_question: int = setting(0, "tokens of a question, longer ones are cut and counted; 0 for a sixth of a window")
    max_answer: int = setting(30, "tokens of an answer")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride < 0 or self.max_question < 0 or self.max_answer < 1:
            raise ValueError(
                "stride and max_question must be numbers of tokens, 0 for the usual, max_answer at least 1"
            )


class SpanWindow(NamedTuple):
    """A part of a text with its question: ids in their frame, and where each token of the part stands in the text."""

    ids: list[int]
    before: int  # tokens before those of the text
    spans: list[tuple[int, int]]
    is_own: list[bool]  # whether no other window has more of what stands around the token
    answer: tuple[int, int]  # its first and its last token in `ids`; 0 and 0 if it is not here


class FindAnswers(OnBackbone):
    """Devlin et al. 2019, section 4.2: where an answer begins and where it ends, by the sum of two scores.

    A long text is read in windows that overlap; the best answer of all windows is given. Where training had questions
    without an answer (section 4.3, SQuAD 2.0), none is given if the first token of all scores higher.
    """

    name = "answer"
    shape = "spans"
    example_class = SpanQuestion
    objective = "spans"
    figures = ("loss", "accuracy", "exact_match", "f1")
    score = "f1"
    data_class = AnswerConfig
    defaults = {"training": {"best_by": "f1"}}  # noqa: RUF012
    files = "files of SQuAD's form, for example: qkv train train-v1.1.json --task answer --start bert"
    asks = 'qkv predict "a question" --context text.txt'
    key_is = "text"
    one = (str, tuple, Mapping)
    tokens = 8192  # some 20 windows

    # -- from files to batches -----------------------------------------------------------------------------------

    def read(self, paths: Sequence[Path]) -> Iterator[SpanQuestion]:
        return read_spans(paths)

    def from_memory(self, given: Any, place: str) -> SpanQuestion:
        return checked(super().from_memory(given, place))

    def question(self, given: Any, place: str) -> SpanQuestion:
        question, context = fields(given, FIELDS, place)
        if not question.strip() or not context.strip():
            missing = "text" if question.strip() else "question"
            raise InputError(f"{place} has no word in its {missing}; give a question and a text that answers it")
        return SpanQuestion(context, question, [], "", place)

    def key(self, example: SpanQuestion) -> str:
        return example.context  # all questions about a text stay together

    def texts(self, example: SpanQuestion) -> tuple[str, str]:
        return example.question, example.context

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        return {"has_null": any(not example.answers for example in survey.train)}

    def bounds(self, config: Any) -> About:
        most = super().bounds(config)["max_length"] if self.data.max_length else min(WINDOW, config.max_length)
        return {"max_length": most, **self.steps(most), "max_answer": self.data.max_answer}

    def steps(self, most: int) -> About:
        """How far windows of so many tokens move on, and how many of these a question has at most."""
        stride, question = self.data.stride or most // 3, self.data.max_question or most // 6
        return {"stride": max(1, stride), "max_question": max(1, question)}

    def heads(self, facts: About) -> dict[str, str]:
        return {"spans": "spans"}

    def parts(self, example: SpanQuestion, tokenizer: Tokenizer, facts: About) -> list[SpanWindow]:
        assert issubclass(self.model, Backbone)
        frame, most, asked = self.model.frame, facts["max_length"], tokenizer.encode(example.question)
        ids, spans = tokenizer.encode_spans(example.context)
        steps: Tree = {**self.steps(most), **facts}  # of a model that others have trained, the usual ones
        self.counts["cut"] += len(asked) > steps["max_question"]
        asked = asked[: steps["max_question"]]
        room = most - frame.size(2) - len(asked)
        if room < 1 or not ids:
            raise InputError(
                f"{example.place}: windows of {most} tokens have no room for a text beside a question of {len(asked)}; "
                "raise data.max_length, or lower data.max_question"
            )
        before = len(frame.before) + len(asked) + len(frame.between)
        step = min(steps["stride"], room)
        starts = [*range(0, len(ids) - room + step, step)] if len(ids) > room else [0]
        sizes = [min(room, len(ids) - start) for start in starts]
        owner = [max(range(len(starts)), key=lambda w: around(token, starts[w], sizes[w])) for token in range(len(ids))]
        first, last = tokens_of(example, spans)
        windows = []
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            framed, _ = frame.join(tokenizer, [asked, ids[start : start + size]], most)
            is_here = bool(example.answers) and start <= first <= last < start + size
            place = (first - start + before, last - start + before) if is_here else (0, 0)
            own = [owner[token] == number for token in range(start, start + size)]
            windows.append(SpanWindow(framed, before, spans[start : start + size], own, place))
        self.counts["lost"] += bool(example.answers) and not any(window.answer[0] for window in windows)
        return windows

    def encode(self, examples: Sequence[SpanWindow], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """(question and text in their frame, the places of the answer's first and last token)"""
        return [[window.ids, list(window.answer)] for window in examples]

    def remarks(self) -> list[str]:
        lost, cut = self.counts["lost"], self.counts["cut"]  # answers that no window holds whole; questions
        found = [f"{lost:,} questions had an answer that is longer than a window: asked as if it had none"]
        return found * (lost > 0) + [f"{cut:,} questions had more tokens than data.max_question: cut"] * (cut > 0)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """Of the sentences of the text, the first, and that which has most words of the question."""
        examples = corpus.valid_examples(SpanQuestion)
        gold = [[text for _, text in example.answers] for example in examples]
        parts = [[*split_sentences(example.context)] or [example.context] for example in examples]
        nearest = [likest(example.question, several) for example, several in zip(examples, parts, strict=True)]
        rows = {"first sentence": [several[0] for several in parts], "sentence most like the question": nearest}
        return {name: mean_of(overlap_f1, found, gold) for name, found in rows.items()}

    def figures_of(self, loaded: Loaded, examples: Sequence[SpanQuestion]) -> dict[str, float]:
        """Of the answers in words, each against all that are right."""
        asker = self.open(loaded, engine="float32")
        found = asked_together(self.sharing, lambda some: [one["answer"] for one in asker.answer(some)], [*examples])
        gold = [[text for _, text in example.answers] for example in examples]
        return {"exact_match": mean_of(exact_match, found, gold), "f1": mean_of(overlap_f1, found, gold)}

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        examples = corpus.valid_examples(SpanQuestion)
        return lambda: self.figures_of(loaded, examples)

    def evaluate(self, loaded: Loaded, examples: Sequence[SpanQuestion], **how: Any) -> Tree:
        return {**super().evaluate(loaded, examples, **how), **self.figures_of(loaded, examples)}

    def in_words(self, outputs: Any, asked: Asked, examples: Sequence[SpanWindow], asker: Predictor) -> list[Tree]:
        """The best answers of each window with their scores, and the score of none."""
        rows = zip(examples, answered(outputs, "spans").float(), strict=True)
        has_null = asker.about.get("has_null", False)
        return [self.best(window, logits, self.data.max_answer, has_null) for window, logits in rows]

    def best(self, window: SpanWindow, logits: Tensor, most: int, has_null: bool) -> Tree:
        """Among spans of at most so many tokens: start + end (Devlin et al. 2019, section 4.2)."""
        n = len(window.spans)
        start, end = logits[:, window.before : window.before + n].cpu()
        start = start.masked_fill(~torch.tensor(window.is_own), -torch.inf)
        scores = start[:, None] + end[None, :]  # (n, n)
        fits = torch.ones(n, n, dtype=torch.bool).triu().tril(most - 1)
        found = scores.masked_fill(~fits, -torch.inf).flatten().topk(min(N_BEST, n * n))
        spans = []
        for score, at in zip(found.values.tolist(), found.indices.tolist(), strict=True):
            if score > -torch.inf:
                spans.append((score, window.spans[at // n][0], window.spans[at % n][1]))
        return {"spans": spans, "none": [float(logits[:, 0].sum())] if has_null else []}

    def joined(self, example: SpanQuestion, answers: list[Tree]) -> Tree:
        """The best answer of all windows, where it stands in the text (characters), and the next best ones.

        Probabilities are a softmax over the best answers. No answer is told by an empty one.
        """
        best = dict[tuple[int, int], float]()
        for score, start, end in (span for answer in answers for span in answer["spans"]):
            best[start, end] = max(score, best.get((start, end), score))
        ranked = sorted(best.items(), key=lambda one: -one[1])[:N_BEST]
        if nones := [score for answer in answers for score in answer["none"]]:
            ranked = sorted([*ranked, ((0, 0), min(nones))], key=lambda one: -one[1])
        shares = torch.tensor([score for _, score in ranked]).softmax(dim=0).tolist()
        told: list[Tree] = [
            {"answer": example.context[start:end], "start": start, "end": end, "probability": share}
            for ((start, end), _), share in zip(ranked, shares, strict=True)
        ]
        return {**told[0], "alternatives": told[1:SHOWN]}


def around(token: int, start: int, size: int) -> float:
    """How much of what stands around a token a window has; -1 if it does not have the token (the authors' code)."""
    left, right = token - start, start + size - 1 - token
    return min(left, right) + 0.01 * size if min(left, right) >= 0 else -1.0


def tokens_of(example: SpanQuestion, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The first and the last token of the first answer; of none, 0 and 0."""
    if not example.answers:
        return 0, 0
    at, text = example.answers[0]
    inside = [i for i, (start, end) in enumerate(spans) if start < at + len(text) and end > at]
    return (inside[0], inside[-1]) if inside else (0, 0)


def likest(question: str, sentences: Sequence[str]) -> str:
    words = set(bare_words(question))
    return max(sentences, key=lambda sentence: len(words & set(bare_words(sentence))))


def mean_of(
    figure: Callable[[str, Sequence[str]], float], found: Sequence[str], gold: Sequence[Sequence[str]]
) -> float:
    return sum(figure(one, right) for one, right in zip(found, gold, strict=True)) / max(1, len(found))
