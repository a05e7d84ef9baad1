"""What must survive is found, nothing else is, and no text makes the search slow."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv.documents import translate_file, translate_html, translate_text
from qkv.documents.protect import AFTER, PATTERNS, bare_address, compiled, protect, protected, set_aside
from qkv.documents.segment import Mark, code_of
from qkv.errors import InputError

KEPT = [
    "{x}", "{ name }", "{{x}}", "{{ user.name }}", "${HOME}", "%{count}", "{n, plural, one {# file} other {# files}}",
    "{% if x %}", "%s", "%d", "%1$s", "%(name)s", "%-5.2f", "%lu", "%@", "%1", "%%", "%PRODUCTNAME", "%TEMP%",
    "%<PRIuMAX>", "$(ARG1)", "$PATH", "https://a.org/b_(c)?d=1&e=%20#f", "http://localhost:8000/", "www.a.org",
    "me.you+x@mail.a-b.org", "mailto:me@a.org", "`rm -rf`", "os.path.join()", "<b>", "</b>", '<a href="x">', "<br/>",
    "&nbsp;", "&#8212;", "[[Page]]", "Ctrl+S", "Ctrl + Shift + F5", "Alt+Enter", "F5", "F12", "<kbd>Enter</kbd>",
    "<code class='x'>a b</code>", "--help", "--dry-run", "--output=a.txt", "-h", ":smile:", ":+1:", "$t(common.ok)",
    "🙂", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "❤️", "4️⃣", "©", "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
]  # fmt: skip
PLAIN = [
    "100% of people", "a 5 % discount", "50%, say", "I paid $5.", "3 < 4 and 5 > 2", "C'est l'été", "R&D; more", "a@b",
    "He said: yes!", "and/or", "one_two", "f(x)", "1.000,5", "{", "}", "[1]", "e.g. this", "#1", "à la carte…",
    "well-known", "a - b", "-I am here", "-5 degrees", "he came --well-- late", "Control the car", "AF5", "F99",
    "at 10:30:45", "say: no :)", "C++", "x-y", "no--end",
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
             "<b>", "</b>", "<kbd>", "Ctrl+", "--a", ":a", "%<PRI"]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4), st.sampled_from(FRAGMENTS))
@settings(deadline=timedelta(seconds=5), max_examples=40, suppress_health_check=list(HealthCheck))
def test_no_text_makes_it_slow(some: list[str], last: str) -> None:
    """A search that goes back for each character would take minutes for so many."""
    text = "".join(some) * (100_000 // len("".join(some))) + last
    assert code_of(protect(text)) == text


def letter_by_letter(address: str) -> str:
    """What `bare_address` does, with a copy of the address for each letter that it takes off."""
    surplus = address.count(")") - address.count("(")
    while address and (address[-1] in AFTER or (address[-1] == ")" and surplus > 0)):
        surplus -= address[-1] == ")"
        address = address[:-1]
    return address


@given(st.text(alphabet="a().,!…"))
def test_the_end_of_an_address(address: str) -> None:
    assert bare_address(address) == letter_by_letter(address)


def test_a_long_end_of_an_address() -> None:
    assert bare_address("http://a" + "." * 2**22) == "http://a"


def test_each_kind_is_shown() -> None:
    kinds = "address e-mail code braces held key option tag variable printf emoji"
    assert set(PATTERNS) == set(kinds.split())


# -- a user's own patterns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "text", "kept"),
    [
        (["Start"], "press Start, then start", ["Start"]),
        ([r"[A-Z]{2,}-\d+", "Acme"], "see AB-12 by Acme", ["AB-12", "Acme"]),
        (["two  words"], "the two  words here", ["two  words"]),  # across what would part two sentences
        ([r"(\w)\1"], "a letter aa", ["tt", "aa"]),
        (["(?i)acme"], "ACME acme", ["ACME", "acme"]),
        (["b", "abc"], "xabcx", ["abc"]),
        (["org"], "see http://a.org/b now", ["http://a.org/b"]),  # no piece of an address is left over
        (["x*"], "aaa", []),
    ],
)
def test_a_users_pattern_is_found(patterns: list[str], text: str, kept: list[str]) -> None:
    assert [part.code for part in set_aside(text, compiled(patterns)) if isinstance(part, Mark)] == kept


@given(st.lists(st.sampled_from([*KEPT, *PLAIN, " ", "Acme", "AB-1"])).map(" ".join))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_a_users_pattern_loses_nothing(text: str) -> None:
    assert code_of(list(set_aside(text, compiled(["Acme", r"\d", "a.*?b"])))) == text


def test_what_matches_comes_back_whatever_the_translator_does(any_rule: Any, tmp_path: Path) -> None:
    """Words that every rule changes; in a text, in HTML and in a file."""
    text, pattern = "the old Acme dog runs, and product ab-12 is here\n", compiled(["Acme", r"ab-\d+"])
    (tmp_path / "a.txt").write_text(text)
    translate_file(any_rule, tmp_path / "a.txt", tmp_path / "b.txt", protect=pattern)
    found = [
        translate_text(any_rule, [text], protect=pattern)[0].text,
        translate_html(any_rule, [f"<p>{text}</p>"], protect=pattern)[0],
        (tmp_path / "b.txt").read_text(),
    ]
    assert [re.findall("Acme|ab-12", one) for one in found] in ([["Acme", "ab-12"]] * 3, [["ab-12", "Acme"]] * 3)


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"\1", "a{99999999999999999999}"])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    sentence = (
        rf"^--protect {re.escape(repr(pattern))} is not a regular expression \(.*\); write it as Python's re does"
    )
    with pytest.raises(InputError, match=sentence):
        compiled(["good", pattern])
