"""The same call with restart=True begins anew, whatever the task that the files are for."""

from pathlib import Path

import qkv
from qkv.opening import task_in_folder

SMALL = {
    "data": {"vocab_size": 400, "window": 16, "batch_tokens": 128},
    "model": {"d_model": 16, "layers": 1, "n_heads": 2},
}


def test_a_run_that_begins_anew_goes_by_its_files_again(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("".join(f"{n} dogs ran after {n * n} cats.\n" for n in range(150)), encoding="utf-8")
    for steps, restart in ((2, False), (1, True)):
        trained = qkv.train(
            book, out=tmp_path / "lm", restart=restart, quiet=True, training={"steps": steps, "threads": 1}, **SMALL
        )
        assert trained.steps == steps
        assert task_in_folder(tmp_path / "lm").name == "language_model"
