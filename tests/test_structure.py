"""The package keeps to its own rules: small files, no code out of data, every part explained, a README that is true."""

import ast
import gzip
import io
import json
import re
import shlex
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import cli
from qkv.attention import ATTENTIONS
from qkv.config import build, merge, read_toml
from qkv.layers import HEADS
from qkv.models import MODELS
from qkv.objectives import OBJECTIVES
from qkv.positions import POSITIONS
from qkv.tasks import TASKS
from qkv.training import SCHEDULES
from qkv.training.averaging import AVERAGES
from qkv.training.settings import complete

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "qkv"
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(text) for name, text in SOURCES.items()}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TABLES: dict[str, Mapping[str, Any]] = {
    "positions": POSITIONS,
    "attention": ATTENTIONS,
    "layers": HEADS,
    "models": MODELS,
    "objectives": OBJECTIVES,
    "tasks": TASKS,
}
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
LONGEST_FILE, LONGEST_FUNCTION = 300, 50


# -- sizes and names -------------------------------------------------------------------------------------------------


def help_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a signature and a docstring: of a command, they are its flags and its help."""
    first, *_ = function.body
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0 if is_docstring else first.lineno - 1) - function.lineno + 1


def functions(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(TREES[name]) if isinstance(node, FUNCTIONS))


@pytest.mark.parametrize("name", SOURCES)
def test_files_and_functions_are_small(name: str) -> None:
    is_cli = name.startswith("cli")
    length = len(SOURCES[name].splitlines())
    assert length <= LONGEST_FILE, f"{name} has {length} lines"
    for function in functions(name):
        lines = (function.end_lineno or 0) - function.lineno + 1 - (help_lines(function) if is_cli else 0)
        assert lines <= LONGEST_FUNCTION, f"{name}: {function.name} has {lines} lines"


@pytest.mark.parametrize("name", SOURCES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    about = ast.get_docstring(TREES[name]) or ""
    assert about.split("\n")[0].strip(), f"{name} has no docstring"


def test_a_class_name_stands_for_one_thing() -> None:
    named: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(name)
    assert {name: files for name, files in named.items() if len(files) > 1} == {}


def test_no_file_is_a_drawer_for_anything() -> None:
    parts = {part.removesuffix(".py") for name in SOURCES for part in Path(name).parts}
    assert not parts & {"utils", "util", "helpers", "helper", "common", "misc"}


# -- safety ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_data_never_becomes_code(name: str) -> None:
    """No pickle, and nothing that runs a text; `torch.load` is pickle by another name."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            assert not {module.split(".")[0] for module in modules} & {"pickle", "marshal", "shelve", "dill", "joblib"}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"eval", "exec", "compile", "__import__"}, f"{name} line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            assert node.attr not in {"load", "save"}, f"{name} line {node.lineno}"


@pytest.mark.parametrize("name", SOURCES)
def test_no_path_of_some_machine(name: str) -> None:
    paths = re.compile(r"(^|[\s'\"(=])(/(home|root|work|tmp|mnt|Users|opt|data)/|[A-Z]:\\)")
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not paths.search(node.value), f"{name} line {node.lineno}: {node.value!r}"


# -- tables and recipes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "name"), [(room, name) for room, table in TABLES.items() for name in table])
def test_every_part_is_explained(room: str, name: str) -> None:
    assert (TABLES[room][name].__doc__ or "").strip()
    assert f"`{name}`" in (ROOT / "docs" / f"{room}.md").read_text(encoding="utf-8")


