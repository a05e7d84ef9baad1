"""The pages of docs/ are true: their code runs, their signatures are the code's, every part is named, links resolve."""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from qkv import parts
from qkv.attention import ATTENTIONS
from qkv.documents import FORMATS
from qkv.layers import HEADS
from qkv.models import MODELS, PRESETS, TransformerConfig
from qkv.objectives import OBJECTIVES
from qkv.papers import PAPERS, Paper
from qkv.positions import POSITIONS
from qkv.tasks import TASKS
from qkv.text import CHOICES, LABELLED, LABELLED_PAIRS, PAIRS, SPANS, TAGGED, TEXTS
from qkv.text.doctor import Rules
from qkv.text.tokenizer import TOKENIZERS
from qkv.training import SCHEDULES, Settings, TrainingConfig
from qkv.training.averaging import AVERAGES

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
ROOMS = ["text", "data", "positions", "attention", "layers", "models", "objectives", "training", "decoding",
         "convert", "documents", "evaluation", "look", "serving", "config", "model-folder", "tasks"]  # fmt: skip
TABLES: list[tuple[str, Mapping[str, Any]]] = [
    ("text", PAIRS | TEXTS | LABELLED | LABELLED_PAIRS | TAGGED | SPANS | CHOICES),
    ("text", TOKENIZERS),
    ("documents", FORMATS),
    ("positions", POSITIONS),
    ("attention", ATTENTIONS),
    ("layers", HEADS),
    ("models", MODELS),
    ("models", PRESETS),
    ("objectives", OBJECTIVES),
    ("tasks", TASKS),
    ("training", SCHEDULES),
    ("training", AVERAGES),
]


@dataclasses.dataclass(frozen=True)
class Fence:
    """One fenced block of a page."""

    page: str
    line: int  # of its first line, in the page
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(language: str) -> list[Fence]:
    found = []
    for page, text in PAGES.items():
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            found.append(Fence(page, text.count("\n", 0, match.start(1)) + 1, match[1]))
    return found


# -- code ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", sorted({fence.page for fence in fences("python")}))
def test_the_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    names: dict[str, Any] = {"__name__": "example"}
    try:
        for fence in fences("python"):
            if fence.page == page:
                code = "\n" * (fence.line - 1) + fence.code  # so that a mistake names the line of the page
                exec(compile(code, str(DOCS / page), "exec"), names)
    finally:
        parts.forget()


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_its_page(room: str) -> None:
    page = PAGES[f"{room}.md"]
    assert page.startswith("# ")
    assert any(fence.page == f"{room}.md" for fence in fences("python")), "no example"
    for heading in ("## Interface", "## Example", "## What it is tested against"):
        assert f"\n{heading}\n" in page, heading
    assert f"]({room}.md)" in PAGES["index.md"]


# -- signatures ------------------------------------------------------------------------------------------------------


def members(code: str) -> dict[str, ast.AST]:
    """What a piece of code declares, by name: functions, methods and fields."""
    found: dict[str, ast.AST] = {}
    for node in ast.parse(textwrap.dedent(code)).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    found[f"{node.name}.{inner.name}"] = inner
                elif isinstance(inner, ast.AnnAssign):
                    found[f"{node.name}.{ast.unparse(inner.target)}"] = inner
    return found


def signature(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else None}"
    assert isinstance(node, ast.AnnAssign)
    return ast.unparse(node.annotation)


def declared(module: Any, name: str) -> ast.AST:
    """How the code itself declares a member, wherever it is defined or inherited from."""
    owner, _, member = name.rpartition(".")
    if not owner:
        return members(inspect.getsource(inspect.unwrap(getattr(module, name))))[name]
    for cls in getattr(module, owner).__mro__:
        own = members(inspect.getsource(cls)) if cls.__module__.startswith("qkv") else {}
        if f"{cls.__name__}.{member}" in own:
            return own[f"{cls.__name__}.{member}"]
    raise AssertionError(f"{owner} has no {member}")


