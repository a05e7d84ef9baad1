"""A server under load: memory, wrong answers, latency and requests a second, by clients of our own on loopback.

    python benchmarks/load.py --model model --text test.en --minutes 20 --clients 8

Starts `qkv serve` as a process. Each text is translated once at the start by one client alone; from then on every
answer, whatever stands beside it in the batch, must be that one. Clients send single texts and small lists, wait for an
answer, ask again. Each row is a part of the time; "memory" is what the server holds at its end, where
what they share counts once. Answers of 429 and 503 are counted as refused and are no wrong answers.
"""

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROWS = 20  # parts of the time that are printed
LIST = 4  # texts of every third request


@dataclass
class Tally:
    """What the clients saw since the last row."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[list[float], int, int]:
        with self.lock:
            taken = (self.seconds, self.wrong, self.refused)
            self.seconds, self.wrong, self.refused = [], 0, 0
            return taken


def ask(url: str, q: list[str], pair: dict[str, str]) -> list[str]:
    data = json.dumps({"q": q, **pair}).encode()
    request = urllib.request.Request(f"{url}/translate", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return list(json.loads(answer.read())["translatedText"])


def client(url: str, truth: dict[str, str], pair: dict[str, str], tally: Tally, end: float, seed: int) -> None:
    rng = random.Random(seed)
    texts = list(truth)
    while time.monotonic() < end:
        q = rng.sample(texts, LIST if rng.random() < 1 / 3 else 1)
        started = time.monotonic()
        try:
            found = ask(url, q, pair)
        except urllib.error.HTTPError as error:
            with tally.lock:
                tally.refused += error.code in (429, 503)
                tally.wrong += error.code not in (429, 503)
            continue
        with tally.lock:
            tally.seconds.append(time.monotonic() - started)
            tally.wrong += sum(truth[text] != answer for text, answer in zip(q, found, strict=True))


def share(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def held(process: psutil.Process) -> int:
    """Bytes of a process and its children: a page that several have counts in parts (the proportional set)."""
    return sum(one.memory_full_info().pss for one in [process, *process.children(recursive=True)])


def measure(
    url: str, process: psutil.Process, truth: dict[str, str], pair: dict[str, str], minutes: float, n: int
) -> int:
    """Prints the table; the number of wrong answers."""
    begin, end = time.monotonic(), time.monotonic() + 60 * minutes
    tally = Tally()
    threads = [threading.Thread(target=client, args=(url, truth, pair, tally, end, seed)) for seed in range(n)]
    for thread in threads:
        thread.start()
    print("minute  requests/s   p50 ms   p95 ms  memory MB  refused  wrong", flush=True)
    wrong_in_all = 0
    for row in range(1, ROWS + 1):
        time.sleep(max(begin + 60 * minutes * row / ROWS - time.monotonic(), 0))
        seconds, wrong, refused = tally.take()
        wrong_in_all += wrong
        rate, memory = len(seconds) / (60 * minutes / ROWS), held(process) / 2**20
        middle, slow = (1000 * share(seconds, part) for part in (0.5, 0.95))
        at = (time.monotonic() - begin) / 60
        print(f"{at:6.1f} {rate:11.1f} {middle:8.0f} {slow:8.0f} {memory:10.1f} {refused:8d} {wrong:6d}", flush=True)
    for thread in threads:
        thread.join()
    return wrong_in_all + tally.take()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="source sentences, one on a line")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    lines = [line for line in given.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    command = [sys.executable, "-m", "qkv", "serve", "--model", str(given.model), "--port", "0"]
    started = time.monotonic()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.match(r"(http://\S+)/ is the page", server.stdout.readline())
    assert found, "the server did not start"
    url = found[1]
    print(f"started in {time.monotonic() - started:.1f} s")
    config = json.loads((given.model / "config.json").read_text(encoding="utf-8"))
    pair = {"source": config["source"], "target": config["target"]}
    truth = {line: ask(url, [line], pair)[0] for line in dict.fromkeys(lines[: given.sentences])}
    wrong = measure(url, psutil.Process(server.pid), truth, pair, given.minutes, given.clients)
    server.send_signal(signal.SIGTERM)
    print(server.communicate()[0].strip())
    print(f"wrong answers: {wrong}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
