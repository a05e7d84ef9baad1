"""A server under strange input: whatever it is sent, it answers with a sentence, and its log holds no traceback.

    python benchmarks/fuzz.py --model model --cases 200

Starts `qkv serve` as a process and sends three kinds of cases: requests that schemathesis makes from the server's own
OpenAPI description, good ones and bad ones; texts that hypothesis makes (NUL, halves of surrogate pairs, words without
end, writing from right to left, piles of combining marks, broken HTML); and a file of each format with damaged bytes.
Each route gets `--cases` of each kind that suits it. Exits with 1 if any answer is a 5xx other than 503, which means
"full", if a connection ends without an answer, or if the log holds a traceback. Every case has a connection of its own.
"""

import argparse
import io
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from figures import table
from machine import facts

PATIENCE = 120  # seconds for one answer; the server itself gives up after 60
LONGEST = 2**20  # characters of a word
CHARACTERS = 2000  # that the server takes at once: many cases say more than long ones
Ask = Callable[[], requests.Response]


class Tally:
    """What each route answered, and what the log said meanwhile."""

    def __init__(self, log: Path) -> None:
        self.log, self.answers, self.tracebacks = log, dict[str, Counter[str]](), Counter[str]()
        self.wrong: list[str] = []

    def count(self, route: str, ask: Ask, sent: object) -> requests.Response | None:
        if route not in self.answers:
            print(f"{time.strftime('%H:%M:%S')} {route}", file=sys.stderr, flush=True)
        try:
            answer = ask()
            status = answer.status_code
        except requests.ConnectionError:
            answer, status = None, 0
        kind = "503" if status == 503 else f"{status // 100}xx" if status else "none"
        self.answers.setdefault(route, Counter())[kind] += 1
        seen = self.log.read_text(encoding="utf-8", errors="replace").count("Traceback")
        new = seen - self.tracebacks.total()
        self.tracebacks[route] += new
        if kind in ("5xx", "none") or new:
            self.wrong.append(f"{route} answered {status or 'nothing'} to {str(sent)[:300]!r}")
        return answer

    def rows(self) -> list[list[str]]:
        kinds = ["2xx", "4xx", "503", "5xx", "none"]
        found = [[route, str(counts.total()), *(str(counts[kind]) for kind in kinds), str(self.tracebacks[route])]
                 for route, counts in sorted(self.answers.items())]  # fmt: skip
        sums = [str(sum(int(row[i]) for row in found)) for i in range(1, len(found[0]))]
        return [*found, ["all", *sums]]


@contextmanager
def serving(model: Path, log: Path) -> Iterator[str]:
    """The address of a `qkv serve` that may keep suggestions and has its log in a file."""
    command = [sys.executable, "-m", "qkv", "serve", "--model", str(model), "--port", "0"]
    command += ["--characters", str(CHARACTERS), "--suggestions", str(log.with_name("better.jsonl"))]
    with log.open("wb") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert server.stdout is not None
    found = re.match(r"(http://\S+)/ is the page", server.stdout.readline())
    assert found, f"the server did not start: {log.read_text()}"
    try:
        yield found[1]
    finally:
        server.send_signal(signal.SIGTERM)
        print(server.communicate()[0].strip())


