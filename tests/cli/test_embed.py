"""qkv embed: a row for each line, kept whole or not at all; and the lines nearest to a text."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv as package
from kit import TEXTS, save_untrained, tokenizer, write

Run = Callable[..., Any]
LINES = [*TEXTS, "", "two dogs", *TEXTS[::-1]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tokenizer(*TEXTS, size=300, kind="wordpiece")
    return save_untrained(tmp_path_factory.mktemp("embed") / "bert", "bert", words, {"task": "fill"}, max_length=12)


@pytest.fixture
def expected(bert: Path) -> Any:
    return package.load(bert, task="embed").embed(LINES)


@pytest.fixture
def lines(tmp_path: Path) -> str:
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    return "lines.txt"


def test_a_line_of_a_hundred_thousand_tokens_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Through a window; the weights of all pairs of one head would be 40 GB."""
    words = tokenizer(*TEXTS, size=300, kind="wordpiece")
    how = {"layers": 2, "attention": "window(32)", "position": "rotary", "max_length": 2**17}
    model = save_untrained(tmp_path / "far", "bert", words, {"task": "fill"}, **how)
    book = write(tmp_path / "book.txt", "two dogs in the snow " * 20_000 + "\n")
    command = [sys.executable, "-m", "qkv", "embed", book, "--model", model, "-o", tmp_path / "v.npy"]
    # Started by a small process: one that is started here is said to have used what this one has, perhaps gigabytes.
    measured = "import resource as r, subprocess as s, sys; s.run(sys.argv[1:], check=True); "
    measured += "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", measured, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cut" not in done.stderr
    assert len(words.encode(book.read_text())) >= 100_000
    found = np.load(tmp_path / "v.npy")
    assert found.shape == (1, 16)
    assert np.isfinite(found).all()
    assert int(done.stdout) < 2**20  # in KiB


@pytest.mark.parametrize("chunk", [1024, 2])
def test_row_i_is_line_i(
    qkv: Run, bert: Path, lines: str, tmp_path: Path, expected: Any, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.cli.lines.chunks.__defaults__", (chunk,))
    result = qkv("embed", lines, "--model", bert, "-o", "v.npy")
    assert (result.code, result.out) == (0, ""), result.err
    np.testing.assert_allclose(np.load(tmp_path / "v.npy", allow_pickle=False), expected, atol=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt", "v.npy"]


def test_a_header_has_room_for_any_number_of_rows(tmp_path: Path) -> None:
    from qkv.cli.embed import matrix

    for rows in (0, 1, 9, 10, 100_001):
        with matrix(tmp_path / "v.npy", 3) as (file, count):
            for part in np.array_split(np.arange(3 * rows, dtype=np.float32).reshape(rows, 3), 4):
                file.write(part.tobytes())
                count.append(len(part))
        found = np.load(tmp_path / "v.npy", mmap_mode="r")
        assert found.shape == (rows, 3)
        assert np.array_equal(found.ravel(), np.arange(3 * rows))


def test_vectors_are_printed_as_columns_or_json(qkv: Run, bert: Path, lines: str, expected: Any) -> None:
    found = [[float(cell) for cell in line.split("\t")] for line in qkv("embed", lines, "--model", bert).lines]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    objects = [json.loads(line) for line in qkv("embed", "--model", bert, "--json", stdin="\n".join(LINES)).lines]
    assert [one["text"] for one in objects] == LINES
    np.testing.assert_allclose([one["vector"] for one in objects], expected, atol=1e-6)
    first = qkv("embed", "two dogs", "--model", bert, "--pool", "first").out
    assert first != qkv("embed", "two dogs", "--model", bert).out


def test_the_nearest_lines_by_their_cosines(qkv: Run, bert: Path, lines: str, tmp_path: Path, expected: Any) -> None:
    query = package.load(bert, task="embed").embed("two dogs")
    cosines = expected @ query / np.linalg.norm(expected, axis=1) / np.linalg.norm(query)
    order = [i for i in np.argsort(-cosines, kind="stable") if LINES[i]][:4]
    result = qkv("embed", lines, "--model", bert, "--similar", "two dogs", "--k", 4, "-o", "v.npy")
    assert [line.split("\t") for line in result.lines] == [[f"{cosines[i]:.4f}", LINES[i]] for i in order]
    assert result.lines[0] == "1.0000\ttwo dogs"
    assert len(np.load(tmp_path / "v.npy")) == len(LINES)
    told = qkv("embed", lines, "--model", bert, "--similar", "two dogs", "--k", 1, "--json")
    assert json.loads(told.out) == {"text": "two dogs", "cosine": pytest.approx(1, abs=1e-5)}


def test_what_is_cut_is_said(qkv: Run, bert: Path) -> None:
    result = qkv("embed", "--model", bert, stdin=f"snow\n{' '.join(TEXTS)}\n")
    assert "1 of 2 texts had more than the 12 tokens that are read: cut" in result.err
    assert not qkv("embed", "snow", "--model", bert).err


def test_mistakes_leave_what_was_there(qkv: Run, bert: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "v.npy").write_text("before")
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\xfe\n")
    (tmp_path / "folder.npy").mkdir()
    for arguments, why in {
        ("bad.txt", "--model", bert, "-o", "v.npy"): "UTF-8",
        ("snow", "--model", bert, "-o", "v.txt"): "vectors are kept as .npy",
        ("snow", "--model", bert, "-o", "folder.npy"): "since folder.npy is a folder",
        ("snow", "--model", bert, "--similar", "x", "--k", "0"): "--k 0 asks for no text",
        ("snow", "--model", model): "a transformer of the task 'translate' cannot do the task 'embed'",
    }.items():
        result = qkv("embed", *arguments)
        assert result.code == 1
        assert why in result.err
        assert result.err.count("\n") == 1
    assert (tmp_path / "v.npy").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "folder.npy", "v.npy"]


def test_a_file_that_is_not_there_is_no_text(qkv: Run, bert: Path, lines: str) -> None:
    for name in ("nofile.txt", "no/file.tsv", "no.jsonl.gz"):
        result = qkv("embed", name, "--model", bert)
        assert (result.code, result.out) == (1, "")
        assert f"there is no file '{name}'; check the path" in result.err
    assert "'lines.txt' is a file, and one file alone is read" in qkv("embed", lines, "two dogs", "--model", bert).err
    assert qkv("embed", "see notes.txt", "--model", bert).code == 0
