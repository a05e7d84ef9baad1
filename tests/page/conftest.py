"""A real browser on the page of a real `qkv serve`, with a small model that was really trained."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

import qkv
from kit import DIGITS, FACTS, save_untrained, save_untrained_task, write_tsv
from qkv import manifest
from qkv.text.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "page"
AXE = ROOT / "build" / "clients" / "node_modules" / "axe-core" / "axe.min.js"
HOST = "127.0.0.1"
PATIENCE = 60_000  # milliseconds; what is awaited comes at once on an idle machine


def absent(what: str) -> None:
    """Skip in plain words; on CI, where everything must be there, fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits to words, after a few steps of training: its attention is real, its translations need not be good."""
    place = tmp_path_factory.mktemp("page")
    digits = [(a, b, c) for a in range(10) for b in range(10) for c in (1, 4, 7)]
    pairs = [(" ".join(map(str, some)), " ".join(DIGITS[digit] for digit in some)) for some in digits]
    write_tsv(place / "numbers.tsv", pairs)
    sizes = {"d_model": 32, "d_ff": 64, "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    training = {"steps": 80, "validate_every": 40, "bleu_sentences": 4, "threads": 1, "precision": "float32",
                "learning_rate": 0.01, "schedule": "cosine(warmup=10)"}  # fmt: skip
    data = {"vocab_size": 310, "batch_tokens": 256}
    qkv.train(place / "numbers.tsv", source="num", target="en", out=place / "numbers", quiet=True,
              model=sizes, training=training, data=data)  # fmt: skip
    return place / "numbers"


@pytest.fixture(scope="session")
def back(model: Path) -> Path:
    """The same weights as if they went the other way, so that words are read: what they write is nonsense."""
    folder = shutil.copytree(model, model.parent / "back")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    other = {"source": "en", "target": "num", "longest_source": 40}
    (folder / "config.json").write_text(json.dumps(config | other), encoding="utf-8")
    manifest.seal(folder, ["config.json"])
    return folder


@pytest.fixture(scope="session")
def both_ways(model: Path, back: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of two translators and a summariser."""
    words = Tokenizer.train([f"{WORDS} ."] * 3, vocab_size=300)
    about = {"task": "summarise", "max_length": 24, "max_target": 12}
    tldr = save_untrained(tmp_path_factory.mktemp("tldr") / "tldr", "gpt2", words, about, max_length=48)
    with serving("--model", model, back, tldr) as address:
        yield address


WORDS = "the old king saw two stars and a queen"
QUICK = {"steps": 5, "threads": 1, "precision": "float32"}


@pytest.fixture(scope="session")
def task_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each task but translation, after a few steps of training."""
    place = tmp_path_factory.mktemp("tasks")
    book, reviews = place / "book.txt", place / "reviews.tsv"
    book.write_text("\n".join(f"the old king saw {i} stars and a queen ." for i in range(300)))
    marks = [("good", "fine"), ("bad", "dull")]
    reviews.write_text("".join(f"{label}\tfilm {i} is {word} .\n" for i in range(40) for label, word in marks))
    small = {"d_model": 32, "n_heads": 2, "layers": 1, "dropout": 0.0}
    qkv.train(book, out=place / "lm", quiet=True, data={"vocab_size": 320, "window": 64},
              model={**small, "max_length": 1024}, training=QUICK)  # fmt: skip
    qkv.train(book, task="fill", out=place / "bert", quiet=True, data={"vocab_size": 320, "window": 32},
              model={**small, "max_length": 32}, training=QUICK)  # fmt: skip
    qkv.train(reviews, task="classify", out=place / "critic", quiet=True, data={"vocab_size": 300},
              model={"d_embedding": 8, "d_model": 8}, training=QUICK)  # fmt: skip
    words = Tokenizer.train([f"{WORDS} in 1911 ?"] * 3, kind="wordpiece", vocab_size=320)
    others = {name: save_untrained_task(place / name, name, words, FACTS[name]) for name in FACTS}
    return {name: place / name for name in ("critic", "lm", "bert")} | others


@pytest.fixture(scope="session")
def tasks_server(model: Path, task_folders: dict[str, Path]) -> Iterator[str]:
    """Models of all tasks on one server, a classifier first."""
    with serving("--model", *task_folders.values(), model) as address:
        yield address


@contextmanager
def serving(*arguments: object) -> Iterator[str]:
    """The address of `qkv serve` with these arguments, until the end of the block."""
    command = [sys.executable, "-m", "qkv", "serve", "--port", "0", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("QKV_API_KEY", None)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        address = re.search(rf"http://{HOST}:\d+/", first)
        assert address, f"qkv serve said {first!r}"
        yield address[0]
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[str]]:
    return serving


@pytest.fixture(scope="session")
def axe() -> Callable[[Page], list[str]]:
    """What axe-core finds in a page that seriously hinders people with a screen reader or weak eyes."""
    if not AXE.exists():
        absent("axe-core is not here; npm install --prefix build/clients axe-core brings it")
    code = AXE.read_text(encoding="utf-8")

    def serious(page: Page) -> list[str]:
        page.evaluate(code)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        hinders = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {one['nodes'][0]['html'][:90]}" for one in hinders]

    return serious


@pytest.fixture(scope="session")
def server(model: Path) -> Iterator[str]:
    with serving("--model", model) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        absent("there is no chromium here to open the page with; make browser installs it")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Held:
    """Requests of a page to one address, none of which is answered before it is let go."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.routes: list[Route] = []
        page.route(address, lambda route: self.routes.append(route))

    def wait(self) -> None:
        """Until the page has asked: on a busy machine that may be long after it was loaded."""
        for _ in range(PATIENCE // 10):
            if self.routes:
                return
            self.page.wait_for_timeout(10)
        pytest.fail("the page has not asked")

    def let_go(self) -> None:
        self.wait()
        self.routes.pop(0).continue_()


class Window:
    """A tab that remembers what it asked for and what went wrong in it."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.expected: set[int] = set()  # statuses that a test provokes
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "console", lambda told: self.faults.append(told.text) if told.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def check(self) -> None:
        """Nothing was asked of any other machine, and nothing went wrong that was not provoked."""
        outside = [
            url for url in self.requests if not re.match(rf"(http://{HOST}:\d+/|file:///|blob:|data:|about:)", url)
        ]
        assert outside == []
        provoked = [f"status of {status} " for status in self.expected]
        assert [fault for fault in self.faults if not any(status in fault for status in provoked)] == []

    def hold(self, address: str) -> Held:
        return Held(self.page, address)

    def open(self, address: str) -> Page:
        """A page whose pictures are all drawn; the same address again is loaded again."""
        self.page.goto("about:blank")
        self.page.goto(address)
        return self.page


Open = Callable[..., Window]


@pytest.fixture
def window(browser: Browser) -> Iterator[Open]:
    """`window()` is a new tab with nothing remembered; every tab is checked at the end of the test."""
    contexts: list[BrowserContext] = []
    windows: list[Window] = []

    def make(**how: Any) -> Window:
        contexts.append(browser.new_context(**{"viewport": {"width": 1240, "height": 900}, "locale": "en-GB", **how}))
        contexts[-1].set_default_timeout(PATIENCE)
        windows.append(Window(contexts[-1]))
        return windows[-1]

    yield make
    for one in windows:
        one.check()
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def shot() -> Callable[[Page, str], None]:
    """Write a picture of the whole page to build/page, for people to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=SHOTS / f"{name}.png", full_page=True) and None
