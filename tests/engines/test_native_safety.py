"""The native engine under wrong files, wrong questions and too little memory: a sentence each, and never a crash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from native_engine import model
from qkv.convert.native import write
from qkv.engines.native.library import LIBRARY, is_built

pytestmark = pytest.mark.skipif(not is_built(), reason="the native engine is not built")
NATIVE = Path(__file__).parents[2] / "native"

MUTATE = """
import random, sys
from pathlib import Path
import numpy as np
from qkv.convert.native import checksum
from qkv.engines.native.library import Native
from qkv.errors import InputError

count, sources = int(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
wholes, path = [one.read_bytes() for one in sources], sources[0].with_name("mutated.qkv")
rng, rng_, taken, written, asked = random.Random(1), np.random.default_rng(1), 0, 0, 0
for number in range(count):
    data = bytearray(wholes[number % len(wholes)])
    for _ in range(rng.choice([1, 1, 4])):
        place = rng.randrange(128) if rng.random() < 0.8 else rng.randrange(len(data))
        data[place] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data))]
    if rng.random() < 0.8 and len(data) >= 128:  # as if somebody meant it
        data[16:24] = len(data).to_bytes(8, "little")
        data = data[: len(data) // 8 * 8] if rng.random() < 0.5 else data
        data[24:32] = checksum(data[: len(data) // 8 * 8]).to_bytes(8, "little")
    path.write_bytes(data)
    try:
        native = Native(path)
        native.read(np.array([3, 2]), np.array([1, 2, 3, 4, 5]), np.array([0, 1, 1, 0, 0]), threads=2)
        taken += 1
        how = {"first": 1, "end": 2, "never": [0, 1, 3], "threads": 2, "no_repeat": number % 3, "ends": number % 2}
        numbers = {"samples": 2, "numbers": rng_.random((2, 2, 6)), "temperature": 1.0, "top_p": 0.9}
        native.search([[5, 6, 2], [7, 2]], [6, 4], **(how | ({"beam": number % 4} if number % 5 else numbers)))
        written += 1
        native.attention([[5, 6, 2], [7, 2]], [[1, 5], [1]], number % 2, threads=2)
    except InputError as error:
        assert "\\n" not in str(error)

def pick(good, wrong, often=0.04):
    return rng.choice(wrong if rng.random() < often else good)

good = [Native(one) for one in sources]
for number in range(count):  # what a sound model can answer, or just not
    native = good[number % len(good)]
    lengths = [pick([1, 3, 17], [0, 41, 150]) for _ in range(3)]
    texts = [[pick(range(40), [-1, 40, 2**31 - 1], 0.002) for _ in range(length)] for length in lengths]
    how = {"first": pick([1, 5], [-1, 40]), "end": pick([2, 9], [-1, 40]), "never": [0, 1, pick([3, 39], [-1, 40])]}
    how |= {"no_repeat": pick([0, 1, 4000], [-1]), "at_least": pick([0, 3, 4000], [-1])}
    how |= {"ends": pick([0, 1, 2], [-1, 3])}
    how |= {"prefix": [pick(range(4, 40), [-1, 40]) for _ in range(number % 3)], "threads": pick([-1, 0, 1, 3], [2])}
    limits = [pick([1, 5, 30], [-1, 0, 41]) for _ in texts]
    if number % 4 == 0:
        how["lists"] = [sorted({*range(20), *how["prefix"], 20 + number % 20}) for one in texts]
    if number % 3 == 0:
        shape = (3, pick([2], [1]), pick([max(limits)], [1]))
        how |= {"samples": 2, "numbers": rng_.random(shape) if min(shape) > 0 else np.zeros(0)}
        how |= {"temperature": pick([1.0, 1e-6], [0.0]), "top_p": pick([0.5, 1.0], [0.0, 2.0])}
        how |= {"top_k": pick([0, 2], [-1])}
    try:
        if number % 2:
            native.search(texts, limits, beam=pick([1, 2, 5], [-1, 0, 5000]), **how)
        else:
            for step, _ in enumerate(native.stream(texts, limits, **how)):
                if step == pick([3, 99], [3]):
                    break
        asked += 1
        native.attention(texts, texts[::-1], pick([0, 1], [-1, 2]), threads=2)
    except InputError as error:
        assert "\\n" not in str(error)
print(taken, written, asked)
"""


def test_no_mutation_of_a_file_is_a_crash(tmp_path: Path) -> None:
    """Each is read or refused with a sentence, and so is what is searched with it; and some are read and searched with,
    so that more than the header is tried. The same of as many questions to sound files."""
    for name in ("bert", "transformer", "gpt2"):
        for bits in (8, 16, 32):
            write(tmp_path / f"{name}{bits}.qkv", model(name, d_model=20, vocab_size=40), bits=bits)
    count = int(os.environ.get("QKV_MUTATIONS", "300"))
    command = [sys.executable, "-c", MUTATE, str(count), *map(str, sorted(tmp_path.glob("*.qkv")))]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    read, written, asked = map(int, done.stdout.split())
    assert count / 50 < read < count * 0.9
    assert written > count / 100
    assert count / 50 < asked < count * 0.9


SMALL = """
import resource, sys
from pathlib import Path
from qkv.engines.native.library import Native
from qkv.errors import InputError

native = Native(Path(sys.argv[1]))
how = {"first": 1, "end": 2, "never": [0, 1, 3], "no_repeat": 0, "ends": 0, "threads": 2}
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**26,) * 2)
try:
    native.search([[5, 6], [7]], [9, 9], beam=4096, **how)
except InputError as error:
    print(error)
print(len(native.search([[5, 6], [7]], [9, 9], beam=2, **how)))
"""


def test_too_little_memory_is_said(tmp_path: Path) -> None:
    """4,096 hypotheses take some 500 MB, and 64 MB are left; a small search goes on. In a process of its own, which has
    freed nothing that it could take again."""
    if "sanitized" in LIBRARY:
        pytest.skip("a sanitizer takes more addresses than any limit")
    write(tmp_path / "model.qkv", model(n_heads=4, d_k=64), bits=32)
    command = [sys.executable, "-c", SMALL, str(tmp_path / "model.qkv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, count = done.stdout.splitlines()
    assert "cannot write on from this: there is not enough memory" in told
    assert count == "2"


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("c++")), reason="valgrind or a compiler is missing")
def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    """All that the engine does, once, with each form of a file; valgrind knows no AVX-512."""
    forms = {tmp_path / f"{name}-{bits}.qkv": (name, bits) for name in ("transformer", "gpt2") for bits in (8, 16, 32)}
    for file, (name, bits) in forms.items():
        write(file, model(name, d_model=20, max_length=12), bits=bits)  # so that a GPT-2's texts slide
    library, program = tmp_path / "engine.so", tmp_path / "small"
    subprocess.run([sys.executable, NATIVE / "build.py", library, "-O1", "-g"], check=True)
    given = [NATIVE / "trial" / "small.cpp", library, f"-Wl,-rpath,{tmp_path}", "-o", program]
    subprocess.run(["c++", "-std=c++17", "-O1", "-g", *given], check=True)
    watch = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]
    done = subprocess.run([*watch, program, *forms], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
