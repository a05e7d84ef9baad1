"""Input that should bring a command down: each ends soon, in little memory, with an answer or one sentence."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from attack.harness import attack
from kit import save_untrained, tokenizer
from qkv import folder, manifest
from qkv.convert.native import write
from qkv.documents.place import EVENLY, Sides, is_even
from qkv.documents.place import place as placed
from qkv.documents.segment import Mark
from qkv.errors import InputError
from qkv.folder.loaded import FILES
from qkv.text.lines import LONGEST, read_lines
from qkv.weights import save_weights

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_untrained(
        tmp_path_factory.mktemp("attacked") / "mt", "transformer", tokenizer(), {"source": "en", "target": "de"}
    )


@pytest.fixture
def here(translator: Path, tmp_path: Path) -> Path:
    """A folder with a model in it."""
    shutil.copytree(translator, tmp_path / "mt")
    return tmp_path


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def packed(path: Path, letter: bytes) -> None:
    """Half a gigabyte of one letter."""
    with gzip.open(path, "wb", 1) as file:
        for _ in range(512):
            file.write(letter * 2**20)


def packed_document(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("word/document.xml", "w") as file,
    ):
        file.write(f"<w:document {W}><w:body><w:p><w:r><w:t>".encode())
        for _ in range(512):
            file.write(b"a" * 2**20)


def holds(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


INPUTS: dict[str, Callable[[Path], object]] = {
    "pipe.tsv": os.mkfifo,
    "pipe.html": os.mkfifo,
    "zero.docx": endless,
    "nul.tsv.gz": lambda path: packed(path, b"\0"),
    "a.tsv.gz": lambda path: packed(path, b"a"),
    "bomb.docx": packed_document,
    "million.txt": holds("cat " * 1_000_000),
    "deep.html": holds("<p>" + "<b>" * 20_000 + "the cat" + "</b>" * 20_000),
    "tags.html": holds("<b>x</b>" * 10_000),
    "deep.md": holds("*" * 20_000 + "the cat" + "*" * 20_000),
    "brackets.md": holds("[" * 20_000 + "](" * 20_000 + "![1](2" * 2000 + "\n\nthe cat"),
    "deep.json": holds("[" * 100_000 + "]" * 100_000),
    "deep.yaml": holds("[" * 50_000 + "]" * 50_000),
    "deep.toml": holds("a = " + "[" * 50_000 + "]" * 50_000),
    "tables.toml": holds("\n".join(f"[{'.'.join('a' * n)}]" for n in range(1, 2000))),
    "keys.toml": holds(".".join("a" * 50_000) + " = 1"),
    "digits.toml": holds("training.steps = " + "9" * 10_000),
}
COMMANDS = {".toml": "train --recipe {}", ".gz": "check {}", ".tsv": "check {}"}


@pytest.mark.parametrize("name", INPUTS)
def test_a_file(name: str, here: Path) -> None:
    INPUTS[name](here / name)
    command = COMMANDS.get(Path(name).suffix, "translate {} --model mt -o out" + Path(name).suffix)
    verdict = attack(here, *command.format(name).split())
    assert not verdict.fault, verdict


def settings(**changes: object) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        tree = json.loads((model / "config.json").read_text())
        tree["transformer"] |= changes
        (model / "config.json").write_text(json.dumps(tree))

    return change


def filled(number: float) -> Callable[[Path], None]:
    def fill(model: Path) -> None:
        weights = load_file(model / "model.safetensors")
        next(iter(weights.values())).view(-1)[0] = number
        save_file(weights, model / "model.safetensors")

    return fill


def config(text: str) -> Callable[[Path], object]:
    return lambda model: (model / "config.json").write_text(text)


def pipe(name: str) -> Callable[[Path], None]:
    def replace(model: Path) -> None:
        (model / name).unlink()
        os.mkfifo(model / name)

    return replace


FOLDERS: dict[str, Callable[[Path], object]] = {
    "a pipe for config.json": pipe("config.json"),
    "a pipe for tokenizer.json": pipe("tokenizer.json"),
    "a pipe for weights": pipe("model.safetensors"),
    "deep JSON": config("[" * 100_000),
    "a version without end": config('{"model_type": "qkv-transformer", "qkv_version": Infinity}'),
    "a version of many digits": config('{"model_type": "qkv-transformer", "qkv_version": ' + "9" * 10_000 + "}"),
    "a million layers": settings(encoder_layers=10**6),
    "ten million places": settings(max_length=10**7),
    "a wide model": settings(d_model=2**16, d_ff=2**18, n_heads=1, encoder_layers=1000),
    "no heads": settings(n_heads=0),
    "not a number": filled(float("nan")),
    "an infinite weight": filled(float("-inf")),
    "a huge weight": filled(1e30),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder(name: str, here: Path) -> None:
    FOLDERS[name](here / "mt")
    with pytest.raises(InputError):
        folder.load(here / "mt")


@pytest.mark.parametrize("name", [*FILES, "model.safetensors", manifest.NAME])
def test_no_flipped_byte_goes_unseen(name: str, here: Path) -> None:
    """40 places in each file of a model folder; what is no part of the weights, such as "format", may be anything."""
    path = here / "mt" / name
    sound, weights = path.read_bytes(), folder.weights(folder.load(here / "mt").model)
    for at in torch.randint(len(sound), (40,), generator=torch.Generator().manual_seed(1)).tolist():
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        try:
            loaded = folder.load(here / "mt")
        except InputError:
            continue
        assert name == "model.safetensors"
        assert all(torch.equal(weights[key], value) for key, value in folder.weights(loaded.model).items())


@pytest.mark.parametrize("name", ["int8.qkv", "shortlist.safetensors"])
def test_check_looks_at_what_other_commands_put_into_a_folder(name: str, here: Path) -> None:
    path, model = here / "mt" / name, folder.load(here / "mt").model
    if name == "int8.qkv":
        write(path, model, made_of=manifest.weights_digest(here / "mt"))
    else:
        save_weights(path, folder.weights(model))
    assert attack(here, "check", "mt").code == 0
    sound = path.read_bytes()
    path.write_bytes(sound[:-1000] + bytes([sound[-1000] ^ 1]) + sound[-999:])
    verdict = attack(here, "check", "mt")
    assert (verdict.code, verdict.fault) == (1, "")
    assert f"{name} is damaged" in verdict.said or "its checksum is wrong" in verdict.said


def test_who_changes_a_file_can_say_so(here: Path) -> None:
    (here / "mt" / "config.json").write_text((here / "mt" / "config.json").read_text() + "\n")
    assert "has changed since it was written" in attack(here, "check", "mt").said
    assert attack(here, "check", "mt", "--seal").code == 0
    folder.load(here / "mt")


def test_a_line_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("b\n" + "a" * LONGEST + "\nc\n")
    assert [len(line) for line in read_lines(path)] == [1, LONGEST, 1]
    path.write_text("b\n" + "a" * (LONGEST + 1))
    with pytest.raises(InputError, match="line 2 has more than"):
        list(read_lines(path))


def test_a_pipe_that_somebody_writes_into_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    if os.fork() == 0:
        (tmp_path / "pipe").write_text("one\ntwo\n")
        os._exit(0)
    assert list(read_lines(tmp_path / "pipe")) == ["one", "two"]


@pytest.mark.parametrize("given", ["a\0b", "a\udc80b"])
def test_a_name_that_no_file_has(given: str, here: Path) -> None:
    verdict = attack(here, "translate", "the cat", "--model", "mt", "-o", given)
    assert (verdict.code, verdict.fault) == (1, "")
    assert "give text in UTF-8" in verdict.said


def test_tags_without_number_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are too many to be aligned: each once, around its word, and no other is looked at for it."""
    monkeypatch.delattr(Sides, "votes")
    words = [f"w{i}" for i in range(4000)]
    source, starts = " ".join(words), list(accumulate((len(word) + 1 for word in words[:-1]), initial=0))
    marks: list[tuple[int, Mark]] = []
    for i, start in enumerate(starts):
        marks += [(start, Mark(f"<{i}>", "open", str(i))), (start + len(words[i]), Mark(f"</{i}>", "close", str(i)))]
    found = placed(source, source, marks, [])
    assert "".join(part if isinstance(part, str) else part.code for part in found) == " ".join(
        f"<{i}>{word}</{i}>" for i, word in enumerate(words)
    )


