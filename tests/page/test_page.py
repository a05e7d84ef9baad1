"""The page in a real browser: what it shows is what the server says, by mouse, by keyboard and by link."""

import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from qkv import manifest

Open = Callable[..., Any]
Shot = Callable[[Page, str], None]
PAUSE = 350  # milliseconds without a key, as in app.js
TEXT = "3 1 4"
SVG = "{http://www.w3.org/2000/svg}"


def ask(address: str, **wish: Any) -> Any:
    """What the API says, asked without any browser."""
    data = json.dumps(wish).encode() if wish else None
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def view(server: str) -> dict[str, Any]:
    """The view of TEXT, as the page asks for it."""
    name = ask(f"{server}api/models")["models"][0]["name"]
    wish = {
        "q": TEXT,
        "model": name,
        "beam": 5,
        "n_best": 5,
        "tokens": True,
        "alignment": True,
        "attention": True,
        "steps": True,
    }
    return ask(f"{server}api/translate", **wish)["translations"][0]


def link(server: str, **state: object) -> str:
    return f"{server}#" + "&".join(f"{key}={quote(str(value))}" for key, value in {"q": TEXT, **state}.items())


def readout(page: Page) -> Any:
    return page.locator("#panel .readout").first


def seen(token: str) -> str:
    return token.removeprefix("▁") or "␣"