def test_recipes_are_there() -> None:
    assert RECIPES


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_parses_and_builds(path: Path) -> None:
    tree = read_toml(path)
    assert next(iter(tree)) == "published", "its first key says which figure it is measured against"
    assert re.search(r"\d", tree["published"])
    stages, sets = (
        tree.pop("stages", {}),
        tree.pop("sets", {}),
    )  # and rows, for qkv compare; tests/comparing builds each
    for name in ("vary", "every_stage"):
        tree.pop(name, None)
    if sets:  # none of which is the recipe by itself
        architectures = [stage["architecture"] for stage in stages.values()]
        tree = merge(tree, next(iter(sets.values())), {"architecture": architectures[0]})
    settings = complete(tree, path.name)
    with torch.device("meta"):  # sizes without weights
        model = MODELS[settings.architecture](settings.model)
    assert sum(weight.numel() for weight in model.parameters()) > 0
    build(SCHEDULES, settings.training.schedule)
    build(AVERAGES, settings.training.average)
    assert any(getattr(settings.training, limit) for limit in ("steps", "epochs", "minutes", "patience"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_says_where_its_data_comes_from(path: Path) -> None:
    text, table = path.read_text(encoding="utf-8"), (ROOT / "recipes" / "README.md").read_text(encoding="utf-8")
    for folder in {*re.findall(r"\$QKV_DATA/([\w.-]+)", text)}:
        assert re.search(rf"^# Data: .*\b{folder} \(", text, re.MULTILINE), folder
        assert f"| `{folder}` |" in table


# -- the README ------------------------------------------------------------------------------------------------------


READMES = ("README.md", "README.zh.md")


def readme_commands(first: str) -> list[str]:
    """The lines of README.md's ```sh blocks that begin with this word, without their comments, in their order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.join(shlex.split(line, comments=True)) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(first + " ")]


def test_the_readmes_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = readme_commands("make")
    assert commands
    for command in commands:
        for target in command.split()[1:]:
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def lay_out(place: Path) -> None:
    """Small files of every name that the README's commands, and the recipes that they name, read."""
    pairs = [(f"{i} dogs play in the snow and the sun.", f"{i} Hunde spielen in Schnee und Sonne.") for i in range(30)]
    pairs[:3] = [(f"{en} {en} {en}", f"{de} {de} {de}") for en, de in pairs[:3]]  # longer than any that is asked
    sides = {"en": "".join(f"{en}\n" for en, _ in pairs), "de": "".join(f"{de}\n" for _, de in pairs)}
    for name in ("train", "val", "test", "news"):
        for language, text in sides.items():
            (place / f"{name}.{language}").write_text(
                text if name == "train" else text.replace("snow", name).replace("Schnee", name)
            )
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv></tu>'
    units = "".join(unit.format(*pair) for pair in pairs)
    (place / "pairs.tmx").write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    lines = [f"{en} {i * i} cats sleep.\n" + "\n" * (i % 4 == 3) for i, (en, _) in enumerate(pairs * 8)]
    (place / "book.txt").write_text("".join(lines))
    reviews = (f"{('good', 'bad')[i % 2]}\tFilm {i} is {('good', 'bad')[i % 2]}.\n" for i in range(40))
    (place / "reviews.tsv").write_text("".join(reviews))
    claims = (f"{i} dogs play.\tDogs {('play', 'sleep')[i % 2]}.\t{('yes', 'no')[i % 2]}\n" for i in range(40))
    (place / "rte.tsv").write_text("".join(claims))
    papers = (
        {"document": f"Paper {i}. {en} It is {i % 7}.", "summary": f"{i % 7} dogs"} for i, (en, _) in enumerate(pairs)
    )
    (place / "papers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in papers))
    (place / "paper.txt").write_text("Paper 9. Nine dogs play in the snow. It is 2.\n")
    (place / "messages.po").write_text('msgid ""\nmsgstr ""\n\nmsgid "2 dogs play in the snow."\nmsgstr ""\n')
    for recipe in RECIPES:
        tree = read_toml(recipe)
        for kind in ("train", "valid", "test"):
            for name, text in zip(tree.get(kind, []), sides.values(), strict=False):
                path = place / name.replace("$QKV_DATA", "data")  # and never beside the tests
                path.parent.mkdir(parents=True, exist_ok=True)
                content = text.replace(".", f" {kind}.").encode()
                path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def shortened(command: str) -> list[str]:
    """A command as it is run here. `train` stops after two steps; others search with one beam. A demo is only read, not
    run: it takes minutes; a server too, since it never ends, and what is refused for a model that two steps have taught
    nothing. Long texts are not measured."""
    words = shlex.split(command)[1:]
    if words[0] == "train":
        words += ["--steps", "2", "--training.bleu-sentences", "2", "--training.best-by", "loss"]
    if words[0] == "translate" or (words[0] == "score" and "lm" not in words):
        words += ["--beam", "1"]
    if words[0] == "measure":
        words[words.index("--lengths") + 1] = "128..256"
    return [*words, "--help"] if words[0] in ("demo", "serve", "quantize", "export") else words


def test_the_readmes_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the README's order, in one folder, as a reader would; see `shortened` for what is added."""
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))
    commands = readme_commands("qkv")
    assert {command.split()[1] for command in commands} >= {"train", "translate", "score"}
    folders = [command.split("--out ")[1].split()[0] for command in commands if command.startswith("qkv train ")]
    assert len({*folders}) == len(folders), "each has a folder of its own"
    torch.set_num_threads(1)
    for command in commands:
        told = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["qkv", *shortened(command)])
            patch.setattr(sys, "stderr", told)
            with pytest.raises(SystemExit) as stopped:
                cli.main()
        assert stopped.value.code == 0, f"{command}\n{told.getvalue()}"
    assert (tmp_path / "model" / "model.safetensors").exists()


def blocks(readme: str, language: str = "") -> list[str]:
    text = (ROOT / readme).read_text(encoding="utf-8")
    return [
        code for kind, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if kind == language
    ]


def without_comments(code: str) -> list[str]:
    """The tokens of Python or of a shell's lines, but for what is said behind #."""
    tokens = (one for one in tokenize.generate_tokens(io.StringIO(code).readline) if one.type != tokenize.COMMENT)
    return [one.string for one in tokens if one.string.strip()]


def test_the_chinese_readme_has_the_same_commands_and_code() -> None:
    """So that what runs of the one runs of the other; what is said beside it is in Chinese."""
    english, chinese = ([line for block in blocks(name, "sh") for line in block.splitlines()] for name in READMES)
    assert [shlex.split(line, comments=True) for line in english] == [
        shlex.split(line, comments=True) for line in chinese
    ]
    ours, theirs = ([without_comments(block) for block in blocks(name, "python")] for name in READMES)
    assert ours == theirs
    said, run, tree = blocks("README.md")
    said_there, run_there, tree_there = blocks("README.zh.md")
    assert (said, run) == (said_there, run_there)
    assert [line.split()[0] for line in tree.splitlines()] == [line.split()[0] for line in tree_there.splitlines()]
    headings = [re.findall(r"^## (.*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE) for name in READMES]
    assert len(headings[0]) == len(headings[1])
    assert all(re.search(r"[\u4e00-\u9fff]", heading) for heading in headings[1])


@pytest.mark.parametrize("page", ["docs/quick-start.md", "docs/zh/quick-start.md"])
def test_the_quick_start_has_commands_of_the_readme(page: str) -> None:
    """Which are run, above."""
    known = {*readme_commands("qkv"), *readme_commands("make")}
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    assert len(lines) == 7
    assert known.issuperset(shlex.join(shlex.split(line)) for line in lines)
