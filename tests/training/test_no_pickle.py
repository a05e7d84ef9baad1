"""Nothing in the package can execute what is in a file: no pickle, no eval, wherever it hides."""

import ast
from pathlib import Path

import pytest

import qkv

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {"torch.load", "torch.save", "eval", "exec", "np.load", "np.save", "numpy.load", "numpy.save", "yaml.load"}
# Collectives of objects send pickles, and distributed checkpoints keep their metadata as one.
OBJECTS = {"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list", "send_object_list",
           "recv_object_list"}  # fmt: skip
CHECKPOINT = "torch.distributed.checkpoint"
SOURCES = sorted(Path(qkv.__file__).parent.rglob("*.py"))


def offences(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found += [name for name in names if name.split(".")[0] in MODULES or name.startswith(CHECKPOINT)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name.split(".")[0] in MODULES or name in CALLS]
            found += [name for name in names if name.rpartition(".")[2] in OBJECTS or name.startswith(CHECKPOINT)]
        elif isinstance(node, ast.Call):
            found += [name for name in [ast.unparse(node.func)] if name in CALLS]
        elif isinstance(node, ast.Attribute) and (node.attr in OBJECTS or ast.unparse(node).startswith(CHECKPOINT)):
            found.append(ast.unparse(node))
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
        "import torch.distributed as dist\ndist.all_gather_object(found, own)",
        "from torch.distributed import broadcast_object_list",
        "import torch.distributed.checkpoint as dcp",
        "from torch.distributed import checkpoint",
        "from torch.distributed.checkpoint.state_dict import get_state_dict",
        "import torch\ntorch.distributed.checkpoint.save({})",
    ],
)
def test_the_search_finds_what_it_looks_for(text: str) -> None:
    assert offences(text) != []
