"""The tutorial keeps its word: its code runs in order, and its attention is one file of fewer than 30 lines."""

import re
from pathlib import Path
from typing import Any

import pytest

from qkv.attention import ATTENTIONS

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "add-an-attention.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


def test_the_file_has_fewer_than_30_lines_and_the_table_one_more() -> None:
    file = BLOCKS[0][1]
    assert file.startswith('"""Strided attention')
    assert len(file.splitlines()) < 30
    assert TEXT.count('    "strided": Strided,\n') == 1


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "tutorial"}
    try:
        for block in BLOCKS:
            code = "\n" * TEXT.count("\n", 0, block.start(1)) + block[1]  # so that a mistake names the page's line
            exec(compile(code, str(PAGE), "exec"), names)
    finally:
        ATTENTIONS.pop("strided", None)
    assert (tmp_path / "strided.png").stat().st_size > 1000


def test_the_links_resolve() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", TEXT)
    assert links
    assert all((PAGE.parent / link).exists() for link in links)
