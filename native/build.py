"""Builds the native engine: `python native/build.py [library] [flags]`. `pip install` does it too (hatch_build.py).

Flags say which instructions a file may use; which file runs is decided by the processor that it runs on.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "src/qkv/engines/native/lib/engine.so"
FLAGS = "-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=fast -pthread -Wall -Wextra -Wno-psabi"
FLAGS += " -Wno-uninitialized -Wno-maybe-uninitialized"  # which gcc 12 says of its own header
PATHS = {
    "plain": "",
    "avx2": "-mavx2 -mfma -mf16c",
    "avx512": "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512",
}


def compiler() -> str:
    named = os.environ.get("CXX")
    found = next(filter(None, map(shutil.which, [named] if named else ["c++", "g++", "clang++"])), None)
    if found is None:
        raise OSError(f"no C++ compiler was found ({named or 'c++, g++, clang++, or $CXX'})")
    return found


def build(out: Path = OUT, *more: str) -> None:
    """Compile all of it into one library; `more` are further flags."""
    begin = [compiler(), *FLAGS.split(), *more]
    paths = PATHS if platform.machine().lower() in ("x86_64", "amd64") else {"plain": ""}
    parts = {name: [f"-DPATH={name}", *flags.split(), str(HERE / "path.cpp")] for name, flags in paths.items()}
    parts |= {path.stem: [str(path)] for path in HERE.glob("*.cpp") if path.stem != "path"}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = {name: str(Path(place) / f"{name}.o") for name in parts}
        list(pool.map(lambda name: run([*begin, "-c", *parts[name], "-o", objects[name]]), parts))
        out.parent.mkdir(parents=True, exist_ok=True)
        new = out.with_suffix(".new")  # which takes the old one's place at once: a process may have that open
        run([*begin, "-shared", *objects.values(), "-o", str(new)])
        new.replace(out)


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}\n{done.stderr}")
    sys.stderr.write(done.stderr)


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:2]), *sys.argv[2:])
