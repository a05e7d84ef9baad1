"""python tests/attack/table.py build/attack: what `make attack` found, as a page."""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
WANTED = {"inputs": 1000, "flips": 1000, "kills": 100, "requests": 100_000, "slow": 500, "load": 1200}
HEAD = """# What attacks found

`make attack` tries what should bring qkv down; `make attack QKV_ATTACK=short` does so in some minutes. This page is
written by `tests/attack/table.py` from what it saw. A fault is a traceback, a hang, a process that holds 2 GB or
outlives its command, a status 500, a changed byte that nobody sees, or an end that differs after a kill.
"""
OF_INPUTS = """
A process that has imported torch and all commands holds 0.3 GB before it is given anything. `serve` and `demo`, which
need not end, are asked to end after 4 seconds."""
OF_FLIPS = """
Harmless is what gives the same output to the last bit: of a model its translations, scores and alignments by every
engine that has a file in the folder; of a run that goes on, its weights at the end and the files beside them. Not tried
are the log and the curves of a run, which are written for people and which nothing is computed from."""
OF_LOADING = """
A Transformer of random weights is loaded with and without a look at their checksum, each in a process of its own that
has imported torch, the file in the page cache: the best of three."""


def main(place: Path) -> None:
    parts = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in place.glob("*.jsonl")}
    made = {name: made_by(name, rows) for name, rows in parts.items()}
    print(HEAD)
    print(f"Python {sys.version.split()[0]}. A + is a commit with changes.\n")
    print("| part | tried | of | faults | slowest | most memory | commit |\n|---|---:|---:|---:|---:|---:|---|")
    for name, wanted in WANTED.items():
        print(f"{summary(name, wanted, parts.get(name, []))} {made.get(name, '')} |")
    tables = {"inputs": commands, "flips": files, "kills": kinds, "requests": statuses, "loading": loads}
    for name, table in tables.items():
        if parts.get(name):
            table(parts[name])
    faults = [
        f"- {name}: {row['given']}: {row['fault'][:300]}"
        for name, rows in parts.items()
        for row in rows
        if row["fault"]
    ]
    print("\n".join(["\n## Faults\n", *faults]) if faults else "\nNo fault.")


def made_by(name: str, rows: Rows) -> str:
    """The one commit that was tried, and the last day."""
    commits = sorted({row.get("commit", "none") for row in rows})
    if len(commits) > 1:
        raise SystemExit(f"{name}.jsonl has rows of several commits ({', '.join(commits)}); try that part anew")
    return f"{commits[0]}, {max(row['date'] for row in rows)}" if rows else ""


def summary(name: str, wanted: int, rows: Rows) -> str:
    about = {
        "inputs": "bad inputs", "flips": "bits flipped", "kills": "kills", "requests": "requests of noise",
        "slow": "slow connections", "load": "seconds of mixed load",
    }  # fmt: skip
    tried = len(rows) if name in ("inputs", "flips") else sum(not row.get("is_end") for row in rows)
    if name in ("requests", "slow"):
        tried = sum(row["given"] for row in rows)
    elif name == "load":
        tried = sum(row["seconds"] for row in rows)
    faults = sum(row.get("faults", bool(row["fault"])) for row in rows)
    seconds, most = (max((row.get(key, 0) for row in rows), default=0) for key in ("seconds", "bytes"))
    time, memory = f"{seconds:,.0f} s" if seconds else "", f"{most / 2**20:,.0f} MB" if most else ""
    more = f", {sum(row['given'] for row in rows):,} requests" if name == "load" and rows else ""
    return f"| {about[name]}{more} | {tried:,} | {wanted:,} | {faults if rows else ''} | {time} | {memory} |"


def by(rows: Rows, which: Iterable[str]) -> dict[str, Rows]:
    found = defaultdict[str, Rows](list)
    for key, row in zip(which, rows, strict=True):
        found[key].append(row)
    return dict(sorted(found.items()))


def loads(rows: Rows) -> None:
    print("\n## The check of weights\n\n| model | check | wall | processor | most memory |\n|---:|---|---:|---:|---:|")
    for row in rows:
        size, most = f"{row['size'] / 1e6:,.0f} MB", f"{row['bytes'] / 2**20:,.0f} MB"
        print(f"| {size} | {row['given']} | {row['wall']:.2f} s | {row['cpu']:.2f} s | {most} |")
    print(f"{OF_LOADING} Commit {rows[0]['commit']}, {rows[0]['date']}.")


def commands(rows: Rows) -> None:
    print("\n## Bad inputs\n\n| command | tried | faults | slowest | most memory |\n|---|---:|---:|---:|---:|")
    for name, some in by(rows, (row["given"].split()[0] for row in rows)).items():
        slowest, most = max(row["seconds"] for row in some), max(row["bytes"] for row in some) / 2**20
        faults = sum(bool(row["fault"]) for row in some)
        print(f"| {name} | {len(some)} | {faults} | {slowest:.0f} s | {most:,.0f} MB |")
    print(OF_INPUTS)


def files(rows: Rows) -> None:
    print("\n## Flipped bits\n\n| file | flipped | seen | harmless | unseen |\n|---|---:|---:|---:|---:|")
    names = (f"{row['folder']}/{row['given'].split(' byte ')[0]}" for row in rows)
    for name, some in by(rows, names).items():
        how = Counter("unseen" if row["fault"] else row["how"] for row in some)
        print(f"| {name} | {len(some)} | {how['seen']} | {how['harmless']} | {how['unseen']} |")
    print(OF_FLIPS)


def kinds(rows: Rows) -> None:
    print("\n## Kills\n\n| command | killed | faults |\n|---|---:|---:|")
    for name, some in by(rows, (row["given"].split()[0] for row in rows)).items():
        print(f"| {name} | {sum(not row.get('is_end') for row in some)} | {sum(bool(row['fault']) for row in some)} |")


def statuses(rows: Rows) -> None:
    total = sum((Counter(row["statuses"]) for row in rows), Counter[str]())
    print("\n## Noise\n\n| status | answers |\n|---|---:|")
    for status, number in sorted(total.items()):
        print(f"| {'none, to what is no HTTP' if status == '499' else status} | {number:,} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
