"""Every claim, run: the effect has the sign that the verdict says, a broken part is noticed, docs/why.md is true."""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from qkv.attention import MultiHead, Soft
from qkv.attention.bigbird import BigBird
from qkv.attention.scores import ScaledDot
from qkv.errors import InputError
from qkv.layers import FeedForward
from qkv.positions import POSITIONS, Learned, Sinusoidal
from qkv.why import CLAIMS, TOPICS, Measured, find, said_in, verdict_of
from qkv.why import depth as depths
from qkv.why import masks as mask_claims
from qkv.why import positions as position_claims
from qkv.why.claim import Claim

Measure = Callable[[str], Measured]
PAGE = Path(__file__).parents[2] / "docs" / "why.md"
NUMBERS = [claim.number for claim in CLAIMS]
TRAINED = {"N12", "N19", "N22", "N32", "N38", "N42", "N43"}  # digits that another machine may train, or time, to differ


def test_all_forty_four_are_there_under_two_names() -> None:
    assert [f"N{i}" for i in range(1, 45)] == NUMBERS
    assert len({claim.name for claim in CLAIMS}) == 44
    for claim in CLAIMS:
        assert find(claim.number) is find(claim.number.lower()) is find(claim.number[1:]) is find(claim.name) is claim


@pytest.mark.parametrize(("name", "hint"), [("scal", "'scale'"), ("N45", "'N5"), ("wavelenghts", "'wavelengths'")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"no claim '{name}'; did you mean {hint}"):
        find(name)


@pytest.mark.parametrize("number", NUMBERS)
def test_it_holds(number: str, measure: Measure) -> None:
    measured = measure(number)
    assert measured.holds, measured.shown()
    assert measured.verdict == verdict_of(find(number)), "what `qkv why` lists"
    assert len(set(measured.columns)) == len(measured.columns)
    assert measured.rows
    assert all(len(row) == len(measured.columns) for row in measured.rows)
    assert measured.why.strip().endswith((".", "'"))


def test_measuring_leaves_threads_and_random_numbers_alone() -> None:
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again = find("kinds").run(), find("kinds").run()
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert first.rows == again.rows


def test_the_length_comparison_has_every_position_that_needs_no_tree(measure: Measure) -> None:
    names = [name for name, part in POSITIONS.items() if not part.needs_tree]
    assert [row[0] for row in measure("N19").rows] == names


def test_pictures_open_and_are_not_blank(measure: Measure, tmp_path: Path) -> None:
    drawn = {number: picture for number in NUMBERS if (picture := measure(number).picture) is not None}
    assert {"N6", "N11", "N21", "N23"} <= drawn.keys()
    for number, picture in drawn.items():
        with Image.open(picture(tmp_path / f"{number}.png")) as image:
            low, high = image.convert("L").getextrema()
        assert min(image.size) > 100, number
        assert high - low > 100, number


# -- a broken part must be noticed: else a claim might hold whatever the parts do --------------------------------------


def unscaled(self: ScaledDot, q: Tensor, k: Tensor, at: object) -> Tensor:
    return q @ k.transpose(-1, -2)


def everything(at: Any) -> Tensor:
    return torch.ones(len(at.query), len(at.key), dtype=torch.bool)


def even(self: Soft, scores: Tensor, q: Tensor, at: object) -> Tensor:
    return (scores > -math.inf).to(scores) / (scores > -math.inf).sum(-1, keepdim=True).clamp(min=1)


def largest(self: Soft, scores: Tensor, q: Tensor, at: object) -> Tensor:
    return nn.functional.one_hot(scores.argmax(-1), scores.size(-1)).to(scores)


def leaking(self: FeedForward, x: Tensor) -> Tensor:
    return x + x.roll(1, dims=1)


def shifted(self: Sinusoidal, length: int) -> Tensor:
    place = torch.arange(length, dtype=torch.float64)[:, None]
    return (place * torch.linspace(0.01, 0.1, self.width, dtype=torch.float64)).sin()


def unlimited(self: Learned, x: Tensor, at: Any) -> Tensor:
    return x + self.weight[at.query % self.length]


def crossed(self: MultiHead, x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], -1, self.n_heads).permute(0, 3, 1, 2)


