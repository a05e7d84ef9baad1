"""The doctor drops by its rules, counts everything once, and says so in plain sentences."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import real, refused
from qkv.config import from_tree
from qkv.errors import InputError
from qkv.text import Pair, read_pairs
from qkv.text.doctor import Report, Rules, examine, fail_if_unusable
from qkv.text.normalise import normalise


def pairs(*sides: tuple[str, str]) -> list[Pair]:
    return [Pair(source, target, f"t.en line {number}") for number, (source, target) in enumerate(sides, start=1)]


def report_on(*sides: tuple[str, str], rules: Rules | None = None, held_out: set[str] | None = None) -> Report:
    report = Report()
    kept = list(examine(pairs(*sides), rules or Rules(), report, held_out or set()))
    assert len(kept) == report.kept
    return report


def test_both_sides_are_normalised() -> None:
    given_sides = ("  e\u0301t\u0065\u0301 \n\t d'or\x00\x07! ", "\u2028Sommer\u00a0 2\x85")
    kept = list(examine(pairs(given_sides), Rules(), Report(), set()))
    assert kept == [Pair("\u00e9t\u00e9 d'or !", "Sommer 2", "t.en line 1")]


@given(st.text() | st.text(alphabet="a e\u0301\t\xa0"))
def test_normalised_text_is_one_clean_line_and_stays_so(text: str) -> None:
    clean = normalise(text)
    composed = unicodedata.normalize("NFC", text)
    assert clean == " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in composed).split())
    assert unicodedata.is_normalized("NFC", clean)
    assert not any(unicodedata.category(character) == "Cc" for character in clean)
    assert " ".join(clean.split()) == clean
    assert normalise(clean) == clean


@pytest.mark.parametrize(
    ("finding", "sides", "rules"),
    [
        ("empty", ("", "x"), Rules()),
        ("empty", ("x", " \n"), Rules()),
        ("copies", ("Das gleiche", "Das  gleiche "), Rules()),
        ("kept", ("Das gleiche", "Das gleiche"), Rules(drop_copies=False)),
        ("kept", ("OK", "ok"), Rules()),
        ("too_long", ("x" * 5001, "y" * 5000), Rules()),
        ("kept", ("x" * 5000, "y" * 5000), Rules()),
        ("too_long", ("abc", "abcdef"), Rules(max_characters=5)),
        ("ratio", ("x" * 46, "y" * 5), Rules()),
        ("ratio", ("y" * 5, "x" * 46), Rules()),
        ("kept", ("x" * 45, "y" * 5), Rules()),  # exactly 9 times
        ("kept", ("x" * 39, "y"), Rules()),  # too short to judge
        ("ratio", ("x" * 40, "y" * 4), Rules()),
        ("ratio", ("x" * 40, "y" * 19), Rules(max_ratio=2)),
        ("held_out", ("A  test sentence.", "Ein Testsatz."), Rules()),
        ("kept", ("Ein Testsatz.", "A test sentence."), Rules()),  # only sources are held out
    ],
)
def test_each_rule(finding: str, sides: tuple[str, str], rules: Rules) -> None:
    report = report_on(sides, rules=rules, held_out={"A test sentence."})
    counts = {name: getattr(report, name) for name in ("kept", *report.reasons()) if getattr(report, name)}
    assert counts == {finding: 1}
    assert report.read == 1


@given(st.lists(st.tuples(st.text("ab \n", max_size=8), st.text("ab \n", max_size=8))))
def test_every_pair_counts_exactly_once(sides: list[tuple[str, str]]) -> None:
    rules = Rules(max_ratio=2, ratio_from=3, max_characters=6)
    report = report_on(*sides, rules=rules, held_out={"a", "b a"})
    dropped = sum(getattr(report, finding) for finding in report.reasons())
    assert report.read == len(sides) == report.kept + dropped
    assert report_on(*sides, rules=rules, held_out=set()).kept >= report.kept


def test_the_sentences() -> None:
    held_out = {"seen"}
    broken = [("", "x")] * 1200 + [("seen", "x"), ("y" * 6000, "x"), ("z", "z"), ("w" * 50, "v")]
    report = report_on(("good", "gut"), *broken, held_out=held_out)
    report.duplicates = 2
    report.skipped = Counter({"blank lines": 7})
    assert report.lines() == [
        "1,200 pairs had an empty side: dropped (first: t.en line 2)",
        "1 pair had a source that is also in the validation or test set: dropped (first: t.en line 1202)",
        "1 pair had a side of more than 5,000 characters: dropped (first: t.en line 1203)",
        "1 pair had a target that is a copy of the source: dropped (first: t.en line 1204)",
        "1 pair had one side more than 9 times as long as the other: dropped (first: t.en line 1205)",
        "2 pairs repeated another pair exactly: dropped",
        "skipped, being no pair: 7 blank lines",
    ]
    assert report_on(("good", "gut")).lines() == []


def test_three_short_examples_are_kept() -> None:
    report = report_on(*[("long " * 2000, "kurz")] * 5)
    examples = report.examples["too_long"]
    assert [example.place for example in examples] == ["t.en line 1", "t.en line 2", "t.en line 3"]
    assert examples[0].text.startswith("long long")
    assert examples[0].text.endswith("… | kurz")
    assert len(examples[0].text) < 130


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        (0, 0, "^0 usable pairs of 0 read; at least 10 are needed: give more sentence pairs$"),
        (1, 0, "^1 usable pair of 1 read; at least 10 are needed"),
        (9, 1, r"^9 usable pairs of 10 read \(1 pair had an empty side\); at least 10"),
        (
            10,
            11,
            "^11 of 21 pairs were dropped, most because they had an empty side .11, first: t.en line 11.;.* 1 to go on",
        ),
    ],
)
def test_unusable_data_is_refused(good: int, bad: int, sentence: str) -> None:
    report = report_on(*[("good", "gut")] * good, *[("", "x")] * bad)
    with pytest.raises(InputError, match=sentence):
        fail_if_unusable(report)


def test_usable_data_is_not_refused() -> None:
    half = [("good", "gut")] * 10 + [("", "x")] * 10
    fail_if_unusable(report_on(*half))
    fail_if_unusable(report_on(*half, ("same", "same"), rules=Rules(max_dropped=1)))
    fail_if_unusable(report_on(("good", "gut")), minimum=1)
    repeated = report_on(*half)
    repeated.duplicates = 5
    fail_if_unusable(repeated)


def test_the_main_reason_is_named() -> None:
    report = report_on(*[("good", "gut")] * 10, *[("", "x")] * 5, *[("same", "same")] * 9)
    with pytest.raises(
        InputError, match=r"14 of 24 pairs .* a target that is a copy of the source .9, .*max_dropped = 1"
    ):
        fail_if_unusable(report)


@refused(
    [
        ({"max_ratio": 0.5}, "max_ratio is 0.5, but no ratio is below 1"),
        ({"max_characters": 0}, "max_characters is 0, which drops every pair"),
        ({"max_dropped": 50.0}, "max_dropped is 50.0, but a share lies between 0 and 1"),
        ({"max_ration": 3.0}, "unknown key 'max_ration'; did you mean 'max_ratio'"),
    ],
)
def test_rules_are_checked(wrong: dict[str, float]) -> None:
    from_tree(Rules, wrong)


def test_real_test_sentences_are_kept_out_of_training() -> None:
    folder = real("multi30k")
    test = [folder / "test_2016_flickr.en", folder / "test_2016_flickr.de"]
    held_out = {normalise(pair.source) for pair in read_pairs(test, source="en", target="de")}
    report = Report()
    train = read_pairs([folder / "train.en.gz", folder / "train.de.gz"], source="en", target="de")
    kept = {pair.source for pair in examine(train, Rules(), report, held_out)}
    assert kept.isdisjoint(held_out)
    assert report.read == 29_000  # SOURCE.md of the corpus
    assert report.kept > 28_900
    fail_if_unusable(report)
