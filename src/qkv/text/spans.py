"""Questions whose answers are parts of a text, as SQuAD v1.1 writes them (Rajpurkar et al. 2016)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.text.examples import SpanQuestion
from qkv.text.lines import read_whole

SHAPE = (
    'give a file of the form {"data": [{"paragraphs": [{"context": "...", "qas": [{"id": "...", "question": "...", '
    '"answers": [{"answer_start": 0, "text": "..."}]}]}]}]}'
)


def read_squad(path: Path) -> Iterator[SpanQuestion]:
    """The questions of a file, which is one JSON object and so is read whole. A question may have several answers, or
    none, as in a test set."""
    text = read_whole(path)
    try:
        articles = json.loads(text)["data"]
        paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
        asked = [(paragraph["context"], qa) for paragraph in paragraphs for qa in paragraph["qas"]]
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not valid JSON ({error}); {SHAPE}") from None
    except (TypeError, ValueError, LookupError, RecursionError):
        raise InputError(f"{path} is not SQuAD's JSON; {SHAPE}") from None
    return (_question(path, number, context, qa) for number, (context, qa) in enumerate(asked, start=1))


def _question(path: Path, number: int, context: Any, qa: Any) -> SpanQuestion:
    try:
        identity, question = str(qa["id"]), qa["question"]
        answers = [(answer["answer_start"] + 0, answer["text"] + "") for answer in qa.get("answers", [])]
        (context + question).encode()  # all are what they should be
    except (TypeError, ValueError, LookupError, AttributeError):
        raise InputError(f"{path}: its question {number} is not of SQuAD's form; {SHAPE}") from None
    return checked(SpanQuestion(context, question, answers, identity, f"{path} question {identity}"))


def checked(asked: SpanQuestion) -> SpanQuestion:
    """A question about a text with words, whose answers stand where they say."""
    if not asked.context.strip() or not asked.question.strip():
        what = "question" if asked.context.strip() else "context"
        raise InputError(f"{asked.place} has no word in its {what}; give a question and a text that may answer it")
    for answer in asked.answers:
        match answer:
            case [int(at), str(text)] if at >= 0 and text and asked.context[at : at + len(text)] == text:
                continue
            case [int(at), str(text)]:
                raise InputError(
                    f"{asked.place} has the answer {text[:40]!r} at character {at}, where its context has "
                    f"{asked.context[max(at, 0) :][:40]!r}; count characters from 0"
                )
        raise InputError(f"{asked.place} has the answer {answer!r:.60}; give where it begins, and its text")
    return asked