def repeatedly(strategy: Any, cases: int, number: int, work: Callable[[Any], object]) -> None:
    """Hand `cases` draws to `work`; the same ones for the same number."""

    @seed(number)
    @settings(max_examples=cases, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(strategy)
    def each(drawn: Any) -> None:
        work(drawn)

    each()


# -- by the description ----------------------------------------------------------------------------------------------


def described(url: str, tally: Tally, cases: int, number: int) -> None:
    """Every operation of GET /spec: cases that keep to the description, and cases that break it."""
    schema = schemathesis.openapi.from_url(f"{url}/spec")
    for found in schema.get_all_operations():
        operation = found.ok()
        route = f"{operation.method.upper()} {operation.path}"
        for mode in schemathesis.GenerationMode:
            try:
                strategy = operation.as_strategy(generation_mode=mode)
                repeatedly(strategy, cases, number, lambda case, route=route: called(case, tally, route))
            except Exception as error:  # an operation without input cannot be asked in a wrong way
                if "nsatisfiable" not in type(error).__name__:
                    raise


def called(case: Any, tally: Tally, route: str) -> None:
    tally.count(route, lambda: case.call(timeout=PATIENCE), case.as_curl_command())


# -- by texts --------------------------------------------------------------------------------------------------------

PIECES = [
    "\0", "\ud83d", "\udc15", "\ufeff", "\u202e", "\u200d", "\u2028", "\x1f", "\r", "שלום", "مرحبا", "ก็", "狗。",
    "🐕‍🦺", "{{x}}", "%1$s", "%", "<b>", "</b>", "<p ", "&amp", "&#0;", "&#xD800;", "<!--", "<![CDATA[", "<script>",
    "</", '="', "`", "[[", "]]", "http://", "a@b.c", "123", "dog", "Two dogs play in the snow.", "\n\n", "\t", " " * 50,
]  # fmt: skip
ANY_CHARACTER = st.characters(codec=None)  # halves of surrogate pairs among them
TEXTS = st.one_of(
    st.text(ANY_CHARACTER, min_size=1, max_size=300),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=40).map("".join),
    st.tuples(st.sampled_from(["x", "狗", "a\u0301", "a\u0301\u0323"]), st.sampled_from([10, 100, 500])).map(
        lambda found: found[0] * found[1]
    ),
    st.sampled_from("x狗").map(lambda letter: letter * LONGEST),
)
WAYS: dict[str, list[dict[str, Any]]] = {
    "/translate": [{"format": "text", "alternatives": 2}, {"format": "html"}, {"source": "auto"}],
    "/detect": [{}],
    "/suggest": [{"s": "Hund"}],
    "/api/translate": [{}, {"tokens": True, "alignment": True, "attention": True, "steps": True, "beam": 2}],
    "/api/explain": [{}],
}


def texts(url: str, tally: Tally, cases: int, number: int, pair: dict[str, str]) -> None:
    """Every route that reads a text: as JSON, as a form and in the query."""
    for path, ways in WAYS.items():
        fields = {} if path in ("/detect", "/api/explain") else pair
        sending = ["json"] if path.startswith("/api/") else ["json", "form", "query"]

        def ask(drawn: tuple[str, dict[str, Any], str], path: str = path, fields: dict[str, str] = fields) -> None:
            text, way, how = drawn
            wish = {"q": text, **fields, **way}
            tally.count(f"POST {path}", lambda: sent(url + path, wish, how), wish)

        repeatedly(st.tuples(TEXTS, st.sampled_from(ways), st.sampled_from(sending)), cases, number, ask)


def sent(address: str, wish: dict[str, Any], how: str) -> requests.Response:
    if how == "json":
        data, kind = json.dumps(wish).encode(), "application/json"
        return requests.post(address, data, headers={"Content-Type": kind}, timeout=PATIENCE)
    encoded = {name: str(value).encode("utf-8", "surrogatepass") for name, value in wish.items()}
    if how == "query" and len(encoded["q"]) < 60_000:
        return requests.post(address, params=encoded, timeout=PATIENCE)
    return requests.post(address, encoded, timeout=PATIENCE)


# -- by files --------------------------------------------------------------------------------------------------------

