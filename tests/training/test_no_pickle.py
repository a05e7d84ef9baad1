"""Nothing in the package can execute what is in a file: no pickle, no eval, wherever it hides."""

import ast
from pathlib import Path

import pytest

import qkv

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {"torch.load", "torch.save", "eval", "exec", "np.load", "np.save", "numpy.load", "numpy.save", "yaml.load"}
SOURCES = sorted(Path(qkv.__file__).parent.rglob("*.py"))


def offences(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name.split(".")[0] in MODULES or name in CALLS]
        elif isinstance(node, ast.Call):
            found += [name for name in [ast.unparse(node.func)] if name in CALLS]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found.append("allow_pickle")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_package_reads_no_code_from_files(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import load",
        "import torch\ntorch.load('x')",
        "from torch import save",
        "eval('1')",
    ],
)
def test_the_search_finds_what_it_looks_for(text: str) -> None:
    assert offences(text) != []
