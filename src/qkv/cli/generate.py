"""qkv generate and qkv predict: what a language model writes after a text, and what other models answer to it."""

import dataclasses
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.app import Device, Flag, Model, Reader, Writer, opened, print_json
from qkv.cli.lines import input_chunks, is_path

if TYPE_CHECKING:
    from qkv.decoding.generator import Generated, TextStream


def generate(
    *text: str, model: Model = Path("model"), tokens: int = 60,
    temperature: float | None = None, top_k: int | None = None, top_p: float | None = None, seed: int | None = None,
    beam: int | None = None, n_best: int | None = None, endless: Flag = False, json: Flag = False,
    device: Device = "cpu", engine: Writer = "lean",
) -> None:  # fmt: skip
    """Go on from a text with a language model, which writes as you watch.

    It takes the most probable token each time; --temperature, --top-k or --top-p draws instead, --beam searches.

    For example:
      qkv generate "Once upon a time" --model model --tokens 60
      qkv generate "Once upon a time" --temperature 0.8 --top-p 0.9 --seed 7
      qkv generate beginnings.txt --model model --beam 5 --n-best 3 --json
      echo "Once upon" | qkv generate --model model

    Args:
      text: One text or several; or the name of one file with a text on each line; nothing for standard input. An empty
        one begins a new text.
      tokens: The most tokens to write after each text.
      temperature: Draw tokens: below 1 the likely ones more often than the model has it, above 1 less often.
      top_k: Draw from the k most probable tokens only; 0 for all.
      top_p: Draw from the fewest tokens whose probabilities reach p.
      seed: Of what is drawn: another seed, another text.
      beam: Hypotheses kept in beam search.
      n_best: Texts for each one, best first.
      endless: Write all the tokens, even where the model would end the text.
      json: A JSON object for each text: what was written, its score, the alternatives.
    """
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    asked: dict[str, Any] = {"tokens": tokens, "stop": not endless, "beam": beam, "n_best": n_best, **draws}
    how = {name: value for name, value in asked.items() if value is not None}
    generator, done = opened(model, device, "generate", engine=engine, own_process=True), 0
    is_watched = not json and (beam or 1) == (n_best or 1) == 1
    for some in input_chunks(text, "taken", "a text"):
        print(end="\n" * (done > 0 and not json))
        if is_watched and len(some) == 1:
            answers = [watch(generator.stream(some[0], **how))]
        else:
            answers = generator.generate(some, **how)
            show(answers, json=json)
        for answer in answers:
            done += 1
            for remark in answer.remarks():
                print(f"text {done} {remark}", file=sys.stderr)


def watch(stream: "TextStream") -> "Generated":
    """Print a text as it is written."""
    for piece in chain([stream.prompt], stream):
        print(piece, end="", flush=True)
    print()
    assert stream.generated
    return stream.generated


def show(answers: "list[Generated]", *, json: bool) -> None:
    """Texts, which may have several lines, with an empty line between them; or an object on each line."""
    if not json:
        print("\n\n".join(answer.prompt + one.text for answer in answers for one in answer.alternatives), flush=True)
        return
    for answer in answers:
        print_json({**dataclasses.asdict(answer), "alternatives": [one._asdict() for one in answer.alternatives]})


def fill(*text: str, model: Model = Path("model"), k: int = 5, json: Flag = False, device: Device = "cpu") -> None:
    """The words that a masked language model finds for each <mask> of a text, the most probable first.

    For example:
      qkv fill "A man in a red <mask> is standing." --model bert
      qkv fill "A <mask> in a red <mask>." --model bert --k 3 --json
      qkv fill sentences.txt --model bert > words.tsv

    Args:
      text: One text or several; or the name of one file with a text on each line; nothing for standard input.
      k: Words for each <mask>.
      json: A JSON object for each text.
    """
    filler = opened(model, device, "fill")
    for some in input_chunks(text, "taken", "a text with a <mask>"):
        for one in some:
            holes = filler.holes(one, k)
            if json:
                print_json({"text": one, "holes": holes})
            else:
                for words in holes:
                    print("\t".join(f"{word['token']} {word['probability']:.3f}" for word in words), flush=True)


def predict(
    *text: str, model: Model = Path("model"), json: Flag = False, device: Device = "cpu", engine: Reader | None = None
) -> None:
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
    how = {} if engine is None else {"engine": engine}
    predictor, are_lines = opened(model, device, "predict", **how), not text or is_path(text)
    for some in input_chunks(text, "taken", "a text"):
        answers = iter(predictor.predict([one for one in some if one.strip() or not are_lines]))
        for one in some:
            answer = next(answers) if one.strip() or not are_lines else {}
            print_json(answer) if json else print(as_text(answer), flush=True)


def as_text(answer: dict[str, Any]) -> str:
    return "\t".join(probabilities(value) if isinstance(value, dict) else str(value) for value in answer.values())


def probabilities(named: dict[str, float]) -> str:
    """The likeliest first."""
    return " ".join(f"{name}={p:.3f}" for name, p in sorted(named.items(), key=lambda pair: -pair[1]))
