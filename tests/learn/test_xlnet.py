"""XLNet learns, in any order, what follows from the rest of a text (Yang et al. 2019)."""

import json
from pathlib import Path

import qkv
from qkv.folder import RunFolder

MODEL = {"d_model": 32, "d_ff": 64, "n_heads": 2, "layers": 2, "dropout": 0.0}
TRAINING = {
    "threads": 1,
    "precision": "float32",
    "schedule": "constant",
    "epochs": 0.0,
    "learning_rate": 0.02,
    "optimizer": "muon",
}


def test_xlnet_is_far_below_the_most_frequent_word(tmp_path: Path) -> None:
    """Numbers in their order, from any on: each follows from any that is seen, and from where it stands."""
    lines = [
        " ".join(str(100 + (first + i) % 10) for i in range(length)) for first in range(10) for length in range(5, 13)
    ]
    (tmp_path / "text.txt").write_text("\n".join(lines * 3) + "\n")
    told = qkv.train(
        tmp_path / "text.txt", task="fill", architecture="xlnet", out=tmp_path / "m", quiet=True,
        data={"vocab_size": 300, "batch_tokens": 400, "window": 24}, model={**MODEL, "max_length": 24},
        training={**TRAINING, "steps": 200, "validate_every": 200},
    )  # fmt: skip
    baselines = json.loads(RunFolder(tmp_path / "m").baselines.read_text())
    print(f"loss {told.best['loss']:.3f}; counted: {baselines}")
    assert told.best["loss"] < 0.5 * baselines["frequency"]