XLIFF = "urn:oasis:names:tc:xliff:document:1.2"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
FILES = {
    "a.txt": "Two dogs play.\n\n\tA man, {name}, stands on 3 ladders.\n",
    "a.srt": "1\n00:00:01,000 --> 00:00:02,500\n<i>Two dogs</i>\nplay.\n\n2\n00:00:03,000 --> 00:00:04,000\nSnow.\n",
    "a.vtt": "WEBVTT\n\nNOTE one\n\n00:01.000 --> 00:02.000 align:start\n<v Ann>Two dogs play.\n",
    "a.html": '<!doctype html><title>Dogs</title><p title="A dog">Two <b>dogs</b> play &amp; run.<br><pre>x</pre>',
    "a.md": "---\ntitle: x\n---\n# Two *dogs*\n\n| a | b |\n|---|---|\n| dog | [snow](http://a.b) |\n\n```\nx\n```\n",
    "a.po": 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\nmsgid "%d dog"\nmsgid_plural "%d dogs"\n'
            'msgstr[0] ""\nmsgstr[1] ""\n',
    "a.xlf": f'<?xml version="1.0"?><xliff version="1.2" xmlns="{XLIFF}"><file source-language="en" '
             'target-language="de" original="x" datatype="plaintext"><body><trans-unit id="1"><source>Two '
             '<g id="1">dogs</g></source></trans-unit></body></file></xliff>',
    "a.tmx": '<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Two '
             '<bpt i="1">b</bpt>dogs<ept i="1">b</ept>.</seg></tuv></tu></body></tmx>',
    "a.docx": f'<?xml version="1.0"?><w:document xmlns:w="{WORD}"><w:body><w:p><w:pPr/><w:r><w:rPr><w:b/></w:rPr><w:t>'
              "Two dogs</w:t></w:r><w:r><w:t> play.</w:t></w:r></w:p></w:body></w:document>",
}  # fmt: skip


def packed(xml: bytes) -> bytes:
    """A Word file, as small as they come."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", xml)
    return whole.getvalue()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """No wound, or up to four: bytes changed, cut out, doubled, moved, put in, or the end missing."""
    for _ in range(rng.randint(0, 4)):
        start, size = rng.randrange(len(data) + 1), rng.choice([1, 2, 8, 40])
        before, piece, after = data[:start], data[start : start + size], data[start + size :]
        strange = rng.choice([b"\0", b"\xff\xfe", b"<", b"]]>", b"&x;", b"\xed\xa0\x80", b"\r"])
        changed = [rng.randbytes(len(piece)), b"", piece * 3, strange + piece]
        data = rng.choice([before, after + piece + before, *(before + new + after for new in changed)])
    return data


def files(url: str, tally: Tally, cases: int, number: int, pair: dict[str, str]) -> None:
    """A file of each format with wounds; of Word files the package, or the XML in it. What is translated is fetched."""
    for name, text in FILES.items():
        rng = random.Random(f"{number} {name}")
        for _ in range(cases):
            data = text.encode()
            if name.endswith(".docx"):
                data = packed(damaged(data, rng)) if rng.random() < 0.5 else damaged(packed(data), rng)
            else:
                data = damaged(data, rng)
            form = {"data": pair, "files": {"file": (name, data)}, "timeout": PATIENCE}
            route = f"POST /translate_file {Path(name).suffix}"
            answer = tally.count(route, lambda form=form: requests.post(f"{url}/translate_file", **form), (name, data))
            if answer is not None and answer.ok:
                place = answer.json()["translatedFileUrl"]
                ask = lambda place=place: requests.get(place, timeout=PATIENCE)  # noqa: E731
                tally.count("GET /download_file/{name}", ask, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=200, help="for each route and kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server stops, too
    config = json.loads((given.model / "config.json").read_text(encoding="utf-8"))
    pair = {"source": config["source"], "target": config["target"]}
    with tempfile.TemporaryDirectory() as place:
        tally = Tally(Path(place) / "log.txt")
        with serving(given.model, tally.log) as url:
            described(url, tally, given.cases, given.seed)
            texts(url, tally, given.cases, given.seed, pair)
            files(url, tally, given.cases, given.seed, pair)
        print(tally.log.read_text(encoding="utf-8", errors="replace")[-5000:], file=sys.stderr)
    print(facts())
    print(table(["route", "cases", "2xx", "4xx", "503", "other 5xx", "no answer", "tracebacks"], tally.rows()))
    for line in tally.wrong:
        print(line)
    raise SystemExit(1 if tally.wrong else 0)


if __name__ == "__main__":
    main()
