"""The page for models of each task: it shows what the server answers, in the way of the task."""

import json
import re
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
    expect(tabs).to_have_text(["Attention", "Positions", "Architecture", "Training"])
    expect(page.locator("#panel")).to_have_text(re.compile("^Type a beginning"))
    page.get_by_role("tab", name="Training").click()
    expect(page.locator('#panel figure[data-name="curves"] canvas')).to_be_visible()
    page.get_by_label("Model").select_option("critic")
    expect(tabs).to_have_text(["Architecture", "Training"])
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


def test_a_tagger_colours_words(tasks_server: str, window: Open, shot: Shot) -> None:
    text = "the old king saw two stars and a queen"
    page = window().open(f"{tasks_server}#model=tag&q={quote(text)}")
    (own,) = ask(f"{tasks_server}api/predict", q=text, model="tag")["answers"]
    shown = [word + ("" if tag == "O" else tag) for word, tag in zip(own["words"], own["tags"], strict=True)]
    expect(page.locator(".tagged")).to_have_text(shown)
    colours: dict[str, set[str]] = {}
    for one in page.locator(".named").all():
        kind = one.locator("small").inner_text()[2:]
        colours.setdefault(kind, set()).add(one.evaluate("node => getComputedStyle(node).borderBottomColor"))
    assert len(colours) == 2, "the model names two kinds"
    assert all(map(len, colours.values()))
    assert len(set.union(*colours.values())) == 2, "one colour for each kind"
    shot(page, "tagger")


def test_an_answer_is_marked_in_its_text(tasks_server: str, window: Open, shot: Shot) -> None:
    """Two boxes, and both of them in the link; a character beyond U+FFFF is one, as the server counts."""
    asked = {"context": "🙂 the old king saw two stars in 1911", "question": "who ?"}
    boxes = f"q={quote(asked['context'])}&q2={quote(asked['question'])}"
    page = window().open(f"{tasks_server}#model=answer&{boxes}")
    (own,) = ask(f"{tasks_server}api/predict", q=asked, model="answer")["answers"]
    expect(page.locator("mark")).to_have_text(own["answer"])
    every = [own, *own["alternatives"]]
    assert rows(page) == [[one["answer"], f"{one['probability']:.3f}"] for one in every]
    assert page.get_by_label("Question").input_value() == "who ?"
    shot(page, "answer")
    page.get_by_label("Question").fill("")
    expect(page.locator("mark")).to_have_count(0)


def test_two_texts_are_compared_and_choices_are_ranked(tasks_server: str, window: Open) -> None:
    page = window().open(f"{tasks_server}#model=similarity&q=the%20king&q2=a%20queen")
    asked: Any = {"first": "the king", "second": "a queen"}
    (own,) = ask(f"{tasks_server}api/predict", q=asked, model="similarity")["answers"]
    expect(page.locator(".translated")).to_have_text(f"{own['score']:.3f}".replace("-", "−"))
    page.get_by_label("Second text").fill("")
    page.get_by_label("Model").select_option("choose")
    page.get_by_label("Choices").fill("a queen\ntwo stars")
    asked = {"context": "the king", "choices": ["a queen", "two stars"]}
    (own,) = ask(f"{tasks_server}api/predict", q=asked, model="choose")["answers"]
    expect(page.locator(".translated")).to_have_text(own["answer"])
    ranked = sorted(zip(asked["choices"], own["probabilities"], strict=True), key=lambda pair: -pair[1])
    assert rows(page) == [[name, f"{p:.3f}"] for name, p in ranked]


@pytest.mark.parametrize(
    ("name", "text", "waits"),
    [
        ("critic", REVIEW, ".bars"),
        ("lm", "the old king", "#panel canvas"),
        ("bert", "the old <mask> saw", ".bars"),
        ("tag", "the old king saw two stars", ".tags"),
        ("answer", "the old king saw two stars&q2=who", "mark"),
    ],
)
@pytest.mark.parametrize("how", ["theme=light", "theme=dark&lang=zh"])
def test_axe_finds_no_serious_fault(
    tasks_server: str, window: Open, axe: Open, name: str, text: str, waits: str, how: str
) -> None:
    page = window().open(f"{tasks_server}#model={name}&{how}&q={quote(text, safe='&=')}")
    expect(page.locator(waits)).to_be_visible()
    assert axe(page) == []
