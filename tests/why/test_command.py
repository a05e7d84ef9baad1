"""`qkv why` as a person types it."""

import json
import re
import sys
from pathlib import Path

import pytest

from qkv import cli
from qkv.attention.scores import Dot, ScaledDot
from qkv.why import CLAIMS, TOPICS, find, verdict_of


class Run:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["qkv", "why", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        told = self.capsys.readouterr()
        return int(stopped.value.code or 0), told.out, told.err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Run(monkeypatch, capsys)


def test_alone_it_lists_them_all_by_topic_with_their_verdicts(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines() if re.match(r"N\d", line)]
    said = {number: (name, verdict) for number, name, verdict, *_ in lines}
    assert said == {c.number: (c.name, verdict_of(c)) for c in CLAIMS}
    assert [line for line in out.splitlines() if line in TOPICS] == list(TOPICS)
    assert " ".join(sorted(" ".join(TOPICS.values()).split())) == " ".join(sorted(c.number for c in CLAIMS))
    listed = json.loads(run("--json")[1])
    assert [(one["claim"], one["verdict"]) for one in listed] == [(c.words, verdict_of(c)) for c in CLAIMS]


@pytest.mark.parametrize("name", ["concat", "N5", "n5", "5"])
def test_a_claim_by_name_or_number(name: str, run: Run) -> None:
    code, out, _ = run(name)
    assert code == 0
    assert out.startswith(f"N5 concat: {find('N5').words}")
    assert "concatenated, then W^O" in out
    assert "true with a correction: Several attentions side by side" in " ".join(out.split())


def test_json_has_the_numbers(run: Run) -> None:
    code, out, _ = run("digits", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["number"], found["name"], found["verdict"], found["holds"]) == ("N30", "digits", "wrong", True)
    assert found["rows"][0]["value"] == pytest.approx(0.9755587549, abs=1e-9)


def test_the_picture_is_saved(run: Run, tmp_path: Path) -> None:
    assert run("example", "-o", "example.png")[0] == 0
    assert (tmp_path / "example.png").read_bytes().startswith(b"\x89PNG")
    assert run("windows", "-o", "windows.svg")[0] == 0
    assert "<svg" in (tmp_path / "windows.svg").read_text()


def test_a_wrong_sign_is_told_and_exits_with_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScaledDot, "forward", Dot.forward)
    code, out, _ = run("concat")
    assert code == 1
    assert "the effect has the wrong sign" in out
    code, out, _ = run("concat", "--json")
    assert (code, json.loads(out)["holds"]) == (1, False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["scal"], "qkv: there is no claim 'scal'; did you mean 'scale'?"),
        (["concat", "-o", "x.gif"], "x.gif does not end in the name of a picture format; use one of .png, .svg"),
        (["concat", "-o", "x.png"], "concat has no picture; leave out -o"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], sentence: str, run: Run, tmp_path: Path) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
