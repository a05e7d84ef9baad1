"""What must survive is found, nothing else is, and no text makes the search slow."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.documents.protect import PATTERNS, protect, protected
from qkv.documents.segment import code_of

KEPT = [
    "{x}", "{ name }", "{{x}}", "{{ user.name }}", "${HOME}", "%{count}", "{n, plural, one {# file} other {# files}}",
    "{% if x %}", "%s", "%d", "%1$s", "%(name)s", "%-5.2f", "%lu", "%@", "%1", "%%", "%PRODUCTNAME", "%TEMP%",
    "$(ARG1)", "$PATH", "https://a.org/b_(c)?d=1&e=%20#f", "http://localhost:8000/", "www.a.org",
    "me.you+x@mail.a-b.org", "mailto:me@a.org", "`rm -rf`", "os.path.join()", "<b>", "</b>", '<a href="x">', "<br/>",
    "&nbsp;", "&#8212;", "[[Page]]",
    "🙂", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "❤️", "4️⃣", "©", "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
]  # fmt: skip
PLAIN = [
    "100% of people", "a 5 % discount", "50%, say", "I paid $5.", "3 < 4 and 5 > 2", "C'est l'été", "R&D; more", "a@b",
    "He said: yes!", "and/or", "one_two", "f(x)", "1.000,5", "{", "}", "[1]", "e.g. this", "#1", "à la carte…",
]  # fmt: skip


@pytest.mark.parametrize("thing", KEPT)
@pytest.mark.parametrize("around", ["{}", "See {} now", "({})", "See {}.", "a {}, b", "«{}»", "{} {}"])
def test_it_is_found_whole(thing: str, around: str) -> None:
    text = around.replace("{}", thing)
    assert [text[start:end] for start, end in protected(text)] == [thing] * around.count("{}")


@pytest.mark.parametrize("text", PLAIN)
def test_plain_text_is_left_alone(text: str) -> None:
    assert protected(text) == []


def test_what_touches_is_one() -> None:
    assert [part for part in protect("a {x}{y}%s b") if not isinstance(part, str)] == protect("{x}{y}%s")


@given(st.one_of(st.text(), st.lists(st.sampled_from([*KEPT, *PLAIN, " ", "a"])).map("".join)))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_lost(text: str) -> None:
    assert code_of(protect(text)) == text


FRAGMENTS = ["{", "}", "{a", "{{", "%", "%(", "%1$", "a", "a.", "@", "a@", "a@a.", "http://", "http://.", "www.",
             "`", "<", "<a ", "</", "&", "&#", "[[", "$(", "$", "🙂", "\u200d", "0", "-", "_", " ", ")",
             "<b>", "</b>"]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4), st.sampled_from(FRAGMENTS))
@settings(deadline=timedelta(seconds=5), max_examples=40, suppress_health_check=list(HealthCheck))
def test_no_text_makes_it_slow(some: list[str], last: str) -> None:
    """A search that goes back for each character would take minutes for so many."""
    text = "".join(some) * (100_000 // len("".join(some))) + last
    assert code_of(protect(text)) == text


def test_each_kind_is_shown() -> None:
    assert set(PATTERNS) == {"address", "e-mail", "code", "braces", "tag", "variable", "printf", "emoji"}