def test_a_word_of_thousands_of_tokens() -> None:
    """Each of which may be linked to each: they are counted before they are compared."""
    text, marks = "a;" * 4000, [(0, Mark("<b>", "open", "b")), (3, Mark("</b>", "close", "b"))]
    assert is_even(text, text, marks, [(0, 0)])
    assert not is_even(text, text[:100], marks, [(0, 0)])


def test_tags_that_are_too_many_are_told(here: Path) -> None:
    (here / "tags.html").write_text("<b>x</b>" * 4000)
    verdict = attack(here, "translate", "tags.html", "--model", "mt", "-o", "out.html")
    assert (verdict.code, verdict.fault) == (0, "")
    assert f"segment 1 {EVENLY}" in verdict.said
    assert (here / "out.html").read_text().count("<b>") == 4000


@pytest.mark.parametrize("depth", [3, 1400, 3000])
def test_tags_may_be_nested_as_deep_as_anybody_likes(depth: int) -> None:
    opens = [(4, Mark(f"<{i}>", "open", str(i))) for i in range(depth)]
    closes = [(7, Mark(f"</{i}>", "close", str(i))) for i in reversed(range(depth))]
    found = placed("the cat sat", "die Katze sass", [*opens, *closes], [(0, 0), (1, 1), (2, 2)])
    inside = "".join(mark.code for _, mark in opens) + "Katze" + "".join(mark.code for _, mark in closes)
    assert "".join(part if isinstance(part, str) else part.code for part in found) == f"die {inside} sass"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the addresses of a process, as Linux has it")
