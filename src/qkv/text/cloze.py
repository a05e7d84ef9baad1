"""Cloze questions: a document, a sentence with a hole, and the words that may fill it; as ids of whole words."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.errors import InputError
from qkv.text.lines import read_lines
from qkv.text.tokenizer import PAD, RESERVED, SPECIALS, UNK, Tokenizer

HOLE = "XXXXX"  # the Children's Book Test's mark of the missing word
ANONYMOUS = range(len(SPECIALS), len(RESERVED))  # no word begins with a byte of its own: these ids are free for names
SHAPE = (
    'write {"context": ["a sentence", ...], "question": "... XXXXX ...", "answer": "word", '
    '"candidates": ["word", ...]} on each line'
)


@dataclass(frozen=True)
class Question:
    """A document and a question as words, what is missing from the question, and what may be."""

    document: list[str]
    question: list[str]
    candidates: list[str]
    answer: str  # empty if nobody knows it
    place: str  # file and line
    book: str = ""  # where the document is from, if the file says so


def read_cloze(path: Path) -> Iterator[Question]:
    """The questions of a file of JSON lines; texts are already tokenised, a space between words."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            question = parse_question(line, f"{path} line {number}")
            if not question.answer:
                raise InputError(f"{question.place} has no answer to learn from; {SHAPE}")
            yield question


def parse_question(line: str, place: str) -> Question:
    """One JSON object; its answer may be left out."""
    try:
        record = json.loads(line)
        sentences, asked, candidates = (record[key] for key in ("context", "question", "candidates"))
        answer, book = record.get("answer", ""), str(record.get("book", ""))
        document = " ".join([sentences] if isinstance(sentences, str) else sentences).split()
        question = Question(document, asked.split(), list(dict.fromkeys(candidates)), answer, place, book)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{place} is not a cloze question; {SHAPE}") from None
    if not all(isinstance(word, str) for word in [answer, *question.candidates]):
        raise InputError(f"{place} has an answer or a candidate that is no text; {SHAPE}")
    if question.question.count(HOLE) != 1:
        raise InputError(f"{place}: the question has {question.question.count(HOLE)} holes; write {HOLE} in it once")
    if not question.candidates or "" in question.candidates:
        raise InputError(f"{place} has no candidate, or one that is empty; {SHAPE}")
    if answer and answer not in question.candidates:
        raise InputError(f"{place}: the answer {question.answer!r} is not among the candidates; add it to them")
    if len(question.candidates) > len(ANONYMOUS):
        raise InputError(f"{place} has {len(question.candidates)} candidates; give at most {len(ANONYMOUS)}")
    if missing := set(question.candidates) - set(document):
        raise InputError(f"{place}: the candidate {min(missing)!r} is no word of the context; leave it out")
    return question


@dataclass(frozen=True)
class Ids:
    """A question as ids of whole words."""

    document: list[int]
    question: list[int]
    candidates: list[int]
    answer: int


def known_words(question: Question) -> Iterator[str]:
    """What of a question a tokenizer should learn: its words but the candidates, each as one piece of text."""
    candidates = {HOLE, *question.candidates}
    return (_letters(word) for word in question.document + question.question if word not in candidates)


def number_words(questions: Sequence[Question], tokenizer: Tokenizer) -> list[Ids]:
    """One id for each word: of a candidate an anonymous one, of any other word that of its first token.

    Candidates are anonymous as in Hermann et al. 2015, section 2.2: the names of one book say nothing about another, so
    that a reader must find the answer in the document and cannot remember it. They are numbered anew in each question,
    in the order of the candidates. The hole is <unk>.
    """
    if tokenizer.kind.reserved != RESERVED:
        raise InputError("cloze questions need ids that no word has, and this tokenizer has none; use bpe or unigram")
    words = sorted({word for question in questions for word in question.document + question.question})
    rows = tokenizer.encode_batch([_letters(word) for word in words])
    known = {word: (row or [UNK])[0] for word, row in zip(words, rows, strict=True)} | {HOLE: UNK}
    found = []
    for question in questions:
        names = dict(zip(question.candidates, ANONYMOUS, strict=False))
        document, asked = (
            [names.get(word) or known[word] for word in text] for text in (question.document, question.question)
        )
        found.append(Ids(document, asked, list(names.values()), names.get(question.answer, PAD)))
    return found


def _letters(word: str) -> str:
    """Lower case, and with the letter ʼ as apostrophe: the tokenizer splits "don't" at the sign ' but not there."""
    return word.lower().replace("'", "ʼ")
