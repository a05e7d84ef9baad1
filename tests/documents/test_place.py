"""Marks in a translation: each once, nested as before, and where the alignment says."""

import re
from itertools import combinations_with_replacement

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.documents.place import Links, Marks, Sides, in_proportion, place
from qkv.documents.segment import Mark, code_of

TARGETS = st.lists(st.sampled_from(["eins", "zwei,", "(drei)", "vier.", "fünf"]), max_size=6).map(" ".join)


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, Marks]:
    """Words with nested pairs, single marks and halves of pairs among them."""
    text, marks, open_pairs = "", [], []
    for number in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["word", "word", "open", "close", "alone", "half"]))
        if kind == "word":
            text += draw(st.sampled_from([" one", " two,", "three", " four. "]))
        elif kind == "open":
            open_pairs.append(str(number))
            marks.append((len(text), Mark(f"<{number}>", "open", str(number))))
        elif kind == "close" and open_pairs:
            pair = open_pairs.pop()
            marks.append((len(text), Mark(f"</{pair}>", "close", pair)))
        elif kind == "alone":
            marks.append((len(text), Mark(f"[{number}]")))
        elif kind == "half" and not open_pairs:
            marks.append((len(text), Mark(f"</h{number}>", "close", f"h{number}")))
    return text, marks


def check_nesting(tags: list[str]) -> None:
    """Each close is that of the last open one; a close without an open may come only where nothing is open."""
    stack: list[str] = []
    for tag in tags:
        if tag.startswith("</"):
            if stack:
                assert stack.pop() == tag[2:-1], tags
            else:
                assert tag[2:-1].startswith("h"), tags
        elif tag.startswith("<"):
            stack.append(tag[1:-1])


@given(marked(), TARGETS, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_mark_once_and_well_nested(given_: tuple[str, Marks], target: str, links: Links) -> None:
    source, marks = given_
    parts = place(source, target, marks, links)
    found = [part.code for part in parts if isinstance(part, Mark)]
    assert sorted(found) == sorted(mark.code for _, mark in marks)
    check_nesting(found)
    assert "".join(part for part in parts if isinstance(part, str)).split() == target.split() or any(
        mark.kind == "alone" for _, mark in marks
    )
    assert re.sub(r"\s", "", "".join(p for p in parts if isinstance(p, str))) == re.sub(r"\s", "", target)
    alone = [code for code in found if code.startswith("[")]
    assert len(alone) == len(set(alone))


def pair(start: int, end: int, name: str = "b") -> Marks:
    return [(start, Mark(f"<{name}>", "open", name)), (end, Mark(f"</{name}>", "close", name))]


@pytest.mark.parametrize(
    ("source", "marks", "target", "links", "expected"),
    [
        ("a red car", pair(2, 5), "une voiture rouge", [(0, 0), (1, 2), (2, 1)], "une voiture <b>rouge</b>"),
        ("a red car", pair(2, 9), "une voiture rouge", [(0, 0), (1, 2), (2, 1)], "une <b>voiture rouge</b>"),
        ("Hello world!", pair(6, 11), "Hallo Welt!", [(0, 0), (1, 1)], "Hallo <b>Welt</b>!"),
        ("Hello (world)!", pair(7, 12), "Hallo (Welt)!", [(0, 0), (1, 1)], "Hallo (<b>Welt</b>)!"),
        ("I do not", pair(2, 8), "ich gehe nicht weg", [(0, 0), (1, 1), (2, 2), (1, 3)], "ich <b>gehe nicht weg</b>"),
        ("all of it", pair(0, 9), "und alles davon", [(0, 1)], "<b>und alles davon</b>"),
        ("one two", [(4, Mark("[x]"))], "eins zwei", [(0, 0), (1, 1)], "eins [x]zwei"),
        ("one  two", [(4, Mark("[x]"))], "eins zwei", [(0, 0), (1, 1)], "eins [x] zwei"),
        ("one two", [(3, Mark("\n> ", "space"))], "eins zwei drei", [(0, 0), (0, 1), (1, 2)], "eins zwei\n> drei"),
        ("one two", [(4, Mark("<b>", "open", "b"))], "zwei eins", [(0, 1), (1, 0)], "<b>zwei eins"),
    ],
)
def test_where_the_words_went(source: str, marks: Marks, target: str, links: Links, expected: str) -> None:
    assert code_of(place(source, target, marks, links)) == expected


NUMBERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10)


@given(NUMBERS, st.sets(st.integers(0, 4), min_size=1))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_best_run_is_the_best_of_all(links: Links, own: set[int]) -> None:
    sides = Sides("a b c d e", "f g h i j", links)

    def gain(low: int, high: int) -> int:
        return sum((1 if i in own else -1) for i, j in links if low <= j < high)

    best = max(gain(low, high) for low, high in combinations_with_replacement(range(6), 2))
    found = sides.best_run(own, 0, 5)
    assert (gain(*found) if found else 0) == best


@given(NUMBERS, st.integers(1, 4))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_a_cut_crosses_the_fewest_links(links: Links, before: int) -> None:
    sides = Sides("a b c d e", "f g h i j", links)

    def crossing(border: int) -> int:
        return sum((i < before) != (j < border) for i, j in links)

    assert crossing(sides.cut(2 * before, 0, 5)) == min(map(crossing, range(6)))


def test_in_proportion() -> None:
    assert in_proportion("a b c", "d e f") == [(0, 0), (1, 1), (2, 2)]
    assert in_proportion("a b", "c d e f") == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert in_proportion("", "a") == in_proportion("a", "") == []
