"""A library call changes nothing of the process that it is made in: what a caller has set stays as it is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit import TEXTS, save_untrained, tokenizer

SCRIPT = """
import gc, json, os, signal, sys, threading, warnings
from pathlib import Path
import numpy, tokenizers, torch

def state():
    return {
        "environment": dict(os.environ),
        "threads of torch": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "warnings": [repr(one) for one in warnings.filters],
        "signals": [repr(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "children": "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children")),  # Linux
        "modes": (torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch.get_default_dtype()),
        "directory": os.getcwd(),
        "random": (torch.initial_seed(), hash(torch.get_rng_state().numpy().tobytes()), numpy.random.get_state()[2]),
    }

torch.set_num_threads(2)
gc.set_threshold(700, 11, 12)
before = state()
import qkv
import qkv.memory

def never():
    raise SystemExit("malloc was told what to do")

qkv.memory.keep_freed_memory = never
folders = sys.argv[1:]
translator, writer = (qkv.load(folder) for folder in folders)

def work():
    texts = ["two dogs play", "snow"] * 60
    translator.translate(texts, beam=3)
    translator.translate(texts[:3], sampling=True, seed=3)
    writer.generate(["a man", "", "two dogs play in the snow"], tokens=70, stop=False)
    list(writer.stream("a man", tokens=5, temperature=0.9))
    writer.score("two dogs play in the snow")

work()
others = [threading.Thread(target=work) for _ in range(2)]
for thread in others:
    thread.start()
for thread in others:
    thread.join()
seen = []
fresh = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
fresh.start()
fresh.join()
after = state()
changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
print(json.dumps({"changed": changed, "fresh thread": seen}, default=str))
"""


@pytest.fixture
def folders(saved: Path, tmp_path: Path) -> list[str]:
    words, about = tokenizer(*TEXTS, kind="byte_bpe"), {"task": "language_model"}
    return [str(saved), str(save_untrained(tmp_path / "writer", "gpt2", words, about, max_length=32))]


def test_loading_translating_and_generating_change_nothing(folders: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"changed": {}, "fresh thread": [2]}
