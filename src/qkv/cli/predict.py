"""qkv predict: what a model of a task answers to texts."""

from pathlib import Path
from typing import Any

from qkv.cli.app import Device, Flag, Model, opened, print_json
from qkv.cli.lines import input_chunks, is_path

Tree = dict[str, Any]


def predict(*text: str, model: Model = Path("model"), json: Flag = False, device: Device = "cpu") -> None:
    """What a model that was trained with --task says to a text: its answer, then the probability of each possible one.

    For example:
      qkv predict "A film that nobody should miss." --model model
      qkv predict reviews.txt --model model > labels.tsv
      cat reviews.txt | qkv predict --model model --json

    Args:
      text: One text or several; or the name of one file, which is read line by line; nothing for standard input. Each
        line gives a line, an empty one an empty one.
      json: A JSON object for each text, with the probability of every label.
    """
    predictor, are_lines = opened(model, device, "predict"), not text or is_path(text)
    for some in input_chunks(text, "taken", "a text"):
        answers = iter(predictor.predict([one for one in some if one.strip() or not are_lines]))
        for one in some:
            answer = next(answers) if one.strip() or not are_lines else {}
            print_json(answer) if json else print(as_text(answer), flush=True)


def as_text(answer: Tree) -> str:
    return "\t".join(probabilities(value) if isinstance(value, dict) else str(value) for value in answer.values())


def probabilities(named: dict[str, float]) -> str:
    """The likeliest first."""
    return " ".join(f"{name}={p:.3f}" for name, p in sorted(named.items(), key=lambda pair: -pair[1]))
