"""python tests/attack/table.py build/attack.jsonl: what `make attack` found, as a table for docs/results/attack.md."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def main(path: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for text in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        rows[row["given"].partition(" ")[0]].append(row)
    print("| command | bad inputs | faults | slowest | most memory |\n|---|---:|---:|---:|---:|")
    every = [row for some in rows.values() for row in some]
    for name, some in [*sorted(rows.items()), ("all", every)]:
        slowest, most = max(row["seconds"] for row in some), max(row["bytes"] for row in some)
        faults = sum(bool(row["fault"]) for row in some)
        print(f"| {name} | {len(some):,} | {faults} | {slowest:.0f} s | {most / 2**20:,.0f} MB |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
