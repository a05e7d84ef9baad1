"""Questions with some choices, of which one is right, out of JSON lines and tables (RACE, HellaSwag, Story Cloze)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv.errors import InputError
from qkv.text.examples import ChoiceQuestion
from qkv.text.lines import suffix
from qkv.text.records import Record, field_at, read_objects, rows, text_at

CONTEXT = (
    "context",
    "ctx",
    "article",
    "premise",
)  # as the sets name them, each of which the first that is there counts
CHOICES = ("choices", "endings", "options")
ANSWER = ("answer", "label")
SHAPE = 'write {"context": "...", "choices": ["...", "..."], "answer": 0} on each line; the first choice is 0'
LINE = (
    "give each line a context, the number of the right choice (the first is 0), and the choices, with {} between them"
)


def read_choice_records(path: Path) -> Iterator[ChoiceQuestion]:
    """JSON lines; or the lines of a table: context, number of the right choice, and the choices, however many."""
    if suffix(path) == ".jsonl":
        return (known(as_question(record, place), SHAPE) for place, record in read_objects(path, SHAPE))
    return _read_table(path)


def _read_table(path: Path) -> Iterator[ChoiceQuestion]:
    advice = LINE.format("commas" if suffix(path) == ".csv" else "tabs")
    for number, cells in rows(path):
        if not "".join(cells).strip():
            continue
        place = f"{path} line {number}"
        if len(cells) < 4:
            raise InputError(f"{place} has {len(cells)} cells where 4 or more were expected; {advice}")
        context, answer, *choices = (cell.strip() for cell in cells)
        if not answer.isdecimal():
            raise InputError(f"{place} has {answer[:40]!r} where the number of the right choice was expected; {advice}")
        yield known(checked(ChoiceQuestion(context, choices, int(answer), place)), advice)


def as_question(record: Mapping[str, Any], place: str) -> ChoiceQuestion:
    """An object; a `question` beside the context stands after it, and the answer may be left out.

    An answer is a number from 0, a letter from A, or the text of one of the choices.
    """
    tree: Record = dict(record)
    context = field_at(tree, CONTEXT, place, SHAPE)
    if "question" in tree:
        context = f"{context} {text_at(tree, 'question', place, SHAPE)}"
    choices = next((tree[name] for name in CHOICES if name in tree), None)
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise InputError(f"{place} has no list of texts under 'choices'; {SHAPE}")
    answer = next((tree[name] for name in ANSWER if name in tree), -1)
    if isinstance(answer, str):
        answer = _number(answer, choices, place)
    if not isinstance(answer, int) or isinstance(answer, bool):
        raise InputError(f"{place} has {answer!r:.40} as its answer where a number was expected; {SHAPE}")
    return checked(ChoiceQuestion(context, choices, answer, place))


def _number(answer: str, choices: Sequence[str], place: str) -> int:
    if answer in choices:
        return choices.index(answer)
    if len(answer) == 1 and "A" <= answer < chr(ord("A") + len(choices)):
        return ord(answer) - ord("A")
    if answer.isdecimal():
        return int(answer)
    raise InputError(f"{place} has the answer {answer[:40]!r}, which is none of its choices; {SHAPE}")


def checked(question: ChoiceQuestion) -> ChoiceQuestion:
    """A question with a text, two choices or more, and an answer among them, or -1."""
    if not question.context.strip() or not all(choice.strip() for choice in question.choices):
        raise InputError(f"{question.place} has a context or a choice without a word; {SHAPE}")
    if len(question.choices) < 2:
        raise InputError(f"{question.place} has {len(question.choices)} choices where 2 or more were expected; {SHAPE}")
    if not -1 <= question.answer < len(question.choices):
        raise InputError(
            f"{question.place} has the answer {question.answer}, but its choices are 0 to {len(question.choices) - 1}; "
            "count from 0"
        )
    return question


def known(question: ChoiceQuestion, advice: str) -> ChoiceQuestion:
    """One to learn from, or to be measured by."""
    if question.answer < 0:
        raise InputError(f"{question.place} does not say which choice is right; {advice}")
    return question
