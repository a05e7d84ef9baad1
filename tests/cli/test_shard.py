"""`--shard 3/8`: a part of a file, so that many processes share one; put together, the parts are the whole answer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import FACTS, TEXTS, save_untrained, save_untrained_task, tokenizer
from qkv.text.lines import read_lines, share

Run = Callable[..., Any]
LINES = ["3 1 4", "", "2 7", "8", "  ", "1 5 9 2 6", "5 3", "6 " * 60, "5", "9 7 9"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lines.num").write_text("\n".join(LINES) + "\n")
    return tmp_path / "lines.num"


SOME = ["", "a", "\u00fc\u4e2d", "\ufeff", "b\r", "long " * 9]


@given(st.lists(st.sampled_from(SOME)), st.booleans(), st.integers(1, 9))
def test_each_line_is_in_one_part(tmp_path_factory: pytest.TempPathFactory, lines: Any, ends: bool, count: int) -> None:
    path = tmp_path_factory.getbasetemp() / "some.txt"
    path.write_bytes(("\n".join(lines) + "\n" * ends).encode())
    parts = [share(path, number, count) for number in range(1, count + 1)]
    found = [list(read_lines(path, part)) for part in parts]
    assert [line for some in found for line in some] == list(read_lines(path))
    assert all(part.lines == sum(map(len, found[:i])) for i, part in enumerate(parts) if found[i])
    longest = 1 + max((len(line.encode()) for line in lines), default=0)
    assert all(part.end - part.begin < path.stat().st_size / count + 1 + longest for part in parts)


def parts(qkv: Run, count: int, *command: Any, ending: str = "") -> list[Path]:
    """What so many calls of a command write."""
    files = [Path(f"part.{number}{ending}") for number in range(1, count + 1)]
    for number, path in enumerate(files, start=1):
        result = qkv(*command, "--shard", f"{number}/{count}", "-o", path)
        assert (result.code, result.out) == (0, ""), result.err
    return files


@pytest.mark.parametrize(
    ("flags", "count"), [([], 12), (["--sample", "--temperature", "3"], 3), (["--beam", "2", "--n-best", "2"], 3)]
)
def test_parts_of_a_translation_are_the_whole(
    qkv: Run, model: Path, file: Path, tmp_path: Path, flags: list[str], count: int
) -> None:
    command = ["translate", file, "--model", model, *(flags or ["--beam", "1"])]
    whole = qkv(*command, "-o", "whole")
    assert whole.code == 0
    assert b"".join(path.read_bytes() for path in parts(qkv, count, *command)) == Path("whole").read_bytes()
    assert not list(tmp_path.glob(".*.part"))


def test_a_remark_names_the_line_of_the_file(qkv: Run, model: Path, file: Path) -> None:
    command = ["translate", file, "--model", model, "--beam", 1]
    said = "".join(qkv(*command, "--shard", f"{i}/3", "-o", f"part.{i}").err for i in (1, 2, 3))
    assert said == qkv(*command).err
    assert "line 8 was longer" in said


def test_bytes_that_are_no_text_are_named_by_their_line(qkv: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "noise.num").write_bytes(b"7\n" * 20 + b"7 \xff\n")
    result = qkv("translate", "noise.num", "--model", model, "--shard", "3/3", "-o", "part")
    assert (result.code, "line 21, byte 3 (0xff) is not UTF-8" in result.err) == (1, True)
    assert not Path("part").exists()


def test_a_part_that_is_there_is_left_unless_it_is_older_than_its_file(qkv: Run, model: Path, file: Path) -> None:
    command = ["translate", file, "--model", model, "--beam", "1", "--shard", "1/2", "-o", "part"]
    Path("part").write_text("old\n")
    result = qkv(*command)
    assert (result.code, result.err) == (0, "part is there already: left as it is; delete it to have it made again\n")
    assert Path("part").read_text() == "old\n"
    os.utime(file, (later := Path("part").stat().st_mtime + 9, later))
    assert qkv(*command).code == 0
    assert Path("part").read_text() != "old\n"


def test_texts_are_parted_as_in_one_file(qkv: Run, tmp_path: Path) -> None:
    words = tokenizer(*TEXTS, size=300, kind="byte_bpe")
    about = {"task": "language_model"}
    lm = save_untrained(tmp_path / "lm", "gpt2", words, about, max_length=16)
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, "", "one"]) + "\n")
    for flags in ([], ["--temperature", "2"], ["--json"]):
        command = ["generate", "texts.txt", "--model", lm, "--tokens", "4", *flags]
        whole = qkv(*command).out
        assert "".join(path.read_text() for path in parts(qkv, 3, *command)) == whole
        for path in tmp_path.glob("part.*"):
            path.unlink()


def test_rows_and_labels_as_well(qkv: Run, tmp_path: Path) -> None:
    words = tokenizer(*TEXTS, size=300, kind="wordpiece")
    bert = save_untrained(tmp_path / "bert", "bert", words, {"task": "fill"}, max_length=12)
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS, "", "two dogs"]) + "\n")
    qkv("embed", "texts.txt", "--model", bert, "-o", "whole.npy")
    found = parts(qkv, 4, "embed", "texts.txt", "--model", bert, ending=".npy")
    np.testing.assert_allclose(np.concatenate([np.load(path) for path in found]), np.load("whole.npy"), atol=1e-6)
    tagger = save_untrained_task(tmp_path / "tagger", "tag", words, FACTS["tag"])
    whole = qkv("predict", "texts.txt", "--model", tagger).out
    assert "".join(path.read_text() for path in parts(qkv, 4, "predict", "texts.txt", "--model", tagger)) == whole
    assert whole.count("\n\n") == len(TEXTS) + 1
