"""The data doctor: drops pairs that would harm training, by stated rules, and says what it dropped and why."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from qkv.config import setting
from qkv.errors import InputError
from qkv.text.examples import Pair
from qkv.text.normalise import normalise

MAX_EXAMPLES = 3
SHORT = 60  # characters of an example


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the doctor drops, and when it refuses the whole."""

    max_ratio: float = setting(9.0, "drop a pair when one side has more than this times the other's characters")
    ratio_from: int = setting(40, "judge the ratio only when the longer side has at least this many characters")
    max_characters: int = setting(5000, "drop a pair when a side has more characters than this")
    drop_copies: bool = setting(True, "drop a pair whose source and target are the same")
    max_dropped: float = setting(0.5, "refuse data of which more than this share is dropped; 1 never refuses")

    def __post_init__(self) -> None:
        if not self.max_ratio >= 1:  # so that nan is refused too
            raise InputError(f"max_ratio is {self.max_ratio}, but no ratio is below 1; give 1 or more")
        if self.max_characters < 1:
            raise InputError(f"max_characters is {self.max_characters}, which drops every pair; give 1 or more")
        if not 0 <= self.max_dropped <= 1:
            raise InputError(f"max_dropped is {self.max_dropped}, but a share lies between 0 and 1; give such a number")


class Example(NamedTuple):
    place: str
    text: str


@dataclass
class Report:
    """What was found: read == kept + empty + held_out + too_long + copies + ratio.

    Each dropped pair counts once, by the first rule that it breaks. `duplicates` are kept ones that were dropped
    later, and `skipped` what the readers found to be no pair at all; others fill these two in.
    """

    rules: Rules = field(default_factory=Rules)
    read: int = 0
    kept: int = 0
    empty: int = 0
    held_out: int = 0
    too_long: int = 0
    copies: int = 0
    ratio: int = 0
    duplicates: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def drop(self, finding: str, pair: Pair) -> None:
        """Count a pair under the name of a finding, and keep it as an example if there are few."""
        setattr(self, finding, getattr(self, finding) + 1)
        examples = self.examples.setdefault(finding, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(Example(pair.place, f"{_shorten(pair.source)} | {_shorten(pair.target)}"))

    def lines(self) -> list[str]:
        """A sentence for each finding: how many pairs, by which rule, what became of them, and where the first is."""
        lines = []
        for finding, reason in self.reasons().items():
            if count := getattr(self, finding):
                examples = self.examples.get(finding)
                first = f" (first: {examples[0].place})" if examples else ""
                lines.append(f"{_count(count)} {reason}: dropped{first}")
        return lines + [f"skipped, being no pair: {count:,} {what}" for what, count in self.skipped.items()]

    def reasons(self) -> dict[str, str]:
        """What is wrong with the pairs of each finding; to be read after "12 pairs"."""
        return {
            "empty": "had an empty side",
            "held_out": "had a source that is also in the validation or test set",
            "too_long": f"had a side of more than {self.rules.max_characters:,} characters",
            "copies": "had a target that is a copy of the source",
            "ratio": f"had one side more than {self.rules.max_ratio:g} times as long as the other",
            "duplicates": "repeated another pair exactly",
        }


def examine(pairs: Iterable[Pair], rules: Rules, report: Report, held_out: Container[str] = ()) -> Iterator[Pair]:
    """The pairs worth training on, normalised; `report` counts the others.

    `held_out` has the normalised source sentences of the validation and test sets: a model that trained on them
    would be measured by what it has seen.
    """
    report.rules = rules
    for source, target, place in pairs:
        pair = Pair(normalise(source), normalise(target), place)
        report.read += 1
        if finding := _finding(pair, rules, held_out):
            report.drop(finding, pair)
        else:
            report.kept += 1
            yield pair


def _finding(pair: Pair, rules: Rules, held_out: Container[str]) -> str | None:
    source, target, _ = pair
    if not source or not target:
        return "empty"
    if source in held_out:
        return "held_out"
    shorter, longer = len(source), len(target)
    if shorter > longer:
        shorter, longer = longer, shorter
    if longer > rules.max_characters:
        return "too_long"
    if rules.drop_copies and source == target:
        return "copies"
    if longer >= rules.ratio_from and longer > rules.max_ratio * shorter:
        return "ratio"
    return None


def fail_if_unusable(report: Report, minimum: int = 10) -> None:
    """Refuse to train on next to nothing, or on data that is mostly dropped, which points to the wrong files."""
    dropped = {finding: getattr(report, finding) for finding in report.reasons() if finding != "duplicates"}
    total = sum(dropped.values())
    main = max(dropped, key=lambda finding: dropped[finding])
    why = f"{_count(dropped[main])} {report.reasons()[main]}" if total else ""
    if report.kept < minimum:
        of = f"{report.kept:,} usable {'pair' if report.kept == 1 else 'pairs'} of {report.read:,} read"
        raise InputError(f"{of}{f' ({why})' if why else ''}; at least {minimum} are needed: give more sentence pairs")
    if total > report.rules.max_dropped * report.read:
        first = f", first: {report.examples[main][0].place}" if report.examples.get(main) else ""
        raise InputError(
            f"{total:,} of {report.read:,} pairs were dropped, most because they {report.reasons()[main]} "
            f"({dropped[main]:,}{first}); check that these are the right files in the right order, or "
            f"set data.doctor.max_dropped = 1 to go on with the {report.kept:,} that are left"
        )


def _count(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs:,} pairs"


def _shorten(text: str) -> str:
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"
