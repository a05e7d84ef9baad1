"""qkv generate and qkv fill: what a language model writes after a text, and in the holes of one."""

import dataclasses
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.app import Device, Flag, Model, Output, Shard, Writer, console, opened, print_json, print_table
from qkv.cli.lines import input_chunks, is_path, part_of, printing_to
from qkv.device import ENGINE

BAR = 24  # characters of the bar of a certain word

if TYPE_CHECKING:
    from qkv.decoding.generator import Generated, TextStream


def generate(
    *text: str, model: Model = Path("model"), tokens: int = 60,
    temperature: float | None = None, top_k: int | None = None, top_p: float | None = None, seed: int | None = None,
    beam: int | None = None, n_best: int | None = None, repetition_penalty: float | None = None, endless: Flag = False,
    json: Flag = False, output: Output = None, shard: Shard = None, device: Device = "cpu", engine: Writer = ENGINE,
) -> None:  # fmt: skip
    """Go on from a text with a language model, which writes as you watch.

    It takes the most probable token each time; --temperature, --top-k or --top-p draws instead, --beam searches.

    For example:
      qkv generate "Once upon a time" --model model --tokens 60
      qkv generate "Once upon a time" --temperature 0.8 --top-p 0.9 --seed 7
      qkv generate beginnings.txt --model model --beam 5 --n-best 3 --json
      qkv generate beginnings.txt --model model --json --shard 3/8 -o texts.3
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
      repetition_penalty: Above 1, such as 1.2, words that were written already come again less often.
      endless: Write all the tokens, even where the model would end the text.
      json: A JSON object for each text: what was written, its score, the alternatives.
      output: The file to write; standard output if none.
    """
    if (part := part_of(shard, text, output, model)) is None:
        return
    draws = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    asked: dict[str, Any] = {"tokens": tokens, "stop": not endless, "beam": beam, "n_best": n_best, **draws}
    asked["repetition_penalty"] = repetition_penalty
    how = {name: value for name, value in asked.items() if value is not None}
    generator, done = opened(model, device, "generate", engine=engine), part.lines
    is_watched = not json and (beam or 1) == (n_best or 1) == 1
    with printing_to(output):
        for some in input_chunks(text, "taken", "a text", part):
            print(end="\n" * (done > 0 and not json))
            if is_watched and len(some) == 1:
                answers = [watch(generator.stream(some[0], first=done, **how))]
            else:
                answers = generator.generate(some, first=done, **how)
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


def fill(
    *text: str, model: Model = Path("model"), k: int = 5, jointly: Flag = False, json: Flag = False,
    device: Device = "cpu",
) -> None:  # fmt: skip
    """The words that a masked language model finds for each <mask> of a text, the most probable first.

    In a pipe or a file they are rows of tabs: number of the text, number of the <mask>, word, probability, whole text.

    For example:
      qkv fill "A man in a red <mask> is standing." --model bert
      qkv fill "A <mask> in a red <mask>." --model bert --k 3 --jointly
      qkv fill sentences.txt --model bert > words.tsv

    Args:
      text: One text or several; or the name of one file with a text on each line; nothing for standard input. Empty
        lines are left out.
      k: Words for each <mask>, or ways to fill all of them.
      jointly: Fill all of a text together, from left to right, and not each while the others stay.
      json: A JSON object for each text.
    """
    filler, are_lines, done = opened(model, device, "fill"), not text or is_path(text), 0
    for some in input_chunks(text, "taken", "a text with a <mask>"):
        numbered = [(done + i, one) for i, one in enumerate(some, start=1) if one.strip() or not are_lines]
        answers = filler.fill([one for _, one in numbered], k, jointly=jointly)
        done += len(some)
        for (number, one), answer in zip(numbered, answers, strict=True):
            holes = answer if isinstance(answer[0], list) else [answer]
            if json:
                print_json({"text": one, **({"ways": answer} if jointly else {"holes": holes})})
            else:
                for hole, words in enumerate(holes, start=1):
                    show_words(one, number, None if jointly else hole, words)


def show_words(text: str, number: int, hole: int | None, words: list[dict[str, Any]]) -> None:
    """The words for one hole of a text, or for all of them: with bars for people, as rows for programs."""
    rows = [(" ".join(word.get("tokens") or [word["token"]]), word["probability"], word["text"]) for word in words]
    if console().is_terminal:
        parts = text.split("<mask>")
        mark = ["[<mask>]" if hole in (None, i) else "<mask>" for i in range(1, len(parts))]
        console().print("".join(chain.from_iterable(zip(parts, [*mark, ""], strict=True))), markup=False, style="bold")
        print_table(((f"  {word}", f"{100 * p:5.1f}%", "█" * round(BAR * p), whole) for word, p, whole in rows))
        return
    for word, p, whole in rows:
        print(number, hole or "all", word, f"{p:.6f}", " ".join(whole.split()), sep="\t", flush=True)
