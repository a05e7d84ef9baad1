"""The notebook keeps its word: its cells run in order, in an empty folder, as a reader would run them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from qkv import parts

PAGE = Path(__file__).parents[1] / "docs" / "tutorials" / "notebook.ipynb"
CELLS = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]


def test_the_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Jupyter: a cell is a piece of Python, and all share their names."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, cell in enumerate(CELLS):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{PAGE.name}, cell {number}", "exec"), names)
    finally:
        parts.forget()
    told = capsys.readouterr().out
    assert "200 steps are done" in told
    assert "<Translator from numbers: task translate, num -> en, transformer of" in told
    assert "four two" in told
    assert "n_best=3 needs a beam of at least 3, not 2" in told
    band = told.rpartition("tensor(")[2]
    assert re.findall(r"[01]", band.split("],")[0])[:3] == ["1", "1", "0"], "a query sees itself and its neighbour"


def test_it_has_no_outputs_and_its_links_resolve() -> None:
    assert not any(cell.get("outputs") for cell in CELLS), "which would be of some machine"
    text = "".join(line for cell in CELLS if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    assert all((PAGE.parent / link).exists() for link in links)
