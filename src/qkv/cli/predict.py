"""qkv predict: what a model that was trained with --task answers."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.app import Device, Flag, Model, OnePart, Output, Reader, Shard, console, opened, print_json
from qkv.cli.lines import chunks, input_chunks, is_path, part_of, printing_to
from qkv.device import ENGINE
from qkv.errors import InputError
from qkv.text.lines import LineRange

if TYPE_CHECKING:
    from rich.text import Text

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


def predict(
    *text: str, model: Model = Path("model"), context: Path | None = None, json: Flag = False, output: Output = None,
    shard: Shard = None, device: Device = "cpu", engine: Reader | None = None, part: OnePart = "",
    beside: Path | None = None,
) -> None:  # fmt: skip
    """What a model that was trained with --task says to a text: its answer, then the probability of each possible one.

    Tags are printed as CoNLL, a word and its tag on each line, an empty line after each text; in a terminal, in colour.
    What is made of several texts (two to compare, a context and its choices) is given as so many arguments, or with
    tabs between them on a line, or as JSON lines.

    For example:
      qkv predict "A film that nobody should miss." --model model
      qkv predict reviews.txt --model model > labels.tsv
      qkv predict reviews.txt --model model --shard 3/8 -o labels.3.tsv
      cat reviews.txt | qkv predict --model model --json
      qkv predict "A man sings." "Somebody sings." --model similarity
      qkv predict people.txt --model tagger > people.conll
      qkv predict "Who sings?" "Where?" --context article.txt --model reader
      qkv predict dev-v1.1.json --model reader > answers.json
      qkv predict "A man sings." "Somebody sings." --model several --part rte

    Args:
      text: One text or several; or the name of one file, which is read line by line; nothing for standard input. Each
        line gives a line, an empty one an empty one; where the first line of a .tsv or .csv names the columns of two
        texts to compare, these are read, and it gives none. Of a file in SQuAD's form (.json): one JSON object, the
        answer by the id of each question, as SQuAD's own evaluation reads it.
      context: A file with the text that all questions are about.
      json: A JSON object for each text, with all that is known of the answer.
      output: The file to write; standard output if none.
      beside: A second classifier of the same labels: the probabilities of both are averaged.
    """
    from qkv.engines.classifier import by_file

    if (lines := part_of(shard, text, output, model)) is None:
        return
    how = {"engine": engine, "part": part, "beside": beside}
    predictor: Any = None if part or beside or context else by_file(model, device, engine or ENGINE)
    if predictor is None:
        predictor = opened(model, device, "predict", **{name: value for name, value in how.items() if value})
    if hasattr(predictor, "parts"):
        raise InputError(f"{model} has several parts; say which is asked, by --part: {', '.join(predictor.parts)}")
    if shard and (is_squad(predictor, text) or is_table(predictor, text)):
        raise InputError(f"--shard is for files of lines, and {text[0]} may have more than these; leave it out")
    with printing_to(output):
        if is_squad(predictor, text):
            questions = list(predictor.task.read([Path(text[0])]))
            answers = predictor.answer(questions)
            return print_json({one.identity: answer["answer"] for one, answer in zip(questions, answers, strict=True)})
        are_lines = not text or is_path(text)
        for some in asked(predictor, text, context, lines):
            found = iter(predictor.predict([one for one in some if not are_lines or is_given(one)]))
            for one in some:
                answer = next(found) if not are_lines or is_given(one) else {}
                print_json(answer) if json else show(answer)


def is_squad(predictor: Any, text: tuple[str, ...]) -> bool:
    return predictor.task.name == "answer" and is_path(text) and Path(text[0]).suffix == ".json"


def is_table(predictor: Any, text: tuple[str, ...]) -> bool:
    """Whether the first line may name columns."""
    return is_path(text) and predictor.task.names and Path(text[0]).suffix in (".tsv", ".csv")


def is_given(one: Any) -> bool:
    return not isinstance(one, str) or bool(one.strip())


def asked(predictor: Any, text: tuple[str, ...], context: Path | None, part: LineRange) -> Iterator[list[Any]]:
    """The questions, some at a time; several arguments are one where a question is made of several texts."""
    if context is None:
        is_one = tuple in predictor.task.one and len(text) > 1 and not any("\t" in one for one in text)
        if is_table(predictor, text):
            from qkv.text.records import read_columns

            return chunks(read_columns(Path(text[0]), predictor.task.names.values()))
        return chunks([text]) if is_one else input_chunks(text, "taken", "a text", part)
    if predictor.task.name != "answer":
        raise InputError(
            f"--context is for questions, and the model is of the task {predictor.task.name!r}; leave it out"
        )
    from qkv.text.lines import check_file, read_whole

    check_file(context)
    about = read_whole(context)

    def with_context(one: str) -> Any:
        return {"question": one, "context": about} if one.strip() else one

    return ([*map(with_context, some)] for some in input_chunks(text, "taken", "a question", part))


def show(answer: dict[str, Any]) -> None:
    if "tags" in answer and sys.stdout.isatty():
        console().print(coloured(answer))
    else:
        print(as_text(answer), flush=True)


def as_text(answer: dict[str, Any]) -> str:
    """The parts of an answer with tabs between them; of tagged words, a line for each, and an empty one."""
    if "tags" in answer:
        pairs = zip(answer["words"], answer["tags"], strict=True)
        return "".join(f"{word}\t{tag}\n" for word, tag in pairs)
    return "\t".join(cell(value) for name, value in answer.items() if name != "alternatives")


def cell(value: Any) -> str:
    """Of probabilities by name, the likeliest first."""
    if isinstance(value, dict):
        return " ".join(f"{name}={p:.3f}" for name, p in sorted(value.items(), key=lambda pair: -pair[1]))
    if isinstance(value, list) and value and isinstance(value[0], float):
        return " ".join(f"{p:.3f}" for p in value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def coloured(answer: dict[str, Any]) -> "Text":
    """The words as a text, each phrase in the colour of its type; where tags mark none, each word with its tag."""
    from rich.text import Text

    said, words = Text(), answer["words"]
    spans = [(one["words"], one["type"]) for one in answer.get("phrases", [])]
    kinds = sorted({kind for _, kind in spans})
    inside = {i: kind for (first, end), kind in spans for i in range(first, end)}
    last = {end - 1: kind for (_, end), kind in spans}
    for i, (word, tag) in enumerate(zip(words, answer["tags"], strict=True)):
        style = f"bold {COLOURS[kinds.index(inside[i]) % len(COLOURS)]}" if i in inside else ""
        said.append(" " * bool(i)).append(word, style)
        if i in last:
            said.append(f" ({last[i]})", f"dim {style}")
        elif tag != "O" and "phrases" not in answer:
            said.append(f"/{tag}", "dim")
    return said
