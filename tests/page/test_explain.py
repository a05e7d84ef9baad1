"""The page of `qkv explain -o page.html` in a real browser: whole in itself, readable, and its numbers are right."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from qkv.look.explain import explain
from qkv.look.page import number, save
from qkv.look.steps import Step, worked_example
from qkv.opening import load_translator

Open = Callable[..., Any]
TEXT = "1 4 <i>&"


@pytest.fixture(scope="module")
def steps(model: Path) -> list[Step]:
    return explain(load_translator(model), TEXT, layer=2, head=3)


@pytest.fixture(scope="module")
def file(steps: list[Step], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(steps, tmp_path_factory.mktemp("explain") / "steps.html", f"How attention reads: {TEXT}")


def cells(page: Page, title: str) -> list[list[str]]:
    """The numbers of the table with this title, as the browser shows them."""
    rows = page.get_by_role("region", name=title, exact=True).locator("tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def test_every_number_is_the_models_own(window: Open, file: Path, steps: list[Step]) -> None:
    """Compared with the steps that Python gives; text with signs of HTML in it stays text; nothing is fetched."""
    opened = window()
    page: Page = opened.open(file.as_uri())
    for step in steps:
        shown = step.values if step.columns == step.rows else step.values[:, :16]
        assert cells(page, step.title) == [[number(value) for value in row] for row in shown.tolist()]
    regions = page.get_by_role("region", name="weights", exact=True)
    weights = next(step for step in steps if step.title == "weights")
    assert regions.locator("thead th").all_inner_texts() == weights.columns
    assert page.locator("h1").inner_text() == f"How attention reads: {TEXT}"
    assert page.locator("i").count() == 0
    assert [url for url in opened.requests if url != "about:blank"] == [file.as_uri()]


def test_the_command_writes_what_json_says(window: Open, tmp_path: Path) -> None:
    """Both by the command line: the worked example, unscaled, with the lecture's mask."""
    out = tmp_path / "page.html"
    command = [sys.executable, "-m", "qkv", "explain", "--unscaled", "--causal"]
    subprocess.run([*command, "-o", out], check=True, capture_output=True)
    told = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    page: Page = window().open(out.as_uri())
    for step in told:
        expected = [["-inf" if value is None else f"{value:.3f}" for value in row] for row in step["values"]]
        assert cells(page, step["title"]) == expected
    assert cells(page, "masked scores")[1] == ["10.000", "11.000", "-inf"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_anybody_can_read_it(
    window: Open,
    file: Path,
    axe: Callable[[Page], list[str]],
    shot: Callable[[Page, str], None],
    theme: str,
    width: int,
) -> None:
    """Axe finds no serious fault, wide or narrow, light or dark; wide tables scroll, the page does not."""
    page: Page = window(color_scheme=theme, viewport={"width": width, "height": 900}).open(file.as_uri())
    shot(page, f"explain-{theme}-{width}")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (theme == "light")


def test_the_worked_example_has_a_page(tmp_path: Path) -> None:
    written = save(worked_example(), tmp_path / "steps.html", "I am good").read_text(encoding="utf-8")
    assert written.count("<table>") == len(worked_example())
