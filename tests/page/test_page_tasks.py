"""The page for models of each task: it shows what the server answers, in the way of the task."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

Open = Callable[..., Any]
Shot = Callable[[Page, str], None]
REVIEW = "film 3 is fine ."


def ask(address: str, **wish: Any) -> Any:
    """What the API says, asked without any browser."""
    request = urllib.request.Request(address, json.dumps(wish).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def rows(page: Page) -> list[list[str]]:
    """The names of a table of bars and the figures beside them."""
    found = page.locator("#result .bars tr").all()
    return [[row.locator("th").inner_text(), row.locator(".score").inner_text()] for row in found]


def test_a_classifier_shows_the_probability_of_each_label(tasks_server: str, window: Open, shot: Shot) -> None:
    page = window().open(tasks_server)
    page.get_by_label("Text", exact=True).fill(REVIEW)
    (own,) = ask(f"{tasks_server}api/predict", q=REVIEW, model="critic")["answers"]
    expect(page.locator(".translated")).to_have_text(own["label"])
    ranked = sorted(own["probabilities"].items(), key=lambda pair: -pair[1])
    assert rows(page) == [[name, f"{p:.3f}"] for name, p in ranked]
    widths = [bar.bounding_box()["width"] for bar in page.locator(".bar span").all()]
    cell = page.locator(".bar").first.bounding_box()["width"]
    assert widths == pytest.approx([p * cell for _, p in ranked], abs=0.05 * cell)
    shot(page, "classifier")
    elsewhere = window().open(page.url)
    expect(elsewhere.locator(".translated")).to_have_text(own["label"])


def test_the_views_are_those_that_a_model_has(tasks_server: str, window: Open) -> None:
    page = window().open(f"{tasks_server}#model=lm")
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_text(["Architecture", "Training"])
    page.get_by_role("tab", name="Training").click()
    expect(page.locator('#panel figure[data-name="curves"] canvas')).to_be_visible()
    page.get_by_label("Model").select_option("numbers")
    expect(tabs).to_have_count(6)


def test_a_language_model_writes_as_it_streams(tasks_server: str, window: Open, shot: Shot) -> None:
    page = window().open(f"{tasks_server}#model=lm&temperature=0&tokens=20&q={quote('the old king')}")
    (own,) = ask(f"{tasks_server}api/generate", q="the old king", tokens=20, model="lm")["texts"]
    expect(page.locator("#result")).to_contain_text("press Write")
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".written")).to_have_text(own["text"])
    expect(page.get_by_role("button", name="Write")).to_be_visible()
    expect(page.locator("#status")).to_have_text("")
    shot(page, "generator")


ENDLESS = """
const own = window.fetch;
window.fetch = (path, options) => {
  if (!path.includes("api/generate")) return own(path, options);
  const body = new ReadableStream({
    start(told) {
      told.enqueue(new TextEncoder().encode('data: {"row": 0, "piece": " and"}\\n\\n'));
      options.signal.addEventListener("abort", () => {
        window.wasAborted = true;
        told.error(options.signal.reason);
      });
    },
  });
  return Promise.resolve(new Response(body));
};
"""


def test_writing_is_stopped_by_its_button(tasks_server: str, window: Open) -> None:
    """What was written of a text without end stays, and the request is given up."""
    tab = window()
    tab.page.add_init_script(ENDLESS)
    page = tab.open(f"{tasks_server}#model=lm&q=the")
    page.get_by_role("button", name="Write").click()
    expect(page.locator(".written")).to_have_text("the and")
    expect(page.locator("#status")).to_have_text("Writing …")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Write")).to_be_visible()
    expect(page.locator(".written")).to_have_text("the and")
    expect(page.locator("#status")).to_have_text("")
    assert page.evaluate("window.wasAborted")


def test_what_goes_wrong_while_it_writes_is_told(tasks_server: str, window: Open) -> None:
    def answer(route: Route) -> None:
        told = [{"row": 0, "piece": " and"}, {"error": "it took too long"}]
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in told)
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    tab = window()
    tab.page.route("**/api/generate", answer)
    page = tab.open(f"{tasks_server}#model=lm&q=the")
    page.get_by_role("button", name="Write").click()
    expect(page.get_by_role("alert")).to_have_text("it took too long")
    expect(page.get_by_role("button", name="Write")).to_be_visible()


def test_a_filler_shows_the_words_for_each_hole(tasks_server: str, window: Open, shot: Shot) -> None:
    text = "the old <mask> saw 7 <mask> and a queen ."
    tab = window()
    tab.expected |= {400}
    page = tab.open(f"{tasks_server}#model=bert&q={quote(text)}")
    (holes,) = ask(f"{tasks_server}api/fill", q=text, k=8, model="bert")["answers"]
    expect(page.locator(".hole")).to_have_count(2)
    assert rows(page) == [[word["token"], f"{word['probability']:.3f}"] for hole in holes for word in hole]
    shot(page, "filler")
    page.get_by_role("textbox").fill(text.replace("<mask>", "king", 1))
    expect(page.locator(".hole")).to_have_count(1)
    (words,) = ask(f"{tasks_server}api/fill", q=text.replace("<mask>", "king", 1), model="bert")["answers"]
    expect(page.locator(".translated")).to_have_text(words[0]["text"])
    page.get_by_role("textbox").fill("the king")
    expect(page.get_by_role("alert")).to_contain_text("has no <mask>")


def test_texts_are_compared_by_their_vectors(tasks_server: str, window: Open, shot: Shot) -> None:
    """A model that can do more than one thing has a choice of them, and the link keeps it."""
    texts = ["the old king saw 7 stars", "a queen", "the old king"]
    page = window().open(f"{tasks_server}#model=bert")
    page.get_by_role("radio", name="Compare").click()
    page.get_by_label("Texts, one on each line").fill("\n".join(texts))
    vectors = np.array(ask(f"{tasks_server}api/embed", q=texts, model="bert")["vectors"])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expect(page.locator(".alike")).to_have_count(9)
    assert [float(cell.inner_text().replace("−", "-")) for cell in page.locator(".alike").all()] == pytest.approx(
        (unit @ unit.T).flatten().tolist(), abs=0.0051
    )
    shot(page, "embedder")
    expect(window().open(page.url).locator(".alike")).to_have_count(9)


ANSWERS = {
    "tag": ({"words": ["John", "lives", "in", "New", "York"], "tags": ["B-PER", "O", "O", "B-LOC", "I-LOC"]}, 1),
    "answer": ({"answer": "in 1911", "start": 8, "end": 15, "probability": 0.75}, 2),
    "similarity": ({"score": 3.25}, 2),
    "heads": ({"words": ["dogs", "bark"], "heads": [2, 0]}, 1),
}


@pytest.fixture
def pretend(tasks_server: str, window: Open) -> Callable[[str], Any]:
    """A page whose classifier is of another task: what the page draws needs the shape of an answer only."""

    def opened(task: str) -> Any:
        tab = window()
        one = {"name": "other", "task": task, "verbs": ["predict"], "parameters": 1, "config": {}}
        tab.page.route("**/api/models", lambda route: route.fulfill(json={"models": [one]}))
        tab.page.route("**/api/models/other/*", lambda route: route.fulfill(json={}))
        tab.asked = []

        def answer(route: Route) -> None:
            tab.asked.append(route.request.post_data_json)
            route.fulfill(json={"model": "other", "answers": [ANSWERS[task][0]]})

        tab.page.route("**/api/predict", answer)
        tab.open(f"{tasks_server}#q={quote('It sank in 1911.')}&q2=When%3F")
        return tab

    return opened


def test_a_tagger_colours_words(pretend: Callable[[str], Any], shot: Shot) -> None:
    page = pretend("tag").page
    expect(page.locator(".tagged")).to_have_text(["JohnB-PER", "lives", "in", "NewB-LOC", "YorkI-LOC"])
    colours = [one.evaluate("node => getComputedStyle(node).borderBottomColor") for one in page.locator(".named").all()]
    assert colours[1] == colours[2] != colours[0], "one colour for each kind of name"
    shot(page, "tagger")


def test_an_answer_is_marked_in_its_text(pretend: Callable[[str], Any], shot: Shot) -> None:
    """Two boxes, and both of them in the link; what they hold is sent by its names."""
    tab = pretend("answer")
    expect(tab.page.locator("mark")).to_have_text("in 1911")
    assert tab.asked == [{"q": [{"context": "It sank in 1911.", "question": "When?"}], "model": "other"}]
    assert tab.page.get_by_label("Question").input_value() == "When?"
    shot(tab.page, "answer")
    tab.page.get_by_label("Question").fill("")
    expect(tab.page.locator("mark")).to_have_count(0)


def test_two_texts_are_compared(pretend: Callable[[str], Any]) -> None:
    tab = pretend("similarity")
    expect(tab.page.locator(".translated")).to_have_text("3.250")
    assert tab.asked[0]["q"] == [{"first": "It sank in 1911.", "second": "When?"}]


def test_heads_are_told_by_their_words(pretend: Callable[[str], Any]) -> None:
    page = pretend("heads").page
    expect(page.locator("#result tr")).to_have_text(["dogs← bark", "barkroot"])


@pytest.mark.parametrize(
    ("name", "text", "waits"),
    [("critic", REVIEW, ".bars"), ("lm", "the old king", "#write"), ("bert", "the old <mask> saw", ".bars")],
)
@pytest.mark.parametrize("how", ["theme=light", "theme=dark&lang=zh"])
def test_axe_finds_no_serious_fault(
    tasks_server: str, window: Open, axe: Open, name: str, text: str, waits: str, how: str
) -> None:
    page = window().open(f"{tasks_server}#model={name}&{how}&q={quote(text)}")
    expect(page.locator(waits)).to_be_visible()
    assert axe(page) == []
