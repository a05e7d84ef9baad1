"""8 bits beside float32 on real text, and beside themselves: BLEU, equal lines and tokens, and what neighbours change.

    python benchmarks/agree.py --model model --text test.en test.de --beam 1 5

A line may not depend on what is translated beside it, on the order or on the number of threads: "changed" counts the
lines of an engine that do, when each is asked for alone, all in the other order, and all by one thread more. Words are
as in float32 if they stand in both lines in the same order.
"""

import argparse
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import qkv
from figures import arguments, show, table
from qkv.decoding import Translator
from qkv.evaluation import score
from qkv.text.lines import read_lines

ENGINES = ("float32", "int8")


def same_words(ours: list[str], theirs: list[str]) -> float:
    """The share of words that stand in both, in the same order."""
    pairs = [(one.split(), other.split()) for one, other in zip(ours, theirs, strict=True)]
    same = sum(b.size for one, other in pairs for b in SequenceMatcher(None, one, other, False).get_matching_blocks())
    return same / max(1, sum(max(len(one), len(other)) for one, other in pairs))


def changed(translator: Translator, other: Translator, texts: list[str], lines: list[str], beam: int) -> dict[str, int]:
    """Lines that are others: asked for one by one, in the other order, and by `other`, which has other threads."""
    ways = {
        "alone": [translator.translate(text, beam=beam).text for text in texts],
        "in the other order": [found.text for found in translator.translate(texts[::-1], beam=beam)][::-1],
        "with other threads": [found.text for found in other.translate(texts, beam=beam)],
    }
    return {name: sum(a != b for a, b in zip(lines, found, strict=True)) for name, found in ways.items()}


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    texts, references = ([*read_lines(path)] for path in asked.text)
    rows = []
    for beam in asked.beam:
        plain: list[str] = []
        for engine in ENGINES:
            ours, other = (qkv.load(asked.model, engine=engine, workers=n) for n in (asked.threads, asked.threads + 1))
            lines = [found.text for found in ours.translate(texts, beam=beam)]
            plain = plain or lines
            bleu = score(lines, references, target_language=ours.about["target"], lowercase=asked.lowercase).bleu
            equal = sum(a == b for a, b in zip(plain, lines, strict=True)) / len(lines)
            row = {"beam": beam, "who": engine, "bleu": bleu, "lines": len(lines), "equal_lines": equal}
            rows.append({**row, "equal_words": same_words(plain, lines), **changed(ours, other, texts, lines, beam)})
    return rows


def tell(found: list[dict[str, Any]]) -> None:
    ways = ("alone", "in the other order", "with other threads")
    head = ["beam", "who", "BLEU", "lines as in float32", "words as in float32", *(f"changed {way}" for way in ways)]
    print(f"{found[0]['lines']:,} lines\n")
    rows = [
        [str(row["beam"]), row["who"], f"{row['bleu']:.2f}", f"{row['equal_lines']:.1%}", f"{row['equal_words']:.1%}",
         *(str(row[way]) for way in ways)]
        for row in found
    ]  # fmt: skip
    print(table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="8 bits beside float32, and beside themselves.")
    parser.add_argument("--model", type=Path, required=True, help="a folder with both forms")
    parser.add_argument("--text", type=Path, nargs=2, required=True, help="source and target, a sentence on each line")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--lowercase", action="store_true", help="BLEU of lower-cased text")
    asked = arguments(parser, rounds=1, threads=1, use="of the engine")
    show(measure(asked), tell, as_json=asked.json)


if __name__ == "__main__":
    main()
