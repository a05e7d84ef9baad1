"""All benchmarks after another: tables for training, decoding, writing, start-up and growth, printed and kept.

    python benchmarks/all.py --quick
    python benchmarks/all.py --write docs/results/benchmarks.md

`--quick` has fewer rounds and smaller models. `--write` puts the tables into a
page, with the date and the machine. Run it where nothing else runs.
"""

import argparse
import datetime
import os
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("qkv", "torch", "transformers", "ctranslate2", "onnxruntime", "sentence-transformers", "x-transformers",
            "eole")  # fmt: skip

Runs = list[tuple[str, list[str]]]  # the file, and its flags

QUICK: Runs = [
    ("train.py", ["--preset", "tiny", "--rounds", "2", "--steps", "1", "--precision", "float32"]),
    ("train_gpt2.py", ["--preset", "tiny", "--rounds", "2", "--steps", "1", "--precision", "float32"]),
    ("masked_lm.py", ["--preset", "tiny", "--rounds", "2", "--steps", "1", "--precision", "float32"]),
    ("xlnet.py", ["--preset", "tiny", "--rounds", "2", "--steps", "1", "--precision", "float32"]),
    ("awd_lstm.py", ["--preset", "tiny", "--rounds", "2", "--steps", "1", "--precision", "float32"]),
    ("fine_tune.py", ["--preset", "tiny", "--rounds", "2", "--precision", "float32"]),
    ("decode.py", ["--preset", "small", "--rounds", "2", "--sentences", "1"]),
    ("generate.py", ["--preset", "tiny", "--rounds", "2"]),
    ("embed.py", ["--sentences", "200", "--rounds", "2"]),
    ("start.py", ["--preset", "small", "--rounds", "1", "--beam", "1"]),
    ("growth.py", ["--preset", "tiny", "--rounds", "1", "--lengths", "16", "64", "--batches", "--vocabularies",
                   "--written", "16", "64", "--requests", "1", "16", "--pairs", "20000", "100000"]),
]  # fmt: skip
FULL: Runs = [
    ("train.py", ["--preset", "small", "--rounds", "3", "--steps", "3"]),
    ("train.py", ["--preset", "base", "--rounds", "2", "--steps", "2", "--precision", "float32"]),
    ("train_gpt2.py", ["--preset", "small", "--rounds", "3"]),
    ("train_gpt2.py", ["--preset", "base", "--rounds", "2", "--steps", "2", "--precision", "float32"]),
    ("masked_lm.py", ["--preset", "tiny", "--rounds", "3"]),
    ("masked_lm.py", ["--preset", "small", "--rounds", "3"]),
    ("xlnet.py", ["--preset", "small", "--rounds", "3"]),
    ("awd_lstm.py", ["--preset", "small", "--rounds", "3", "--precision", "float32"]),
    ("awd_lstm.py", ["--preset", "base", "--rounds", "3", "--precision", "float32"]),
    ("fine_tune.py", ["--preset", "tiny", "--rounds", "3"]),
    ("fine_tune.py", ["--preset", "small", "--rounds", "3"]),
    ("decode.py", ["--preset", "small", "base"]),
    ("decode.py", ["--preset", "small", "base", "--rounds", "3", "--cpu", "avx2"]),
    ("generate.py", ["--preset", "small"]),
    ("generate.py", ["--preset", "base", "--rounds", "3"]),
    ("embed.py", ["--rounds", "3"]),
    ("start.py", ["--preset", "small", "--rounds", "2"]),
    ("start.py", ["--preset", "base", "--rounds", "1", "--beam", "4", "--lines", "1000"]),
    ("growth.py", ["--preset", "small", "--rounds", "1", "--lengths", "16", "64", "--batches", "1024", "4096",
                   "--vocabularies", "8000", "32000", "--pairs", "100000", "400000"]),
]  # fmt: skip


def run(file: str, flags: list[str]) -> str:
    """What a benchmark prints, shown as it comes."""
    command = [sys.executable, str(HERE / file), *flags]
    print(f"\n$ python benchmarks/{' '.join([file, *flags])}", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise SystemExit(f"{file} failed")
    return f"\n`python benchmarks/{' '.join([file, *flags])}`\n{''.join(lines)}"


def versions() -> str:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} is not installed")
    return ", ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description="All benchmarks, printed and kept.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller ones")
    parser.add_argument("--write", type=Path, help="the page to write the tables to")
    asked = parser.parse_args()
    began = time.monotonic()
    parts = [run(file, flags) for file, flags in (QUICK if asked.quick else FULL)]
    minutes = (time.monotonic() - began) / 60
    print(f"\nall benchmarks took {minutes:.1f} minutes")
    if asked.write:
        from machine import facts  # at the end: a child's peak memory begins at ours

        when = f"{datetime.date.today()}, {os.cpu_count()} cores, {facts()}"
        head = f"# Benchmarks\n\nMeasured {when}; {versions()}.\n"
        about = "What is compared, and how: [benchmarks](../benchmarks.md).\n"
        asked.write.parent.mkdir(parents=True, exist_ok=True)
        asked.write.write_text(head + about + "".join(parts), encoding="utf-8")
        print(f"wrote {asked.write}")


if __name__ == "__main__":
    main()
