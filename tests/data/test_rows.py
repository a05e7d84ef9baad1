"""Rows of any number of columns come back from disk as they were, whole or not at all; damage is found and told."""

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.data import Row, RowsInMemory, RowsOnDisk, RunningText, Written, each_row, write_rows
from qkv.data.writing import PENDING
from qkv.errors import InputError

OWNER = "0" * 64  # the fingerprint of some tokenizer


def some_rows(count: int, seed: int = 0, columns: int = 2) -> list[list[list[int]]]:
    """Different rows: the number in front sees to that."""
    rng = random.Random(seed)
    ends = [[rng.choices(range(400), k=rng.randint(0, 6)) for _ in range(columns)] for _ in range(count)]
    return [[[number, *first], *others] for number, (first, *others) in enumerate(ends)]


def write(folder: Path, rows: list[Row], **how: Any) -> Written:
    columns = how.pop("columns", len(rows[0]) if rows else 2)
    return write_rows(
        folder, rows, **{"columns": columns, "vocab_size": 1000, "fingerprint": OWNER, "count": len(rows), **how}
    )


def opened(folder: Path) -> RowsOnDisk:
    return RowsOnDisk.open(folder, OWNER)


def by_shard(rows: RowsOnDisk) -> list[list[list[list[int]]]]:
    return [[shard[row] for row in range(len(shard))] for shard in map(rows.shard, range(rows.shards))]


ANY_ROWS = st.integers(1, 4).flatmap(
    lambda columns: st.lists(
        st.lists(st.lists(st.integers(0, 999), max_size=5), min_size=columns, max_size=columns), min_size=1, max_size=30
    )
)


