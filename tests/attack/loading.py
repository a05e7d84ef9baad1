"""python tests/attack/loading.py [MB]: the time to load a model of random weights, with and without its checksum."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3


def make(place: Path, megabytes: int) -> None:
    import torch

    from qkv import folder
    from qkv.models import Transformer, TransformerConfig
    from qkv.text.tokenizer import Tokenizer

    words = Tokenizer.train(["the cat sat on the mat"] * 3, vocab_size=300)
    layers = max(1, megabytes * 2**20 // 4 // 29_000_000)  # of width 1024, an encoder's and a decoder's
    torch.manual_seed(1)
    sizes = {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "encoder_layers": layers, "decoder_layers": layers}
    folder.save(
        place, Transformer(TransformerConfig(vocab_size=len(words), **sizes)), words, {"source": "en", "target": "de"}
    )


def load(place: Path, checked: bool) -> None:
    """In a process of its own: the seconds that pass, and those of the processor."""
    from qkv import folder, weights

    if not checked:
        weights.DIGEST = "none"  # a name that no header has
    wall, cpu = time.perf_counter(), time.process_time()
    folder.load(place)
    print(time.perf_counter() - wall, time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "model")
        make(place, megabytes)
        size = (place / "model.safetensors").stat().st_size
        print("| a model of " + f"{size / 1e6:,.0f} MB | wall | processor | most memory |\n|---|---:|---:|---:|")
        for said, checked in (("with", "yes"), ("without", "no")):
            command = [sys.executable, __file__, str(place), checked]
            done = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(ROUNDS)]
            runs = [one.stdout.split() for one in done]
            wall, cpu, most = (min(float(run[i]) for run in runs) for i in range(3))
            print(f"| {said} its check | {wall:.2f} s | {cpu:.2f} s | {most / 1024:,.0f} MB |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        load(Path(sys.argv[1]), sys.argv[2] == "yes")
    else:
        main(int(sys.argv[1]) if len(sys.argv) == 2 else 500)
