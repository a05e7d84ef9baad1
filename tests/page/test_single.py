"""The page as one file: nothing breaks out of it, nothing is missing from it, and 512 tokens are no burden."""

import json
import random
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from qkv.errors import InputError
from qkv.look.single import PAGE, embeddable, single_file

Open = Callable[..., Any]
NASTY = '</script><img src=x onerror="document.title=1">'
FILES = sorted(PAGE.glob("*.js"))


def random_view(source: list[str], target: list[str], heads: int = 2) -> dict[str, Any]:
    """A view of the right form whose weights are random rows that sum to 1."""
    rng = random.Random(1)

    def weights(rows: int, columns: int) -> list[list[float]]:
        drawn = [[rng.random() ** 8 for _ in range(columns)] for _ in range(rows)]
        return [[round(value / sum(row), 4) for value in row] for row in drawn]

    sides = {"encoder": (source, source), "memory": (target, source)}
    attention = [
        {"kind": kind, "layer": 0, "name": kind, "heads": heads, "rows": rows, "columns": columns,
         "weights": [weights(len(rows), len(columns)) for _ in range(heads)]}
        for kind, (rows, columns) in sides.items()
    ]  # fmt: skip
    steps = [
        {"live": [{"tokens": target[: i + 1], "score": -float(i), "parent": 0}], "finished": []}
        for i in range(len(target))
    ]
    words = [[{"text": token, "tokens": [i]} for i, token in enumerate(side)] for side in (source, target)]
    return {
        "model": {"name": "made up"}, "text": " ".join(source), "translation": " ".join(target), "score": -1.5,
        "alternatives": [], "remarks": [], "source_tokens": source, "target_tokens": target,
        "token_scores": [0.0] * len(target), "source_words": words[0], "target_words": words[1],
        "alignment": [[i, i] for i in range(min(len(source), len(target)))], "attention": attention, "steps": steps,
    }  # fmt: skip


def opened(window: Open, tmp_path: Path, view: dict[str, Any], state: str = "", **extras: Any) -> Page:
    file = tmp_path / "look.html"
    file.write_text(single_file(view, extras), encoding="utf-8")
    page: Page = window().open(f"{file.as_uri()}#{state}")
    return page


# -- the file --------------------------------------------------------------------------------------------------------


