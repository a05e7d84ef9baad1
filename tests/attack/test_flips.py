"""A bit flipped in any file of a model folder or of a run: it is seen, or what comes out is the same to the last bit.

Seen is what is refused in a sentence, or told on standard error. Harmless is what gives the same output: of a model
folder its translations with their scores and alignments, in float32, in 8 bits and with a shortlist, and the verdict of
`qkv check`; of a run that goes on, the weights that it ends with.
"""

import contextlib
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from attack.harness import SEED, count, record
from kit import some_pairs, write_tsv
from processes import CONTEXT
from qkv.cli import main
from qkv.errors import InputError
from qkv.files import digest

pytestmark = pytest.mark.attack
TEXTS = ["red green blue", "moon"]
SETTINGS: dict[str, Any] = {
    "source": "en", "target": "ne", "data": {"vocab_size": 300, "batch_tokens": 400, "max_length": 40},
    "model": {"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "max_length": 48},
    "training": {"checkpoint_steps": 2, "threads": 1, "bleu_sentences": 0, "precision": "float32"},
}  # fmt: skip
FOR_PEOPLE = {"training/log.jsonl", "training/curves.png"}  # written, shown and read by nobody who computes
Ask = Callable[[Path], dict[str, object]]


def go_on(tsv: Path, out: Path, steps: int) -> None:
    qkv.train(tsv, out=out, steps=steps, **SETTINGS)


def asked_of_a_model(place: Path) -> dict[str, object]:
    """The answers by each way in that reads files of its own; a way that is refused, or that tells something, has seen
    what there is to be seen."""

    def run(*given: str) -> str:
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
            patch.setattr("sys.argv", ["qkv", *given])
            with pytest.raises(SystemExit) as end:
                main()
        if end.value.code:
            raise InputError("refused by the command")
        return out.getvalue()

    ways: dict[str, Callable[[], object]] = {
        engine: lambda engine=engine: [  # type: ignore[misc]
            (one.text, one.score) for one in qkv.load(place, engine=engine).translate(TEXTS, beam=1)
        ]
        for engine in ("auto", "float32", "int8", "float32+shortlist")
    }
    ways["align"] = lambda: qkv.load(place, engine="float32").align(TEXTS, [text[::-1] for text in TEXTS])
    ways["check"] = lambda: run("check", str(place))
    return {name: answer(way) for name, way in ways.items()}


def asked_of_a_run(place: Path) -> dict[str, object]:
    """The weights of the run after two more steps."""

    def weights() -> str:
        go_on(place.parent / "pairs.tsv", place, 6)
        qkv.load(place, engine="float32")
        return digest(place / "model.safetensors")

    return {"goes on": answer(weights, SAID_OF_A_RUN)}


SAID_OF_A_RUN = ("damaged", "was not made")  # beside the progress that every run tells


def answer(way: Callable[[], object], said: tuple[str, ...] = ("",)) -> object:
    """What a way gives; None if it is refused, or tells that something is wrong."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
        try:
            found = way()
        except InputError:
            return None
    return None if told.getvalue().strip() and any(word in told.getvalue() for word in said) else found


def flip(ask: Ask, sound: Path, name: str, times: int, found: Path) -> None:
    """In a process of its own: flip bits of one file, one after the other, and write down what came of each."""
    torch.set_num_threads(1)
    rng, expected = random.Random(f"{SEED} {name}"), asked_in_copy(ask, sound)
    assert None not in expected.values(), expected
    data = (sound / name).read_bytes()
    with found.open("a", encoding="utf-8") as file:
        for _ in range(times):
            at, bit = rng.randrange(len(data)), rng.randrange(8)
            row: dict[str, str] = {"given": f"{name} byte {at} bit {bit}", "fault": "", "how": "seen"}
            file.write(json.dumps(row | {"fault": "crashed"}))  # unless what follows takes its place
            file.flush()
            flipped = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                answers = asked_in_copy(ask, sound, name, flipped)
            except Exception as error:
                row["fault"] = f"{type(error).__name__}: {error}"
            else:
                wrong = [way for way, one in answers.items() if one is not None and one != expected[way]]
                if answers == expected:
                    row["how"] = "harmless"
                elif wrong:
                    row["fault"] = f"unseen by {', '.join(wrong)}"
            file.write("\n" + json.dumps(row) + "\n")


def asked_in_copy(ask: Ask, sound: Path, name: str = "", data: bytes = b"") -> dict[str, object]:
    place = sound.with_name("flipped")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound, place)
    if name:
        (place / name).write_bytes(data)
    return ask(place)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has come to its fourth step, and the model that it wrote with all that commands put beside it."""
    place = tmp_path_factory.mktemp("ground")
    tsv = write_tsv(place / "pairs.tsv", some_pairs(120))
    process = CONTEXT.Process(target=prepare, args=(tsv, place / "run", place / "model"))
    process.start()
    process.join(300)
    assert process.exitcode == 0
    return place


def prepare(tsv: Path, run: Path, model: Path) -> None:
    from qkv.decoding.alignment import Readout, save_readout

    torch.set_num_threads(1)
    go_on(tsv, run, 4)
    shutil.copytree(run, model)
    for given in (["quantize", str(model)], ["shortlist", str(model)]):
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(SystemExit):
            patch.setattr("sys.argv", ["qkv", *given])
            main()
    shutil.rmtree(model / "training")
    save_readout(model, Readout(layer=1, shift=False))


@pytest.mark.parametrize(("kind", "ask"), [("model", asked_of_a_model), ("run", asked_of_a_run)])
def test_no_flipped_bit_goes_unseen(kind: str, ask: Ask, ground: Path, tmp_path: Path) -> None:
    sound = ground / kind
    names = sorted(str(path.relative_to(sound)) for path in sound.rglob("*") if path.is_file() and path.stat().st_size)
    names = [name for name in names if name not in FOR_PEOPLE and "tensorboard" not in name]
    rows: list[dict[str, str]] = []
    for name in names:
        found = tmp_path / "found"
        process = CONTEXT.Process(target=flip, args=(ask, sound, name, -(-count("flips") // 2 // len(names)), found))
        process.start()
        process.join(3600)
        assert process.exitcode is not None, f"hung: {found.read_text().splitlines()[-1]}"
        lines = [json.loads(line) for line in found.read_text().splitlines()]
        found.unlink()
        some = [line for line in lines if line["fault"] != "crashed"] + (lines[-1:] if process.exitcode else [])
        record("flips", *({**row, "folder": kind} for row in some))
        rows += some
    assert not (faults := [f"{row['given']}: {row['fault']}" for row in rows if row["fault"]]), "\n".join(faults)
