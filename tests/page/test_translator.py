"""The page as a translator: languages, whole texts, files, copying; on a phone and in Chinese, too."""

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

Open = Callable[..., Any]
Shot = Callable[[Page, str], None]
LINES = "Three one four. One five nine two.\n\nTwo seven one."
PHONE = {"viewport": {"width": 360, "height": 740}}


def ask(address: str, **wish: Any) -> Any:
    """What the API says, asked without any browser."""
    request = urllib.request.Request(address, json.dumps(wish).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def link(server: str, **state: object) -> str:
    return f"{server}#" + "&".join(f"{key}={quote(str(value))}" for key, value in state.items())


def test_a_text_keeps_its_lines_and_one_of_its_sentences_is_looked_at(both_ways: str, window: Open) -> None:
    """All of it is translated, as the API does it; the laboratory shows the sentence that is chosen."""
    (whole,) = ask(f"{both_ways}api/translate", q=LINES, model="back")["translations"]
    assert whole["translation"].count("\n") == 2
    tab = window()
    page = tab.open(link(both_ways, model="back"))
    page.get_by_label("Text to translate").fill(LINES)
    result = page.locator("#result .translated")
    expect(result).to_have_text(whole["translation"], use_inner_text=True)
    assert result.inner_text() == whole["translation"]
    menu = page.get_by_label("Sentence")
    expect(menu.locator("option")).to_have_text(["1. Three one four.", "2. One five nine two.", "3. Two seven one."])
    expect(page.locator('.word[data-side="0"]')).to_have_text(["Three", "one", "four."])
    menu.select_option("3")
    expect(page.locator('.word[data-side="0"]')).to_have_text(["Two", "seven", "one."])
    expect(result).to_have_text(whole["translation"], use_inner_text=True)
    other = window().open(page.url)
    expect(other.get_by_label("Sentence")).to_have_value("3")
    expect(other.locator('.word[data-side="0"]')).to_have_text(["Two", "seven", "one."])


def test_languages_are_chosen_over_all_models_and_swapped(both_ways: str, window: Open) -> None:
    tab = window()
    tab.expected.add(400)  # words are more tokens than the model of digits reads at once: there are no pictures of them
    page = tab.open(link(both_ways, q="3 1 4"))
    start, end = (page.get_by_role("combobox", name=name, exact=True) for name in ("From", "To"))
    expect(start.locator("option")).to_have_text(["num", "English"])
    expect(end.locator("option")).to_have_text(["English"])
    expect(page.get_by_label("Model")).to_have_value("numbers")
    expect(page.locator("#result .translated")).not_to_be_empty()
    said = page.locator("#result .translated").inner_text()
    page.get_by_role("button", name="Swap the languages").click()
    expect(page.get_by_label("Model")).to_have_value("back")
    expect(page.get_by_label("Text to translate")).to_have_value(said)
    (own,) = ask(f"{both_ways}api/translate", q=said, model="back", beam=5)["translations"]
    expect(page.locator("#result .translated")).to_have_text(own["translation"])
    start.select_option("num")
    expect(page.get_by_label("Model")).to_have_value("numbers")
    page.get_by_label("Model").select_option("tldr")
    expect(start).to_have_count(0)


def test_a_translation_is_copied(both_ways: str, window: Open) -> None:
    page = window(permissions=["clipboard-read", "clipboard-write"]).open(link(both_ways, q=LINES, model="back"))
    expect(page.locator("#result .translated")).not_to_be_empty()
    said = page.locator("#result .translated").inner_text()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == said


def test_a_file_is_translated_and_fetched(both_ways: str, window: Open, tmp_path: Path) -> None:
    tab = window()
    page = tab.open(link(both_ways, model="back"))
    (tmp_path / "letter.txt").write_text(LINES)
    expect(page.get_by_role("button", name="Translate a file")).to_be_visible()
    page.locator("#file").set_input_files(tmp_path / "letter.txt")
    with page.expect_download() as saved:
        page.get_by_role("link", name="letter.num.txt").click()
    (whole,) = ask(f"{both_ways}api/translate", q=LINES, model="back")["translations"]
    assert saved.value.suggested_filename == "letter.num.txt"
    assert saved.value.path().read_text() == whole["translation"]
    tab.expected.add(400)
    page.locator("#file").set_input_files({"name": "x.exe", "mimeType": "text/plain", "buffer": b"x"})
    expect(page.get_by_role("alert")).to_contain_text("file format not supported")


def test_a_summary_is_shown_with_what_was_read(both_ways: str, window: Open) -> None:
    text = "The king. A queen. " * 9
    (own,) = ask(f"{both_ways}api/summarise", q=text.strip(), model="tldr")["summaries"]
    page = window().open(link(both_ways, model="tldr", tab="architecture"))
    page.get_by_label("Document").fill(text)
    expect(page.locator("#result")).to_contain_text(f"{own['read']} of 18 sentences were read.")
    expect(page.locator("#result .translated")).to_have_text(own["text"])


def test_decoding_opens_at_its_first_step(both_ways: str, window: Open) -> None:
    page = window().open(link(both_ways, q="3 1 4", tab="decoding"))
    expect(page.locator("#panel")).to_contain_text("Step 1 of ")
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()


TABS = ["attention", "decoding", "explain", "positions", "architecture", "curves"]
HIDDEN = """all => all.filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && (box.left < -1 || box.right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1);
}).map((one) => one.outerHTML.slice(0, 90))"""


SEEN = "button, label, h2, h3, .stage, .about, canvas"


def test_on_a_phone_nothing_is_cut(both_ways: str, window: Open, shot: Shot) -> None:
    """No picture and no label is wider than the screen; of a model of two stacks both are there."""
    page = window(**PHONE).open(link(both_ways, q=LINES, model="back"))
    expect(page.locator(".word").first).to_be_visible()
    for tab in TABS:
        page.locator(f"#tab-{tab}").click()
        expect(page.locator("#panel canvas").first).to_be_visible()
        page.wait_for_function(f"() => ({HIDDEN})([...document.querySelectorAll('{SEEN}')]).length === 0")  # once drawn
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        shot(page, f"phone-{tab}")
    page.locator("#tab-architecture").click()
    expect(page.locator('figure[data-name="architecture"] canvas')).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as svg").click()
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", saved.value.path().read_text(encoding="utf-8"))
    assert {"Input embedding", "Output embedding", "Masked multi-head attention", "Softmax"} <= set(drawn)
    assert not [text for text in drawn if "…" in text]


ENGLISH = re.compile(r"[A-Za-z]{3,}")
MAY_BE = {"English", "BLEU", "numbers", "back", "tldr", "num", "transformer", "qkv", "softmax",
          "sinusoidal", "inf", "ScaledDot", "Softmax", "Shift"}  # fmt: skip


TYPED = "code, .token, .translated, .words, .alternatives, .save"  # and what the model makes of it


def test_the_page_is_whole_in_chinese(both_ways: str, window: Open) -> None:
    """Both languages have the same words; nothing but names and what was typed is left in Latin letters."""
    page = window(bypass_csp=True).open(link(both_ways, q="3 1 4", lang="zh"))
    missing = page.evaluate(
        """import("./strings.js").then(({ LANGUAGES: { en, zh } }) =>
             [...Object.keys(en).filter((key) => !(key in zh)), ...Object.keys(zh).filter((key) => !(key in en))])"""
    )
    assert missing == []
    expect(page.locator(".word").first).to_be_visible()
    page.add_style_tag(content=f":is({TYPED}) {{ display: none !important; }}")
    found = set()
    for tab in TABS:
        page.locator(f"#tab-{tab}").click()
        canvas = page.locator("#panel canvas").first
        expect(canvas).to_be_visible()
        found |= set(ENGLISH.findall(page.locator("#page").inner_text()))
        if tab == "architecture":
            canvas.focus()
            for key in ["ArrowDown"] * 16 + ["ArrowRight"] + ["ArrowUp"] * 16:
                page.keyboard.press(key)
                found |= set(ENGLISH.findall(page.locator("#panel .readout").first.inner_text()))
    assert found <= MAY_BE


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_axe_finds_no_serious_fault_in_the_translator(both_ways: str, window: Open, axe: Open, lang: str) -> None:
    page = window(bypass_csp=True, **PHONE).open(link(both_ways, q=LINES, model="back", lang=lang))
    expect(page.locator("#panel canvas")).to_be_visible()
    assert axe(page) == []


def test_the_description_is_readable_on_a_phone(both_ways: str, window: Open, axe: Open) -> None:
    page = window(bypass_csp=True, **PHONE).open(f"{both_ways}docs")
    expect(page.get_by_role("heading", name="POST /api/summarise")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert axe(page) == []
