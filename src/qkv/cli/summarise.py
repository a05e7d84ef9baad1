"""qkv summarise: a document in, its summary out."""

import dataclasses
import sys
from pathlib import Path

from qkv.cli.app import Beam, Device, Flag, Model, Writer, opened, print_json
from qkv.cli.lines import is_path
from qkv.device import ENGINE


def summarise(
    *text: str, model: Model = Path("model"), min_tokens: int = 0, max_tokens: int = 0, beam: Beam = 5,
    alpha: float = 1.0, no_repeat: int = 3, json: Flag = False, device: Device = "cpu", engine: Writer = ENGINE,
) -> None:  # fmt: skip
    """Summarise documents: files (.txt, .md, .html, .docx and others), texts, or standard input as a whole.

    Of a document that is longer than the model reads, the sentences are read that are nearest to its first one by
    tf-idf; that is said.

    For example:
      qkv summarise paper.txt --model tldr
      qkv summarise paper.md report.docx --model tldr --max-tokens 40 --json
      cat paper.txt | qkv summarise --model tldr

    Args:
      text: Names of files, or texts; nothing for standard input.
      min_tokens: A summary has at least so many tokens.
      max_tokens: And at most so many; 0 for as many as those that the model has learned from.
      alpha: Length penalty: 0 for none, larger for longer summaries.
      no_repeat: No run of so many tokens comes twice; 0 for any.
      json: A JSON object for each document: summary, score, sentences read, remarks.
    """
    summariser = opened(model, device, "summarise", engine=engine)
    how = {"min_tokens": min_tokens, "max_tokens": max_tokens, "beam": beam, "alpha": alpha, "no_repeat": no_repeat}
    for name, document in documents(text):
        found = summariser.summarise(document, **how)
        remarks = found.remarks()
        for remark in remarks:
            print(f"{name} {remark}", file=sys.stderr)
        print_json({**dataclasses.asdict(found), "remarks": remarks}) if json else print(found.text, flush=True)


def documents(text: tuple[str, ...]) -> list[tuple[str, str]]:
    """What each is called, and what it says."""
    from qkv.documents.file import text_in
    from qkv.documents.format import decode

    if not text:
        return [("standard input", decode(sys.stdin.buffer.read(), "standard input")[2])]
    found = []
    for number, one in enumerate(text, start=1):
        is_file = is_path((one,))
        found.append((one, text_in(Path(one))) if is_file else (f"text {number}", one))
    return found
