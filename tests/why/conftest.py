"""Every claim is measured once for all tests; with QKV_WRITE_DOCS=1, docs/why.md is written from what was measured."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qkv.why import CLAIMS, TOPICS, Claim, Measured, said_in, verdict_of

PAGE = Path(__file__).parents[2] / "docs" / "why.md"
CHINESE = PAGE.parent / "zh" / "why.md"
ABOUT = """# Why it is built so

Forty-one statements of a set of lecture notes on attention and the Transformer, N1 to N41, and three of the papers on
long texts, N42 to N44: each in our words, what qkv's own parts say when they are measured, and the verdict. Read it
beside the notes. Where the notes slipped, the proof stands here.

`qkv why` lists the statements by topic, each with its verdict; `qkv why scale`, or `qkv why N11`, measures one again in
less than a minute;
`-o scale.png` draws it where a picture helps, `--json` gives the numbers, `--language zh` says it in Chinese
([all of them](zh/why.md)). The exit code is 1 if an effect has the wrong
sign.

Numbers such as 2e-16 are rounding errors of float64: read them as 0. Everything random comes from a fixed seed. This
page is written by the tests from what they measured: `QKV_WRITE_DOCS=1 pytest tests/why`.

| | | verdict |
|---|---|---|
"""


def section(claim: Claim, measured: Measured) -> str:
    lines = [measured.columns, ["---"] * len(measured.columns), *measured.shown()]
    table = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
    heading = f"\n## {claim.number} {claim.name}\n\n{claim.words}\n\n"
    return f"{heading}{table}\n**{measured.verdict.capitalize()}.** {measured.why}\n"


def page(found: dict[str, Measured]) -> str:
    contents = "".join(
        f"| [{c.number} {c.name}](#{c.number.lower()}-{c.name}) | {c.words} | {found[c.number].verdict} |\n"
        for c in CLAIMS
    )
    return ABOUT + contents + "".join(section(claim, found[claim.number]) for claim in CLAIMS)


def chinese_page() -> str:
    """By topic; the tables are on the English page."""
    say = said_in("zh")
    parts = [say("about")]
    claims = {claim.number: claim for claim in CLAIMS}
    for topic, numbers in TOPICS.items():
        parts.append(f"\n## {say(topic)}\n")
        for c in (claims[number] for number in numbers.split()):
            link = f"[{c.number} {c.name}](../why.md#{c.number.lower()}-{c.name})"
            parts.append(f"\n**{link}** {say(c.words)}\n\n**{say(verdict_of(c))}。** {say(f'{c.number} why')}\n")
    return "".join(parts)


@pytest.fixture
def in_chinese() -> str:
    return chinese_page()


@pytest.fixture(scope="session")
def measure() -> Iterator[Callable[[str], Measured]]:
    """`measure("N11")`: what was measured, now or by an earlier test."""
    found: dict[str, Measured] = {}
    claims = {claim.number: claim for claim in CLAIMS}

    def once(number: str) -> Measured:
        if number not in found:  # some claims share one measurement
            same = [n for n in found if claims[n].measure is claims[number].measure]
            found[number] = found[same[0]] if same else claims[number].run()
        return found[number]

    yield once
    if os.environ.get("QKV_WRITE_DOCS") and len(found) == len(CLAIMS):
        PAGE.write_text(page(found), encoding="utf-8")
        CHINESE.write_text(chinese_page(), encoding="utf-8")
