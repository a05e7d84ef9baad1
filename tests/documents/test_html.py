"""HTML: every tag once and well nested, entities and attributes to the letter, and no text that becomes a tag."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.documents import translate_html

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = st.sampled_from(
    [" one ", " two\n", " three, ", " Four. ", " {x} ", " &amp; ", " &copy; ", "\n  ", " 5 ", " it&#39;s "]
)
ATTRIBUTES = st.sampled_from(["", " id=1", " class='a  b'", ' href="?a=1&amp;b=2"', ' data-x="<i>"'])
TAGS = st.sampled_from(["b", "i", "a", "span", "EM"])


def element(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    whole = st.lists(inner, max_size=4).map("".join)
    pairs = st.tuples(TAGS, ATTRIBUTES, whole).map(lambda e: f"<{e[0]}{e[1]}>{e[2]}</{e[0]}>")
    return st.one_of(pairs, st.sampled_from(["<img src=a>", "<!-- c -->", "<code>one two</code>", "<br>", "<wbr/>"]))


PAGES = st.lists(st.recursive(TEXTS, lambda inner: st.one_of(TEXTS, element(inner)), max_leaves=12)).map("".join)


class Checked(HTMLParser):
    """Raises where an element ends that is not the last one open."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.stack: list[str] = []
        self.raw: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.raw.append(self.get_starttag_text() or "")
        if tag not in ("img", "br", "wbr"):
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.raw.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag
        self.raw.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.raw.append(data)


def tags(page: str) -> list[str]:
    parser = Checked()
    parser.feed(page)
    parser.close()
    assert not parser.stack
    return sorted(parser.raw)


@given(PAGES)
@QUICK
def test_every_tag_once_and_well_nested(any_rule: Any, page: str) -> None:
    (found,) = translate_html(any_rule, [f"<p>{page}</p>"])
    assert tags(found) == tags(f"<p>{page}</p>")
    assert found.count("<code>one two</code>") == page.count("<code>one two</code>")
    for kept in ("{x}", "&copy;"):
        assert found.count(kept) == page.count(kept)


@given(PAGES)
@QUICK
def test_a_translator_that_changes_nothing(made_up: Any, page: str) -> None:
    """But for white space, which HTML does not show, and spellings of characters."""
    (found,) = translate_html(made_up(lambda text: text), [page])
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", page.replace("&#39;", "'"))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a &lt;script&gt; b", "A &lt;script&gt; B"),
        ("<p title='it&#39;s'>x</p>", "<p title='IT&#x27;S'>X</p>"),
        ('<p title="5&nbsp;&euro; &copy; a &quot;b">x</p>', '<p title="5&nbsp;&euro; &copy; A &quot;B">X</p>'),
        ("<p>one&#31;two &#11;three &#x7f;</p>", "<p>ONE&#31;TWO &#11;THREE &#x7f;</p>"),
        ("<p>1 &lt; 2 and a &amp;amp; b</p>", "<p>1 &lt; 2 AND A &amp;amp; B</p>"),
        ("<script>let a = '<p>stay</p>'</script>go", "<script>let a = '<p>stay</p>'</script>GO"),
        ("<SCRIPT>stay</SCRIPT>", "<SCRIPT>stay</SCRIPT>"),
        ("go <b>on", "GO <b>ON"),
        ("go</b> on", "GO</b> ON"),
        ("<div translate=no>a<div>b</div>c</div>d", "<div translate=no>a<div>b</div>c</div>D"),
        ("one<br>two<hr>three", "ONE<br>TWO<hr>THREE"),
        ("<p>un<b>b</b>roken text</p>", "<p><b>UNBROKEN</b> TEXT</p>"),
        ("a < b", "A &lt; B"),
        ("<p", "<p"),
        ("", ""),
    ],
)
def test_spellings(upper: Any, page: str, expected: str) -> None:
    assert translate_html(upper, [page]) == [expected]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?><p>caf\u00e9</p>', "\u201eja\u201c"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><p>two</p>', "&#8222;ja&#8220;"),
        ("<meta charset=latin1><p>two</p>", "&#8222;ja&#8220;"),
        ("<meta charset=UTF-8><p>two</p>", "\u201eja\u201c"),
    ],
)
def test_a_text_is_text_whatever_it_declares(made_up: Any, page: str, expected: str) -> None:
    """It is given as it is, and what comes back is right in the declared encoding if the text was."""
    translator = made_up(lambda text: "\u201eja\u201c")
    (found,) = translate_html(translator, [page])
    assert found == page.replace("caf\u00e9", expected).replace("two", expected)
    assert translator.calls in ([["caf\u00e9"]], [["two"]])


def test_attributes_of_tags_that_move_stay_theirs(upper: Any) -> None:
    """In blocks that are translated, between them, and in those that are not."""
    block = '<p title="{0}"><b title="{1}">{2}</b> <img alt="{3}">{5}</p><p title="{4}"><i title="{6}">7</i>'
    before = [[f"{letter}{i}" for letter in "abcdefgh"] for i in range(30)]
    after = [[word.upper() for word in words] for words in before]
    page, expected = ("".join(block.format(*words) for words in some) for some in (before, after))
    assert translate_html(upper, [page]) == [expected]


def test_what_a_translator_says_is_never_a_tag(made_up: Any) -> None:
    evil = made_up(lambda text: "<script>alert(1)</script> &lt; \"'")
    (found,) = translate_html(evil, ['<p title="hello">hello</p>'])
    spelled = "&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt; "
    assert found == f"""<p title="{spelled}&quot;&#x27;">{spelled}"'</p>"""


def test_pages_in_one_batch(upper: Any) -> None:
    assert translate_html(upper, ["<p>one</p>", "two", "<i>3</i>"]) == ["<p>ONE</p>", "TWO", "<i>3</i>"]
    assert upper.calls == [["one", "two"]]
