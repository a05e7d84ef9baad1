"""What a run writes down: lines that parse, curves that can be looked at, and TensorBoard's files."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import qkv
from kit import write_tsv
from qkv.config import merge
from qkv.display import duration
from qkv.folder import RunFolder
from qkv.training.telling import Log

FIGURES = {"epoch": 0.5, "learning_rate": 0.1, "gradient": 1.0, "seconds": 0.1}


def here(out: Path) -> RunFolder:
    folder = RunFolder(out)
    folder.place.mkdir(exist_ok=True)
    return folder


def lines(path: Path) -> list[dict[str, Any]]:
    """Strictly: Python would read NaN, which is not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text(encoding="utf-8").splitlines()]


def train(step: int, loss: float, tokens: int) -> dict[str, Any]:
    return {"event": "train", "step": step, "loss": loss, "tokens": tokens, **FIGURES}


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], small: dict[str, Any]
) -> tuple[Path, qkv.Trained]:
    place = tmp_path_factory.mktemp("logged")
    tsv = write_tsv(place / "pairs.tsv", pairs)
    trained = qkv.train(
        tsv, out=place / "model", quiet=True, **merge(small, {"training": {"steps": 40, "validate_every": 10}})
    )
    return place / "model" / "training", trained


def test_every_line_of_a_run_parses_and_says_what_it_is(run: tuple[Path, qkv.Trained]) -> None:
    events = lines(run[0] / "log.jsonl")
    assert {event["event"] for event in events} == {"train", "valid"}
    for event in events:
        assert {"step", "epoch", "loss"} <= event.keys()
    trains = [event for event in events if event["event"] == "train"]
    assert all({"learning_rate", "gradient", "tokens", "tokens_per_second", "seconds"} <= e.keys() for e in trains)
    valid = [event for event in events if event["event"] == "valid"]
    assert [event["step"] for event in valid] == [10, 20, 30, 40]
    assert all(event["perplexity"] == pytest.approx(math.exp(event["loss"])) for event in valid)
    assert all(0 <= event["bleu"] <= 100 for event in valid)


def test_the_result_has_the_figures_of_the_best_validation(run: tuple[Path, qkv.Trained]) -> None:
    valid = [event for event in lines(run[0] / "log.jsonl") if event["event"] == "valid"]
    best = min(valid, key=lambda event: event["loss"])
    assert best["best"] is True
    assert run[1].best == {key: value for key, value in best.items() if isinstance(value, float)}


def test_the_curves_are_drawn(run: tuple[Path, qkv.Trained]) -> None:
    matplotlib = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    picture = matplotlib.imread(run[0] / "curves.png")
    assert min(picture.shape[:2]) > 200
    assert picture.std() > 0.01  # not one colour


def test_tensorboard_has_the_figures(run: tuple[Path, qkv.Trained]) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    board = reader.EventAccumulator(str(run[0] / "tensorboard"))
    board.Reload()
    assert {"train/loss", "train/learning_rate", "valid/loss", "valid/bleu"} <= set(board.Tags()["scalars"])
    logged = {e["step"]: e["loss"] for e in lines(run[0] / "log.jsonl") if e["event"] == "valid"}
    shown = {event.step: event.value for event in board.Scalars("valid/loss")}
    assert shown == pytest.approx(logged, rel=1e-6)


def test_steps_are_summed_up_by_their_tokens(tmp_path: Path) -> None:
    log = Log(here(tmp_path), 0)
    for event in (train(1, 6.0, 10), train(2, 3.0, 20)):
        log.event(event)
    log.close()
    [line] = lines(here(tmp_path).log)
    assert (line["step"], line["loss"], line["tokens"]) == (2, 4.0, 30)  # (6 * 10 + 3 * 20) / 30


def test_a_loss_that_is_no_number_spoils_neither_the_mean_nor_the_file(tmp_path: Path) -> None:
    log = Log(here(tmp_path), 0)
    for event in (train(1, 6.0, 10), train(2, math.nan, 20), train(3, 4.0, 10)):
        log.event(event)
    log.event({"event": "bad", "step": 3, "rows": [[0, 1]], "count": 1})
    log.event(train(4, math.inf, 10) | {"gradient": math.inf})
    log.close()
    summed, bad, alone = lines(here(tmp_path).log)
    assert (summed["loss"], summed["tokens"]) == (5.0, 40)
    assert bad == {"event": "bad", "step": 3, "rows": [[0, 1]], "count": 1}
    assert alone["loss"] is alone["gradient"] is None


def test_what_comes_after_the_checkpoint_is_forgotten_and_half_a_line_too(tmp_path: Path) -> None:
    log = Log(here(tmp_path), 0)
    for step in (7, 14, 21):
        log.event(train(step, 1.0, 1))
        log.event({"event": "valid", "step": step, "loss": 1.0 / step, "best": True})
    log.close()
    with here(tmp_path).log.open("a") as file:
        file.write('{"event": "train", "step": 5, "lo')
    again = Log(here(tmp_path), 14)
    assert again.best == {"loss": 1.0 / 14}
    again.event(train(15, 1.0, 1))
    again.close()
    assert [event["step"] for event in lines(here(tmp_path).log)] == [7, 7, 14, 14, 15]


def test_nothing_to_draw_is_told_and_no_error(tmp_path: Path) -> None:
    log = Log(here(tmp_path), 0)
    for step in range(8):
        log.event({"event": "bad", "step": step})
    assert "nothing to draw" in log.draw()
    log.close()


def test_a_few_lines_are_no_curve(tmp_path: Path) -> None:
    """Also where some of them were written before the run went on."""
    for step in range(1, 9):
        log = Log(here(tmp_path), step)
        log.event({"event": "valid", "step": step, "loss": 1.0 / step})
        assert log.draw() == ""
        log.close()
        assert here(tmp_path).curves.exists() == (step == 8)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (3660, "1 h 01 min")],
)
def test_how_long_something_takes(seconds: float, said: str) -> None:
    """What was estimated may be over: there is no time below none."""
    assert duration(seconds) == said