@settings(max_examples=60, deadline=None)
@given(rows=ANY_ROWS, shard_rows=st.integers(1, 40), in_order=st.booleans(), unique=st.booleans())
def test_any_rows_come_back(rows: list[Row], shard_rows: int, in_order: bool, unique: bool) -> None:
    """All of them, or the first of each kind; in their own order within a shard, which equal first columns share."""
    with tempfile.TemporaryDirectory() as place:
        written = write(Path(place) / "rows", rows, shard_rows=shard_rows, in_order=in_order, unique=unique)
        found = by_shard(opened(Path(place) / "rows"))
    different = list({json.dumps(row): row for row in rows}.values())
    expected = different if unique else rows
    homes = {json.dumps(row[0]): number for number, shard in enumerate(found) for row in shard}
    assert found == [[row for row in expected if homes[json.dumps(row[0])] == number] for number in range(len(found))]
    assert len(found) == (1 if in_order else -(-len(rows) // shard_rows))
    tokens = [sum(len(row[column]) for row in expected) for column in range(len(rows[0]))]
    assert written == Written(len(expected), len(rows) - len(expected), 0, tokens)


@settings(max_examples=40, deadline=None)
@given(rows=ANY_ROWS)
def test_rows_in_memory_are_the_same_as_on_disk(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "rows", rows, in_order=True)
        disk, memory = opened(Path(place) / "rows"), RowsInMemory(rows)
        assert list(each_row(disk)) == list(each_row(memory)) == rows
        assert len(disk) == len(memory) == len(rows)
        assert disk.lengths(0).tolist() == memory.lengths(0).tolist() == [[len(c) for c in row] for row in rows]


def test_many_rows_are_split_at_random(tmp_path: Path) -> None:
    rows = some_rows(500)
    write(tmp_path / "rows", rows, shard_rows=64)
    found = opened(tmp_path / "rows")
    assert found.shards == 8  # 500 / 64, rounded up
    assert len(found) == 500
    assert min(map(len, by_shard(found))) > 30  # 62 on average
    assert all(len(set(shard.lengths[:, 0])) > 3 for shard in map(found.shard, range(8)))


def test_the_first_of_equal_rows_is_kept_and_the_rest_counted(tmp_path: Path) -> None:
    rows = some_rows(200)
    same_start = [[first, [*second, 7]] for first, second in rows[:50]]
    given_rows = rows[:120] + rows + same_start + rows
    written = write(tmp_path / "rows", given_rows, shard_rows=100, unique=True)
    assert (written.rows, written.duplicates) == (250, 320)
    found = by_shard(opened(tmp_path / "rows"))
    assert sorted(row for shard in found for row in shard) == sorted(rows + same_start)
    assert write(tmp_path / "again", given_rows).rows == len(given_rows)  # unless they are to be different, all stay


def test_where_a_column_ends_matters_for_equality(tmp_path: Path) -> None:
    """All have the same ids in a row; only the borders differ."""
    rows = [[[5, 6], [7], []], [[5], [6, 7], []], [[5, 6], [], [7]], [[5, 6, 7], [], []]]
    assert write(tmp_path / "rows", rows, unique=True).duplicates == 0


def test_long_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [[[1], [1] * 4], [[1] * 3, [1]], [[1], [1] * 5], [[1] * 4, [1]]]
    written = write(tmp_path / "rows", rows, longest=(3, 4))
    assert (written.rows, written.too_long) == (2, 2)
    assert list(each_row(opened(tmp_path / "rows"))) == rows[:2]


def test_empty_columns_and_empty_shards_are_fine(tmp_path: Path) -> None:
    write(tmp_path / "rows", [[[], []]], count=5, shard_rows=1)
    assert sorted(by_shard(opened(tmp_path / "rows")), key=len) == [[], [], [], [], [[[], []]]]


def test_ids_are_as_narrow_as_the_vocabulary_allows(tmp_path: Path) -> None:
    for size, most, dtype in ((2**16, 2**16 - 1, np.uint16), (2**16 + 1, 2**16, np.uint32)):
        write(tmp_path / f"{size}", [[[most, 0]]], vocab_size=size)
        shard = opened(tmp_path / f"{size}").shard(0)
        assert shard.ids.dtype == dtype
        assert shard[0] == [[most, 0]]


def test_a_number_that_no_row_holds_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an example has a number above 65,535, which no row of ids holds; shorten"):
        write(tmp_path / "rows", [[[1, 2], [70_000]]], vocab_size=1000)
    assert not list(tmp_path.iterdir())


def test_more_than_waits_in_memory_is_written_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PENDING > 2**20
    monkeypatch.setattr("qkv.data.writing.PENDING", 500)
    monkeypatch.setattr("qkv.data.writing.CHUNK", 50)
    rows = some_rows(300, columns=3)
    write(tmp_path / "rows", rows, in_order=True)
    assert list(each_row(opened(tmp_path / "rows"))) == rows


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[int] = []
    write(tmp_path / "rows", [[[1], [2]]] * 10_000, progress=seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 10_000


def test_a_failed_run_leaves_the_old_rows_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "rows", some_rows(20))
    before = by_shard(opened(tmp_path / "rows"))

    def broken() -> Iterator[Row]:
        yield from some_rows(10_000)
        raise InputError("line 10001 is not UTF-8")

    with pytest.raises(InputError, match="line 10001"):
        write_rows(tmp_path / "rows", broken(), columns=2, vocab_size=10_000, fingerprint=OWNER, count=10_001)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert by_shard(opened(tmp_path / "rows")) == before


def test_rows_replace_older_rows_but_no_other_files(tmp_path: Path) -> None:
    write(tmp_path / "rows", some_rows(20))
    assert write(tmp_path / "rows", some_rows(30, seed=1)).rows == 30
    assert len(opened(tmp_path / "rows")) == 30
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(InputError, match="not overwritten"):
        write(tmp_path / "thesis", some_rows(5))
    assert (tmp_path / "thesis" / "chapter1.txt").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    write(folder, some_rows(50))
    for name in ("00000.ids", "00000.lengths"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-2])
        with pytest.raises(InputError, match=f"{name} is damaged or missing"):
            opened(folder)
        (folder / name).write_bytes(content[:10] + bytes([content[10] ^ 1]) + content[11:])
        rows = opened(folder)  # sizes agree; the content is read with the shard
        with pytest.raises(InputError, match=f"{name} is damaged or missing"):
            rows.shard(0)
        (folder / name).unlink()
        with pytest.raises(InputError, match=f"{name} is damaged or missing"):
            opened(folder)
        (folder / name).write_bytes(content)
    opened(folder).shard(0)


def test_a_bad_index_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    with pytest.raises(InputError, match=r"no index.json"):
        opened(folder)
    write(folder, some_rows(5))
    with pytest.raises(InputError, match="another tokenizer"):
        RowsOnDisk.open(folder, "1" * 64)
    index = json.loads((folder / "index.json").read_text())
    for version in (1, 99):
        (folder / "index.json").write_text(json.dumps({**index, "version": version}))
        with pytest.raises(InputError, match=f"has format {version}, and this qkv reads 2; prepare the data again"):
            opened(folder)
    shardless = [{"rows": 5}]
    for bad in ("", "[]", "{}", '{"version": 2}', json.dumps({**index, "dtype": "nonsense"}),
                json.dumps({**index, "shards": shardless}), json.dumps({**index, "written": {"rows": 5}}),
                json.dumps({**index, "shards": 3})):  # fmt: skip
        (folder / "index.json").write_text(bad)
        with pytest.raises(InputError, match=r"index.json is damaged"):
            opened(folder)


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no example is left"):
        write(tmp_path / "rows", [])
    with pytest.raises(InputError, match="1 were too long"):
        write(tmp_path / "rows", [[[1] * 50, [1]]], longest=(3, 3))
    with pytest.raises(InputError, match=r"longest=\[0, 3\] must be 1 or more"):
        write(tmp_path / "rows", some_rows(3), longest=(0, 3))
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="there is no example to make batches of; give files that hold some"):
        RowsInMemory([])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.lists(st.integers(0, 999), max_size=6)), min_size=1, max_size=20),
    shard_rows=st.integers(1, 6),
    borders=st.tuples(st.integers(0, 130), st.integers(0, 130)),
)
def test_running_text_is_all_ids_behind_each_other(
    rows: list[tuple[list[int]]], shard_rows: int, borders: tuple[int, int]
) -> None:
    """In memory, and in many shards on disk, whose borders do not show."""
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "rows", rows, shard_rows=shard_rows)
        for found in (RowsInMemory(rows), opened(Path(place) / "rows")):
            whole = [number for row in each_row(found) for number in row[0]]
            text, span = RunningText(found), slice(*sorted(borders))
            assert len(text) == len(whole)
            assert text[span].tolist() == whole[span]
            assert text[span].dtype == np.int64


def test_running_text_that_is_cut_or_gone_is_said(tmp_path: Path) -> None:
    """It is read as it is asked for: what happens to the file after it was opened is seen then."""
    write(tmp_path / "rows", [([1, 2, 3, 4, 5],)])
    text, file = RunningText(opened(tmp_path / "rows")), tmp_path / "rows" / "00000.ids"
    assert text[slice(1, 4)].tolist() == [2, 3, 4]
    file.write_bytes(file.read_bytes()[:4])
    with pytest.raises(InputError, match="is damaged or missing"):
        text[slice(1, 4)]
    file.unlink()
    with pytest.raises(InputError, match="is damaged or missing"):
        text[slice(1, 4)]
