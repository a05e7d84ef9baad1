"""A whole program: `qkv translate FILE` beside a script with CTranslate2, from process start to the last line written.

    python benchmarks/start.py --preset small base --rounds 3
    python benchmarks/start.py --model model --text test.en

Start-up counts: importing, loading, reading, translating, writing. Everybody translates the same lines with the same
weights, in turn, and may use all cores. One line shows the start alone. Peak memory is that of the process, as the
system counts it at its end. Without --model the weights are random ones that end their sentences (see ending.py);
8 bits may move an end by a token or two, so the words written are counted too. "qkv int8" is by the native engine,
where it was built; "qkv CTranslate2" is our program with `--engine ctranslate2`. Ratios are to the script with int8.

This file imports no torch: a process counts its parent's memory at birth as its own.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from figures import CPUS, UNIT, arguments, by_turns, hold_to, show, spread, table, times_as_fast

RIVAL = "CTranslate2 int8"  # whom all are compared with
HERE = Path(__file__).parent
PRESETS = ("tiny", "small", "base", "big")
FILES = ("config.json", "tokenizer.json", "model.safetensors")  # all that a model folder needs


def prepared(asked: argparse.Namespace, preset: str, folder: Path) -> None:
    """Model folder, exports and text, made by another process that may be as large as it likes."""
    if asked.model:
        for name in FILES:
            shutil.copyfile(asked.model / name, folder / name)
    command = [sys.executable, str(HERE / "ending.py"), preset, str(folder), str(max(asked.lines))]
    subprocess.run(command + [str(asked.text)] * bool(asked.text), check=True)


def commands(folder: Path, source: Path, out: Path, beam: int, threads: int) -> dict[str, list[str]]:
    """What each contestant is called by."""
    engines = {"float32": "float32", "int8": "int8", "ctranslate2": "CTranslate2"}
    if not (folder / "int8.qkv").exists():
        del engines["int8"]
    ours = [sys.executable, "-m", "qkv", "translate", str(source), "-o", str(out), "--model", str(folder)]
    found = {f"qkv {said}": [*ours, "--beam", str(beam), "--engine", engine] for engine, said in engines.items()}
    script = str(HERE / "start_ctranslate2.py")
    for name, precision in (("ctranslate2", "float32"), ("ctranslate2-int8", "int8")):
        files = [str(beam), str(threads), str(source), str(out)]
        found[f"CTranslate2 {precision}"] = [sys.executable, script, str(folder / name), precision, *files]
    return found


def run(command: list[str], threads: int, peaks: list[float]) -> None:
    """The whole life of a process; its peak memory is noted."""
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stderr=subprocess.PIPE)
    told = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for: nobody else need
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {told.decode()}")
    peaks.append(usage.ru_maxrss / UNIT)


def race(folder: Path, lines: int, beam: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    source = folder / f"source-{lines}.txt"
    texts = (folder / "source.txt").read_text(encoding="utf-8").splitlines()[:lines]
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    peaks, words = dict[str, list[float]](), dict[str, int]()
    runs = {}
    for name, command in commands(folder, source, out := folder / "out.txt", beam, asked.threads).items():
        run(command, asked.threads, peaks.setdefault(name, []))  # once before, so that all files are in memory
        written = out.read_text(encoding="utf-8").split("\n")[:-1]
        if len(written) != len(texts):
            raise SystemExit(f"{name} wrote {len(written)} lines for {len(texts)}")
        words[name] = sum(len(line.split()) for line in written)
        runs[name] = partial(run, command, asked.threads, peaks[name])
    seconds = by_turns(runs, asked.rounds)
    return [
        {"lines": len(texts), "beam": beam, "who": name, "seconds": median(seconds[name]), "words": words[name],
         "spread": spread(seconds[name]), "as_fast": times_as_fast(seconds[name], seconds[RIVAL]),
         "peak_mb": max(peaks[name])}
        for name in seconds
    ]  # fmt: skip


def measure(asked: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for preset in [str(asked.model)] if asked.model else asked.preset:
        with tempfile.TemporaryDirectory() as folder:
            prepared(asked, preset, Path(folder))
            races = [race(Path(folder), lines, beam, asked) for beam in asked.beam for lines in asked.lines]
            rows = [row for rows in races for row in rows]
        found.append({"model": preset, "threads": asked.threads, "rounds": asked.rounds, "rows": rows,
                      "held": f", all held to {asked.cpu}" * bool(asked.cpu)})  # fmt: skip
    return found


def tell(found: list[dict[str, Any]]) -> None:
    head = ["lines", "beam", "who", "seconds", "spread", "to CTranslate2 int8", "peak memory", "words written"]
    for model in found:
        print(f"\n### {model['model']}, from process start to last line\n")
        print(f"{model['threads']} cores, {model['rounds']} rounds{model['held']}\n")
        rows = [
            [f"{row['lines']:,}", str(row["beam"]), row["who"], f"{row['seconds']:.2f}", f"{row['spread']:.0%}",
             f"{row['as_fast']:.2f}x", f"{row['peak_mb']:,.0f} MB", f"{row['words']:,}"]
            for row in model["rows"]
        ]  # fmt: skip
        print(table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="From process start to last line, beside CTranslate2.")
    parser.add_argument("--preset", nargs="+", choices=PRESETS, default=["small", "base"])
    parser.add_argument("--model", type=Path, help="a model folder instead of random weights; it is copied")
    parser.add_argument("--text", type=Path, help="a file of source sentences; Multi30k's if none")
    parser.add_argument("--lines", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--cpu", choices=CPUS, default="", help="instructions that all are held to; the newest if none")
    asked = arguments(parser, rounds=3, threads=os.cpu_count() or 1, use="of each program")
    hold_to(asked.cpu)
    if not find_spec("ctranslate2"):
        raise SystemExit("there is nothing to compare with: run pip install ctranslate2")
    show(measure(asked), tell, as_json=asked.json)


if __name__ == "__main__":
    main()
