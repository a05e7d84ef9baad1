"""The page of models that read: the maps of all layers and heads, each number the server's own, and in one file."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import qkv
from kit import package
from qkv.look import look_at
from qkv.look.single import single_file
from qkv.look.view import view

Open = Callable[..., Any]
Shot = Callable[[Page, str], None]
TEXT = "the old king saw a queen"
HUNGRY = "A dog ate the food because it was hungry."


def looked_at(address: str, **wish: Any) -> Any:
    request = urllib.request.Request(
        f"{address}api/look", json.dumps(wish).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def readout(page: Page) -> Any:
    return page.locator("#panel .readout").first


@pytest.mark.parametrize(("name", "verb"), [("bert", "embed"), ("lm", "generate")])
def test_a_head_of_the_grid_is_enlarged_and_has_the_numbers_of_the_api(
    name: str, verb: str, tasks_server: str, window: Open, shot: Shot
) -> None:
    (last,) = looked_at(tasks_server, q=TEXT, model=name)["attention"][-1:]
    page = window().open(f"{tasks_server}#model={name}&verb={verb}&q={quote(TEXT)}")
    expect(page.get_by_role("radio", name="All heads")).to_have_attribute("aria-checked", "true")
    assert page.get_by_role("radiogroup", name="Attention of").count() == 0, "there is one kind"
    page.locator("#panel canvas").focus()
    for key in ("ArrowDown", *["ArrowDown"] * last["layer"], "End"):
        page.keyboard.press(key)
    expect(readout(page)).to_contain_text(f"layer {last['layer'] + 1}, head {last['heads']}")
    shot(page, f"reading-{name}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="Heat map")).to_have_attribute("aria-checked", "true")
    page.locator("#panel canvas").focus()
    for key in ("ArrowDown", "End"):
        page.keyboard.press(key)
    weight = last["weights"][-1][0][-1]
    rows = [token.removeprefix("▁") for token in last["rows"]]
    expect(readout(page)).to_have_text(f"{rows[0]} → {rows[-1]}: {weight:.4f} (head {last['heads']})")
    assert (weight == 0) is (name == "lm"), "a language model's first token sees nothing behind it"
    assert "mode=heat" in page.url, "the link carries it"


def test_a_picture_keeps_its_focus_and_its_cursor_when_the_answer_comes(tasks_server: str, window: Open) -> None:
    """The maps may be there before the answer is; what is drawn anew with it is where somebody is reading."""
    tab = window()
    vectors = tab.hold("**/api/embed")
    page = tab.open(f"{tasks_server}#model=bert&verb=embed&q={quote(TEXT)}")
    page.locator("#panel canvas").focus()
    page.keyboard.press("ArrowDown")
    vectors.let_go()
    expect(page.locator("#result table")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(readout(page)).to_contain_text("layer 1, head 2")


def test_another_text_is_read_anew(tasks_server: str, window: Open) -> None:
    page = window().open(f"{tasks_server}#model=lm&mode=heat&q=king")
    for text in ("the", "the old king"):
        with page.expect_response("**/api/look"):
            page.get_by_role("textbox").fill(text)
        tokens = looked_at(tasks_server, q=text, model="lm")["tokens"]
        page.locator("#panel canvas").focus()
        for key in ("ArrowDown", "End"):
            page.keyboard.press(key)
        expect(readout(page)).to_contain_text(f"→ {tokens[-1]}: 0.0000")


def test_a_text_that_is_too_long_is_told(tasks_server: str, window: Open) -> None:
    tab = window()
    tab.expected |= {400}
    page = tab.open(f"{tasks_server}#model=bert&verb=embed&q={quote('king ' * 60)}")
    expect(page.locator("#panel [role=alert]")).to_contain_text("tokens, but the model reads 32 at once")


def test_a_real_model_in_one_file(window: Open, tmp_path: Path, shot: Shot) -> None:
    """MiniLM, 6 layers of 12 heads: head 3 of layer 1 looks at the token before, as anyone can see in the grid."""
    minilm = qkv.load(package("minilm"))
    shown = view(minilm, HUNGRY, second="The cat slept.")
    first = look_at(minilm, HUNGRY, "The cat slept.").of_kind("encoder")[0][2]
    assert first.diagonal(offset=-1).mean() > 0.9
    file = tmp_path / "look.html"
    file.write_text(single_file(shown), encoding="utf-8")
    page: Page = window().open(file.as_uri())
    expect(page.locator(".translated")).to_have_text([HUNGRY, "The cat slept."])
    expect(page.locator("#result")).to_contain_text("17 tokens, special ones among them.")
    page.locator("#panel canvas").focus()
    page.keyboard.press("ArrowDown")
    told = [readout(page).inner_text()]
    for key in ("End", *["ArrowDown"] * 5):
        page.keyboard.press(key)
        told.append(readout(page).inner_text())
    assert [text.split(":")[0] for text in told] == [
        "layer 1, head 1", *(f"layer {layer}, head 12" for layer in range(1, 7))]  # fmt: skip
    shot(page, "minilm")
    page.get_by_role("radio", name="Lines").click()
    expect(page.locator("#panel canvas")).to_be_visible()
    shot(page, "minilm-lines")