@pytest.mark.parametrize(
    ("addresses", "command", "who"),
    [
        (2**30, "train pairs.tsv", "torch needs 2,048"),
        (2**30, "explain", "torch needs 2,048"),
        (2**28, "translate 7", "qkv needs 512"),
        (2**26, "serve", "qkv needs 512"),
    ],
)
def test_little_memory_is_said(addresses: int, command: str, who: str, tmp_path: Path) -> None:
    """It would abort somewhere, or leave an import's traceback."""
    line = f"ulimit -v {addresses >> 10}; exec {sys.executable} -m qkv {command}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    said = f"qkv: this process may map {addresses >> 20:,} MB (ulimit -v), and {who} to start; raise that limit\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("words", "said"), [(100, "where a terminal has room for 64"), (2000, "at most 256 are explained")]
)
def test_a_sentence_too_long_to_explain(words: int, said: str, here: Path) -> None:
    verdict = attack(here, "explain", "the cat " * (words // 2), "--model", "mt")
    assert (verdict.code, verdict.fault) == (1, "")
    assert said in verdict.said


def test_a_folder_without_a_manifest_says_so_and_can_have_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mt" / manifest.NAME).unlink()
    folder.load(here / "mt")
    assert "there is no manifest.json" in capsys.readouterr().err
    assert "there is no manifest.json" in attack(here, "check", "mt").said
    assert attack(here, "check", "mt", "--seal").code == 0
    folder.load(here / "mt")
    assert capsys.readouterr().err == ""
    (here / "mt" / "generation_config.json").write_text("{}")
    with pytest.raises(InputError, match="has changed since it was written"):
        folder.load(here / "mt")