@pytest.mark.parametrize("fence", fences("pyi"), ids=str)
def test_the_signatures_are_those_of_the_code(fence: Fence) -> None:
    """The first line of such a block names its module; each signature, field and default is compared with it."""
    module = importlib.import_module(fence.code.split("\n")[0].removeprefix("# from "))
    shown = members(fence.code)
    assert shown
    for name, node in shown.items():
        assert signature(node) == signature(declared(module, name)), name
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            owner, _, field = name.rpartition(".")
            default = {f.name: f.default for f in dataclasses.fields(getattr(module, owner))}[field]
            assert ast.literal_eval(node.value) == default, name


# -- parts and links -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "table"), TABLES, ids=lambda value: value if isinstance(value, str) else "")
def test_every_part_is_on_its_page_with_its_options(room: str, table: Mapping[str, Any]) -> None:
    rows = [line for line in PAGES[f"{room}.md"].split("\n") if line.startswith("| ")]
    for name, part in table.items():
        row = next((row for row in rows if re.search(rf"`{re.escape(name)}[`(]", row.split("|")[1])), None)
        assert row is not None, f"{name} has no row in {room}.md"
        if callable(part) and room not in ("text", "models"):
            for option in inspect.signature(part).parameters.values():
                if option.kind is option.KEYWORD_ONLY:
                    assert re.search(rf"\b{option.name}\b", row), f"the row of {name} does not name {option.name}"


def test_every_setting_is_on_the_page_of_settings() -> None:
    """With its default, as TOML spells it, and with the sentence that --help shows."""
    lines = PAGES["config.md"].split("\n")
    for section in dataclasses.fields(Settings):
        assert f"`{section.name}`" in PAGES["config.md"], section.name
    of_tasks = [task.data_class for task in TASKS.values()]
    for config in (*of_tasks, Rules, TransformerConfig, *OBJECTIVES.values(), TrainingConfig):
        for setting in dataclasses.fields(config):
            if setting.name != "doctor":  # a table of its own
                empty = setting.default is dataclasses.MISSING  # a list has a factory
                default = json.dumps([] if empty else setting.default).strip('"')
                assert f"| `{setting.name}` | {default} | {setting.metadata['about']} |" in lines


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)  # a comment in code is no heading
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, anchor: str) -> str:
    """From the heading with an anchor to the next one of any depth; the whole page without an anchor."""
    parts = re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
    return next((part for part in parts if anchor in anchors(part)), "") if anchor else text


@pytest.mark.parametrize("paper", [paper for paper in PAPERS.values() if paper.row], ids=lambda paper: paper.row)
def test_a_paper_of_the_family_is_explained_and_measured(paper: Paper) -> None:
    """The index has its page and its recipe; the page says what it changed, and where that is measured."""
    lines = [line for line in PAGES["index.md"].split("\n") if line.startswith(f"| {paper.row} (")]
    assert len(lines) == 1
    assert lines[0].endswith(f" | `{paper.recipe}` |")
    page, _, anchor = re.findall(r"\]\((.*?)\)", lines[0])[0].partition("#")
    assert re.search(r"\bchanged\b", section(PAGES[page], anchor))
    assert "](results/family.md)" in PAGES[page]
    family = (DOCS / "results" / "family.md").read_text(encoding="utf-8")
    assert f"\n| {paper.row} (" in family
    asked = section(PAGES["objectives.md"], "what-each-paper-asks")
    assert paper.row in ", ".join(re.findall(r"^\| (.*?) \|", asked, re.MULTILINE)).split(", ")


LINKED = [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md"))]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_links_resolve(page: Path) -> None:
    """Of every page, pictures among them; a page of the docs has none that leaves the site."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), link
        assert file.is_relative_to(DOCS) or not page.is_relative_to(DOCS), link
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), link


def test_every_page_is_in_the_site_once() -> None:
    """And nothing in the site's settings would make a browser fetch anything from elsewhere."""
    site = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = [one for entry in site["nav"] for one in nav_pages(entry)]
    assert sorted(pages) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert (site["theme"]["font"], site["plugins"]) == (False, ["search"])
    assert "extra_javascript" not in site


def nav_pages(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for one in (entry.values() if isinstance(entry, dict) else entry) for page in nav_pages(one)]