class Scripts(HTMLParser):
    """What a parser of HTML takes for the content of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.kind: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.kind = dict(attrs)["type"]
            self.found.append((self.kind or "", ""))

    def handle_data(self, data: str) -> None:
        if self.kind:
            self.found[-1] = (self.kind, self.found[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self.kind = None


@given(st.text() | st.sampled_from([NASTY, "<!--", "]]>", "\u2028", "<SCRIPT>"]))
def test_no_text_breaks_out_of_the_data(text: str) -> None:
    html = f'<script type="application/json">{embeddable({"text": text})}</script><p>'
    assert [(kind, json.loads(data)) for kind, data in Scripts(html).found] == [("application/json", {"text": text})]


def test_the_file_is_whole() -> None:
    """Two scripts, the data as it was given, and nothing that would have to be fetched."""
    view = random_view([NASTY, "b"], ["x", "</s>"])
    html = single_file(view, {"curves": {"train": [[1, 2.5]], "valid": []}})
    data, code = Scripts(html).found
    assert json.loads(data[1]) == {"view": view, "curves": {"train": [[1, 2.5]], "valid": []}}
    assert code[0] == "module"
    assert not re.search(r"^(import|export) ", code[1], re.MULTILINE)
    assert not re.search(r'(src|href)="(?!data:)', re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert f"<title>{NASTY.replace('<', '&lt;')[:4]}" in html


@pytest.mark.parametrize(
    ("change", "extras", "sentence"),
    [
        ({"attention": ...}, {}, "the view has no 'attention'; give one that qkv.look.view made"),
        ({}, {"curve": 1}, "a page has no place for curve; give any of explain, positions, architecture, curves"),
        ({"score": float("inf")}, {}, "the view has numbers that JSON lacks (infinite, or none); give null for them"),
    ],
)
def test_what_no_page_can_show_is_refused(change: dict[str, Any], extras: dict[str, Any], sentence: str) -> None:
    view = {key: value for key, value in {**random_view(["a"], ["b"]), **change}.items() if value is not ...}
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        single_file(view, extras)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_modules_are_small_and_say_what_they_are_for(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("// "), "its first line says what it is for"
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 120
    starts = [i for i, line in enumerate(lines) if re.match(r"(export )?(async )?function ", line)]
    assert all(lines.index("}", start) - start < 50 for start in starts)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", "\n".join(lines)), "nothing from outside"
    assert "innerHTML" not in "\n".join(lines), "text is only ever text"


# -- in a browser ----------------------------------------------------------------------------------------------------


def test_it_opens_with_no_server_and_text_stays_text(window: Open, tmp_path: Path) -> None:
    view = random_view([NASTY, "Hund", "狗"], ["dog", NASTY, "</s>"])
    curves = {"train": [[1, 3.0], [2, 2.0]], "valid": [[2, 2.5, 10.0]]}
    page = opened(window, tmp_path, view, curves=curves)
    assert page.get_by_role("tab").all_inner_texts() == ["Attention", "Decoding", "Training"], "what there is data for"
    page.locator("#panel canvas").focus()
    page.keyboard.press("ArrowDown")
    memory = view["attention"][1]["weights"]
    mean = f"{(memory[0][0][0] + memory[1][0][0]) / 2:.4f}"
    expect(page.locator("#panel .readout")).to_have_text(f"dog → {NASTY}: {mean} (mean of 2 heads)")
    page.get_by_role("tab", name="Training").click()
    page.locator("#panel canvas").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#panel .readout")).to_have_text("step 1: training loss 3.000")
    assert page.locator("img").count() == 0
    assert NASTY in page.title()


def test_an_alignment_has_two_sides(window: Open, tmp_path: Path) -> None:
    """Crossing words, by keyboard: the first word of one side belongs to the last of the other."""
    view = {**random_view(["a", "b", "c"], ["x", "y", "z"]), "alignment": [[0, 2], [1, 2], [2, 1]]}
    page = opened(window, tmp_path, view)
    page.locator('.word[data-side="0"]').first.focus()
    told = page.locator(".words .readout")
    expect(told).to_have_text("a ↔ z")
    page.keyboard.press("End")
    expect(told).to_have_text("c ↔ y")
    expect(page.locator(".word.there")).to_have_text("y")
    page.keyboard.press("Tab")
    expect(told).to_have_text("x is aligned with nothing")
    page.keyboard.press("End")
    expect(told).to_have_text("z ↔ a b")


def test_512_tokens_are_drawn_with_few_elements(window: Open, tmp_path: Path) -> None:
    """A cell or a line for each of the 524,288 weights would be as many elements; canvas needs one for all."""
    tokens = [f"w{i}" for i in range(512)]
    view = random_view(tokens, tokens)
    page = opened(window, tmp_path, {**view, "attention": view["attention"][1:]}, "at=511,510&heads=2")
    for mode in ("Heat map", "Lines", "All heads"):
        page.get_by_role("radio", name=mode).click()
        expect(page.locator("#panel canvas")).to_be_visible()
        if mode == "Heat map":
            page.locator("#panel canvas").focus()
            for key in ("ArrowDown", "End", *["ArrowDown"] * 3):
                page.keyboard.press(key)
            weight = view["attention"][1]["weights"][1][3][511]
            expect(page.locator("#panel .readout")).to_have_text(f"w3 → w511: {weight:.4f} (head 2)")
        size = page.locator("#panel canvas").evaluate("canvas => [canvas.width, canvas.height]")
        assert max(size) < 4096, "a canvas that any browser can hold"
        assert page.locator("#panel *").count() < 100
    page.get_by_role("tab", name="Decoding").click()
    assert page.locator("*").count() < 2500, "two lines of 512 words, and the tokens of one step"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault(window: Open, tmp_path: Path, axe: Open, theme: str) -> None:
    view = random_view(["two", "dogs"], ["zwei", "Hunde", "</s>"])
    steps = [{"title": "queries", "equation": "q", "rows": ["a"], "columns": ["1"], "values": [[0.5]], "about": "One."}]
    boxes = [{"stack": "encoder", "label": "Softmax", "about": "x", "parameters": 3, "times": 1}]
    extras = {"explain": steps, "architecture": {"boxes": boxes}, "curves": {"train": [[1, 1.0]], "valid": []},
              "positions": {"table": [[1.0, 0.0]], "gram": [[1.0]]}}  # fmt: skip
    page = opened(window, tmp_path, view, f"theme={theme}&lang={'zh' if theme == 'dark' else 'en'}", **extras)
    for tab in page.get_by_role("tab").all()[theme == "dark" :: 2]:  # half of them in each theme
        tab.click()
        expect(page.locator("#panel canvas").first).to_be_visible()
        page.locator(".word").first.hover()
        assert axe(page) == []