def without_residual(self: Any, depth: int, *, residual: bool, norm: str) -> None:
    BUILD(self, depth, residual=False, norm=norm)


def no_globals(self: BigBird, count: int, most: int) -> Tensor:
    near = (torch.arange(count)[:, None] - torch.arange(count)).abs() <= 1
    return nn.functional.pad(near.float(), (0, most - count, 0, most - count))[None]


class UnitMean(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


BUILD = depths.Deep.__init__
BREAKS: list[tuple[Any, str, Any, list[str]]] = [
    (ScaledDot, "forward", unscaled, ["N11", "N5"]),
    (mask_claims, "causal", everything, ["N40", "N36"]),
    (position_claims, "causal", everything, ["N13"]),
    (Soft, "choose", even, ["N29", "N30", "N39"]),
    (Soft, "choose", largest, ["N1", "N40"]),
    (FeedForward, "forward", leaking, ["N35"]),
    (Sinusoidal, "rows", shifted, ["N16", "N17", "N18", "N21", "N15"]),
    (Learned, "embed", unlimited, ["N14", "N20"]),
    (MultiHead, "heads", crossed, ["N5"]),
    (depths.Deep, "__init__", without_residual, ["N23", "N37"]),
    (nn, "LayerNorm", UnitMean, ["N24"]),
    (BigBird, "between", no_globals, ["N44"]),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "number"),
    [(owner, name, broken, number) for owner, name, broken, numbers in BREAKS for number in numbers],
)
def test_a_broken_part_is_noticed(
    owner: Any, name: str, broken: Any, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert not find(number).run().holds


# -- the page ----------------------------------------------------------------------------------------------------------


def section(claim: Claim) -> str:
    parts = re.split(r"^## (N\d+) .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(claim.number, "")


def number_of(cell: str) -> float | None:
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.number)
def test_the_page_says_what_is_measured(claim: Claim, measure: Measure) -> None:
    measured = measure(claim.number)
    if os.environ.get("QKV_WRITE_DOCS"):
        pytest.skip("the page is being written")
    text = section(claim)
    again = "write docs/why.md anew: QKV_WRITE_DOCS=1 pytest tests/why"
    assert claim.words in text, again
    assert f"**{measured.verdict.capitalize()}.**" in text, again
    assert measured.why in text or claim.number in TRAINED, again
    _, _, *rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(measured.rows), again
    for printed, shown in zip(rows, measured.shown(), strict=True):
        for there, here in zip(printed, shown, strict=True):
            was, now = number_of(there), number_of(here)
            if was is None or now is None:
                assert there.strip() == here.strip(), again
            elif claim.number not in TRAINED:
                assert was == pytest.approx(now, rel=0.25, abs=1e-9), again


def numbers_in(text: str) -> set[str]:
    return {*re.findall(r"\d+(?:[.,]\d+)*", text)}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.number)
def test_chinese_says_the_same_numbers(claim: Claim) -> None:
    """Of the claim, and of the reason as the English page has it, which is held against what is measured."""
    say = said_in("zh")
    [reason] = re.findall(r"^\*\*.*?\.\*\* (.*)$", section(claim), re.MULTILINE)
    for words, said in ((claim.words, say(claim.words)), (reason, say(f"{claim.number} why"))):
        assert numbers_in(said) == numbers_in(words)
        assert re.search(r"[\u4e00-\u9fff]", said) or claim.number == "N16", "a formula needs no words"
        assert not {*re.findall(r"\bN\d+", words)} ^ {*re.findall(r"N\d+", said)}


def test_all_that_is_listed_is_there_in_chinese(in_chinese: str) -> None:
    say = said_in("zh")
    verdicts = {verdict_of(claim) for claim in CLAIMS}
    assert all(say(words) != words for words in (*TOPICS, *verdicts))
    assert (PAGE.parent / "zh" / "why.md").read_text(encoding="utf-8") == in_chinese, "write it anew, as docs/why.md"
    assert [f"N{i}" for i in range(1, 45)] == sorted(re.findall(r"\[(N\d+) ", in_chinese), key=lambda n: int(n[1:]))