def shown(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
def test_typing_translates_once_and_shows_the_translation(
    server: str, window: Open, view: dict[str, Any], late: bool
) -> None:
    """Though the models are known only while somebody types. The page's clock stands still meanwhile, so that a slow
    machine types as fast as any."""
    tab = window()
    models = tab.hold("**/api/models")
    page = tab.open(server)
    if not late:
        models.let_go()
        expect(page.get_by_label("Model").locator("option")).to_have_count(1)
    page.clock.install(time=0)
    page.clock.pause_at(600_000)  # later than any machine comes here
    page.get_by_label("Text to translate").press_sequentially(TEXT)
    if late:
        models.let_go()
        expect(page.get_by_label("Model").locator("option")).to_have_count(1)
    page.clock.run_for(PAUSE - 1)
    assert not any("api/translate" in url for url in tab.requests)
    page.clock.run_for(1)
    expect(page.locator(".translated")).to_have_text(view["translation"])
    assert sum("api/translate" in url for url in tab.requests) == 1, "one request for five keys"
    expect(page.locator("#result")).to_contain_text(f"score {shown(view['score'], 3)}")


SWEEP = """canvas => {
  const box = canvas.getBoundingClientRect(), told = canvas.closest("figure").querySelector(".readout"), found = [];
  for (let y = 1; y < box.height; y += 15) {
    for (let x = 1; x < box.width; x += 15) {
      canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.x + x, clientY: box.y + y}));
      found.push(told.textContent);
    }
  }
  return [...new Set(found)];
}"""


def test_the_cell_under_the_mouse_has_the_number_of_the_api(server: str, window: Open, view: dict[str, Any]) -> None:
    """The mouse goes all over each kind of map, of one head and of the mean: it meets all weights, no other."""
    page = window().open(link(server, kind="encoder", layer=1))
    for kind in ("Encoder", "Decoder", "Decoder to encoder"):
        page.get_by_role("radio", name=kind, exact=True).click()
        given = next(
            one for one in view["attention"] if one["kind"] == {"Decoder to encoder": "memory"}.get(kind, kind.lower())
        )
        for heads, which in (("head 3", given["weights"][2:3]), ("All", given["weights"])):
            page.get_by_role("button", name=heads, exact=True).click()
            told = "head 3" if len(which) == 1 else "mean of 4 heads"
            wanted = {
                f"{seen(row)} → {seen(column)}: {shown(sum(head[i][j] for head in which) / len(which))} ({told})"
                for i, row in enumerate(given["rows"])
                for j, column in enumerate(given["columns"])
            }
            page.locator("#panel canvas").hover()
            expect(readout(page)).to_contain_text("→")
            assert {text for text in page.locator("#panel canvas").evaluate(SWEEP) if "→" in text} == wanted


def test_words_show_what_they_are_aligned_with(server: str, window: Open, view: dict[str, Any]) -> None:
    page = window().open(link(server))
    for side, words in enumerate(("source_words", "target_words")):
        for i, word in enumerate(view[words]):
            button = page.locator(f'.word[data-side="{side}"][data-word="{i}"]')
            expect(button).to_have_text(word["text"])
            button.hover()
            partners = sorted(pair[1 - side] for pair in view["alignment"] if pair[side] == i)
            lit = page.locator(".word.there").evaluate_all(
                "all => all.map(one => [+one.dataset.side, +one.dataset.word])"
            )
            assert sorted(lit) == [[1 - side, other] for other in partners]


def test_every_step_of_the_search_is_there(server: str, window: Open, view: dict[str, Any]) -> None:
    page, ended = window().open(link(server, tab="decoding", step=1)), []
    for number, step in enumerate(view["steps"], start=1):
        rows = page.locator(".hypotheses tbody tr")
        expect(page.locator(".controls .faint").last).to_have_text(f"Step {number} of {len(view['steps'])}")
        found = rows.evaluate_all(
            "rows => rows.map(({cells}) => [Array.from(cells[1].children, t => t.textContent), cells[2].textContent])"
        )
        live = [[[seen(token) for token in one["tokens"]], shown(one["score"], 3)] for one in step["live"]]
        assert found == live
        finished = page.locator(".hypotheses ol li .score").all_inner_texts()
        ended += [one["score"] for one in step["finished"]]
        assert finished == [shown(score, 3) for score in sorted(ended, reverse=True)]
        if number < len(view["steps"]):
            page.get_by_role("button", name="Next").click()


def test_the_steps_of_q_k_v_are_those_of_the_api(server: str, window: Open) -> None:
    steps = ask(f"{server}api/explain", q=TEXT, stack="decoder", layer=2, head=3)["steps"]
    page = window().open(link(server, tab="explain", stack="decoder", block=2, head=3))
    expect(page.locator(".steps > li")).to_have_count(len(steps))
    for card, step in zip(page.locator(".steps > li").all(), steps, strict=True):
        assert card.locator("h3").inner_text() == f"{step['title']} {step['equation']}"
        card.locator("canvas").focus()
        page.keyboard.press("ArrowDown")  # the first cell, as there was no cursor
        page.keyboard.press("End")
        last = step["values"][0][-1]
        number = "−∞" if last is None else shown(last)
        expect(card.locator(".readout")).to_have_text(f"{seen(step['rows'][0])}, {seen(step['columns'][-1])}: {number}")


def test_positions_architecture_and_curves_are_those_of_the_model(server: str, window: Open, shot: Shot) -> None:
    name = ask(f"{server}api/models")["models"][0]["name"]
    positions, boxes, curves = (
        ask(f"{server}api/models/{name}/{part}")[part] for part in ("positions", "architecture", "curves")
    )
    page = window().open(link(server, tab="positions"))
    table = page.locator('figure[data-name="positions"]')
    table.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(table.locator(".readout")).to_have_text(f"position 1, dimension 1: {shown(positions['table'][1][1])}")
    products = page.locator('figure[data-name="positions-products"]')
    products.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    expect(products.locator(".readout")).to_have_text(f"position 0 · position 0 = {shown(positions['gram'][0][0])}")
    shot(page, "positions")

    page.get_by_role("tab", name="Architecture").click()
    canvas = page.locator('figure[data-name="architecture"] canvas')
    canvas.focus()
    page.keyboard.press("ArrowDown")
    told = []
    for _ in boxes["boxes"]:
        told.append(readout(page).inner_text())
        page.keyboard.press("ArrowDown")
    encoder = [f"{box['label']}: {box['about']}" for box in boxes["boxes"] if box["stack"] == "encoder"]
    met = list(dict.fromkeys(text.split(" · ")[0] for text in told))
    assert met == list(dict.fromkeys(reversed(encoder))), "from the top down to the embedding"
    shot(page, "architecture")

    page.get_by_role("tab", name="Training").click()
    canvas = page.locator('figure[data-name="curves"] canvas')
    canvas.focus()
    page.keyboard.press("ArrowDown")
    step, loss = curves["train"][0]
    expect(readout(page)).to_have_text(f"step {step}: training loss {shown(loss, 3)}")
    shot(page, "curves")


# -- pictures --------------------------------------------------------------------------------------------------------


def test_a_picture_is_saved_as_svg_and_png(server: str, window: Open, view: dict[str, Any]) -> None:
    """The SVG has a cell for each weight, and the larger the weight, the nearer is its colour to the accent."""
    page = window().open(link(server, heads=1, layer=2, theme="light"))
    expect(page.locator("#panel canvas")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as svg").click()
    tree = ElementTree.fromstring(saved.value.path().read_text(encoding="utf-8"))
    given = next(one for one in view["attention"] if one["kind"] == "memory" and one["layer"] == 1)
    weights = [weight for row in given["weights"][0] for weight in row]
    fills = [re.fullmatch(r"rgb\((\d+),\d+,\d+\)", rect.get("fill", "")) for rect in tree.iter(f"{SVG}rect")]
    reds = [int(fill[1]) for fill in fills if fill][: len(weights)]
    accent = int(page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--accent')")[1:3], 16)
    assert reds == pytest.approx([255 + (accent - 255) * weight / max(weights) for weight in weights], abs=1)
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    assert [seen(row) for row in given["rows"]] == texts[: len(given["rows"])]

    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as png").click()
    data = saved.value.path().read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = (float(tree.get(side) or 0) for side in ("width", "height"))
    size = [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)]
    assert size == pytest.approx([2 * width, 2 * height], abs=2)


def test_every_view_has_a_picture_that_is_not_blank(server: str, window: Open, shot: Shot) -> None:
    page = window().open(link(server))
    for mode in ("Heat map", "Lines", "All heads"):
        page.get_by_role("radio", name=mode).click()
        expect(page.locator("#panel canvas")).to_be_visible()
        colours = page.locator("#panel canvas").evaluate(
            """canvas => {
              const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )
        assert colours > 20
        shot(page, f"attention-{mode.lower().replace(' ', '-')}")


# -- keyboard, links, languages, themes ------------------------------------------------------------------------------


def test_all_can_be_done_with_the_keyboard(server: str, window: Open, view: dict[str, Any]) -> None:
    """From an empty page to an enlarged head, with no mouse."""
    page = window().open(server)
    focused = "document.activeElement.id || document.activeElement.tagName.toLowerCase()"

    def tab_to(name: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate(focused) == name:
                return
        raise AssertionError(f"Tab never came to {name}")

    expect(page.get_by_label("Text to translate")).to_be_visible()
    tab_to("text")
    page.keyboard.type(TEXT)
    expect(page.locator(".translated")).to_have_text(view["translation"])
    tab_to("tab-attention")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "tab-decoding"
    page.keyboard.press("Home")
    for _ in range(2):  # past the kinds to the ways of showing
        page.keyboard.press("Tab")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="All heads")).to_be_checked()
    tab_to("canvas")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("radio", name="Heat map")).to_be_checked()
    expect(page.get_by_role("combobox", name="Layer")).to_have_value("2")
    expect(page.get_by_role("button", name="head 2")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="head 1")).to_have_attribute("aria-pressed", "false")


def test_a_link_carries_the_whole_view(server: str, window: Open) -> None:
    page = window().open(link(server))
    page.get_by_role("radio", name="Encoder", exact=True).click()
    page.get_by_role("combobox", name="Layer").select_option("1")
    page.get_by_role("combobox", name="Beam").select_option("3")
    page.get_by_role("button", name="head 2").click()
    page.get_by_role("button", name="head 4").click(modifiers=["Shift"])
    page.get_by_role("radio", name="Dark").click()
    page.locator("#panel canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    told, address = readout(page).inner_text(), page.url
    assert "mean of 2 heads" in told
    other = window().open(address)
    expect(readout(other)).to_have_text(told)
    expect(other.get_by_role("radio", name="Encoder", exact=True)).to_be_checked()
    expect(other.get_by_role("combobox", name="Beam")).to_have_value("3")
    expect(other.get_by_role("radio", name="Dark")).to_be_checked()
    expect(other.get_by_label("Text to translate")).to_have_value(TEXT)
    assert other.url == address


@pytest.mark.parametrize("tab", ["explain", "nonsense"])
def test_a_nonsense_link_still_shows_a_page(server: str, window: Open, tab: str) -> None:
    nonsense = {
        "layer": "0.5",
        "heads": "x,99,-1",
        "at": "900,900",
        "step": "-3",
        "mode": "?",
        "kind": "<b>",
        "beam": "many",
    }
    page = window().open(
        link(server, tab=tab, block=99 if tab != "explain" else 1, lang="xx", theme="pink", **nonsense)
    )
    expect(page.locator("#panel canvas").first).to_be_visible()
    expect(page.locator("#panel .readout").first).not_to_be_empty()


def test_it_speaks_chinese_too(server: str, window: Open, shot: Shot) -> None:
    page = window().open(link(server))
    page.get_by_role("radio", name="中文").click()
    expect(page.get_by_role("tab", name="注意力")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert "lang=zh" in page.url
    shot(page, "chinese")
    texts = page.evaluate("import('./strings.js').then(({LANGUAGES}) => LANGUAGES)")
    places = {
        name: {key: sorted(re.findall(r"\{\w+\}", text)) for key, text in words.items()}
        for name, words in texts.items()
    }
    assert places["en"] == places["zh"], "the same names, with the same places to fill"
    browser_language = window(locale="zh-CN").open(link(server))
    expect(browser_language.get_by_role("tab", name="注意力")).to_be_visible()


def test_dark_and_light(server: str, window: Open, shot: Shot) -> None:
    background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    page = window(color_scheme="dark").open(link(server))
    expect(page.locator("#panel canvas")).to_be_visible()
    assert max(page.evaluate(background)) < 60, "as the system says"
    page.get_by_role("radio", name="Light").click()
    assert min(page.evaluate(background)) > 200
    page.get_by_role("radio", name="Dark").click()
    assert max(page.evaluate(background)) < 60
    page.get_by_role("tab", name="Decoding").click()
    shot(page, "dark")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault_in_the_served_page(server: str, window: Open, axe: Open, theme: str) -> None:
    """Half of the tabs in each theme, the ways to show attention, and a page that nobody has typed into yet."""
    tab = window(bypass_csp=True)  # for axe, which is no part of the page
    page = tab.open(f"{server}#theme={theme}")
    expect(page.get_by_role("combobox", name="Model")).to_be_visible()
    assert axe(page) == []
    page = tab.open(link(server, theme=theme, lang="zh" if theme == "dark" else "en", mode="glance", at="0,1"))
    expect(page.locator("#panel canvas").first).to_be_visible()
    for one in page.get_by_role("tab").all()[theme == "dark" :: 2]:
        one.click()
        expect(page.locator("#panel canvas").first).to_be_visible()
        page.locator(".word").first.hover()
        assert axe(page) == []
    page.locator("#text").evaluate("field => { field.labels[0].remove(); field.placeholder = ''; }")
    assert [fault.split(":")[0] for fault in axe(page)] == ["label"], "axe would have told"


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_long_text_is_translated_and_the_page_says_why_there_is_no_picture(server: str, window: Open) -> None:
    tab = window()
    tab.expected.add(400)
    page = tab.open(f"{server}#q={quote('3 1 4 ' * 60)}")
    expect(page.locator("#panel")).to_contain_text("There are no pictures of this text")
    expect(page.locator(".translated")).not_to_be_empty()


def test_the_heads_of_a_long_sentence_come_layer_by_layer(
    model: Path, window: Open, serve: Open, tmp_path: Path
) -> None:
    """The first answer has means over heads; a layer that is looked at is asked for once, and has its four heads."""
    folder = shutil.copytree(model, tmp_path / "long")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    longer = {"longest_source": 400, "transformer": config["transformer"] | {"max_length": 800}}
    (folder / "config.json").write_text(json.dumps(config | longer), encoding="utf-8")
    manifest.seal(folder, ["config.json"])
    text = " ".join("314159265" * 41)  # 2 layers of 4 heads of 369 tokens: over a million numbers
    with serve("--model", folder) as address:

        def attention(**which: object) -> Any:
            return ask(f"{address}api/translate", q=text, model="long", attention=which)["translations"][0]["attention"]

        means, (heads,) = attention(kind="encoder"), attention(kind="encoder", layer=1)
        assert (heads["heads"], heads["remark"], len(means)) == (4, "", 2)
        assert [(one["heads"], one["all_heads"], bool(one["remark"])) for one in means] == [(1, 4, True)] * 2
        tab = window()
        page = tab.open(link(address, q=text, kind="encoder", layer=2, heads=3, at="7,5"))
        weight = f"{shown(heads['weights'][2][7][5])} (head 3)"
        expect(readout(page)).to_contain_text(weight)
        expect(page.locator("#panel .chip")).to_have_count(5)
        expect(page.locator("#panel .remark")).to_have_count(0)
        asked = lambda: sum("api/translate" in url for url in tab.requests)  # noqa: E731
        assert asked() == 2, "one for the view, one for the second layer"
        page.get_by_role("radio", name="All heads", exact=True).click()
        expect(page.locator("#panel canvas")).to_be_visible()
        page.get_by_role("radio", name="Heat map", exact=True).click()
        expect(page.locator("#panel canvas")).to_be_visible()
        assert asked() == 3, "the first layer came for the glance, nothing came twice"


def test_a_key_is_asked_for_once_and_is_in_no_link(model: Path, window: Open, serve: Open) -> None:
    """The server lets a page in by ?api_key=...; when its cookie is gone, the page itself asks."""
    with serve("--model", model, "--api-key", "open-sesame") as address:
        tab = window()
        tab.expected |= {400, 401, 403}
        page = tab.open(f"{address}?api_key=open-sesame#q={quote(TEXT)}")
        expect(page.locator(".translated")).not_to_be_empty()
        assert "sesame" not in page.url
        page.evaluate("sessionStorage.clear()")
        page.context.clear_cookies()
        page.get_by_label("Text to translate").fill("2 7 1")
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_label("API key")).to_have_value("")
        page.get_by_label("API key").fill("open-sesame")
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator(".translated")).not_to_be_empty()
        assert "sesame" not in page.url


def test_what_is_typed_as_a_key_stays_when_the_page_is_drawn_anew(model: Path, window: Open, serve: Open) -> None:
    """The answer to a wrong key comes while somebody is already typing the right one."""
    with serve("--model", model, "--api-key", "open-sesame") as address:
        tab = window()
        tab.expected |= {400, 401, 403}
        page = tab.open(f"{address}?api_key=open-sesame#q={quote(TEXT)}")
        expect(page.locator(".translated")).not_to_be_empty()
        page.evaluate("sessionStorage.clear()")
        page.context.clear_cookies()
        page.get_by_label("Text to translate").fill("2 7 1")
        page.get_by_label("API key").fill("wrong")
        models = tab.hold("**/api/models")
        page.get_by_role("button", name="Use this key").click()
        models.wait()
        page.evaluate("document.querySelector('[role=alert]').id = 'old'")
        page.get_by_label("API key").press_sequentially("open")
        models.let_go()
        page.unroute("**/api/models")
        expect(page.locator("[role=alert]:not(#old)")).to_be_visible()
        page.keyboard.type("-sesame")
        expect(page.get_by_label("API key")).to_have_value("open-sesame")
        page.keyboard.press("Enter")
        expect(page.locator(".translated")).not_to_be_empty()


def test_no_key_is_lost_when_the_models_come_late(server: str, window: Open) -> None:
    """The page is drawn anew when they come; whoever is typing goes on typing."""
    opened = window()
    models = opened.hold("**/api/models")
    page = opened.open(server)
    page.locator("#text").focus()
    page.keyboard.type("3 1")
    models.let_go()
    expect(page.get_by_label("Model").locator("option")).to_have_count(1)
    expect(page.locator("#tab-attention")).to_be_visible()
    page.keyboard.type(" 4")
    expect(page.locator("#text")).to_have_value("3 1 4")


def test_one_way_alone_cannot_be_swapped(server: str, window: Open) -> None:
    page = window().open(server)
    expect(page.get_by_role("button", name="Swap the languages")).to_be_disabled()


def test_a_picture_that_needs_no_text_stays_when_a_translation_comes(server: str, window: Open) -> None:
    opened = window()
    translation = opened.hold("**/api/translate")
    page = opened.open(link(server, tab="positions"))
    table = page.locator('figure[data-name="positions"]')
    table.locator("canvas").focus()
    page.keyboard.press("ArrowDown")
    told = table.locator(".readout").inner_text()
    translation.let_go()
    expect(page.locator(".translated")).to_be_visible()
    assert table.locator(".readout").inner_text() == told
    page.keyboard.press("ArrowDown")
    expect(table.locator(".readout")).not_to_have_text(told)


def test_a_text_typed_long_before_the_models_are_known_is_asked_for_once(server: str, window: Open) -> None:
    tab = window()
    models = tab.hold("**/api/models")
    page = tab.open(server)
    page.get_by_label("Text to translate").fill(TEXT)
    page.wait_for_timeout(2 * PAUSE)
    models.let_go()
    expect(page.locator(".translated")).to_be_visible()
    page.wait_for_timeout(2 * PAUSE)
    assert sum(url.endswith("/api/translate") for url in tab.requests) == 1


def test_a_text_that_was_deleted_is_not_translated(server: str, window: Open) -> None:
    """Though its translation was under way: what comes later is not shown under an empty field."""
    opened = window()
    translation = opened.hold("**/api/translate")
    page = opened.open(server)
    page.get_by_label("Text to translate").fill(TEXT)
    expect(page.locator("#status")).to_have_text("Translating …")
    translation.wait()
    with page.expect_event("requestfailed"):
        page.get_by_label("Text to translate").fill("")
    expect(page.locator("#status")).to_have_text("")
    assert len(translation.routes) == 1
