"""Every mistake that a person can make ends in one sentence and a non-zero exit; docs/errors.md lists them all.

Files and folders of the table's names are laid out afresh for each row; `good` is a model that `qkv train` wrote.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv import manifest
from qkv.text.tokenizer import Tokenizer


class Mistake(NamedTuple):
    """What was done wrong, by which command line, and a pattern of the one sentence that it must print."""

    name: str
    command: str
    sentence: str


PAIRS = "".join(f"{i} {i + 1}\tword{i} word{i + 1}\n" for i in range(30))
UNITS = "".join(
    f'<tu><tuv xml:lang="en"><seg>{i} cats</seg></tuv><tuv xml:lang="de"><seg>{i} Katzen</seg></tuv></tu>\n'
    for i in range(30)
)
TMX = f'<tmx version="1.4"><header srclang="en"/><body>\n{UNITS}</body></tmx>\n'
LAUGHS = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
BOMB = f'<!DOCTYPE tmx [<!ENTITY a0 "lol">{LAUGHS}]>\n<tmx><body><tu>&a9;</tu></body></tmx>\n'

ABSENT = next(name for name in ("cuda", "mps") if not getattr(torch, name).is_available())  # a device of elsewhere

FILES: dict[str, str | bytes] = {
    "pairs.tsv": PAIRS,
    "empty.tsv": "",
    "one.tsv": "good day\tguten Tag\n",
    "copies.tsv": "".join(f"line {i}\tline {i}\n" for i in range(30)),
    "binary.tsv": bytes(range(256)),
    "latin1.tsv": PAIRS.encode() + "Käse\tcheese\n".encode("latin-1"),
    "latin1.txt": "Käse\n".encode("latin-1"),
    "noise.txt": b"7\n7 \xff\n",
    "cells.tsv": PAIRS + "only one cell\n",
    "empty.txt": "",
    "labelled.tsv": "".join(f"{('good', 'bad')[i % 2]}\tfilm {i}\n" for i in range(30)),
    "one-class.tsv": "".join(f"good\tfilm {i}\n" for i in range(30)),
    "others.tsv": "maybe\tanother film\n",
    "lines.en": "one\ntwo\nthree\n",
    "lines.de": "eins\nzwei\n",
    "broken.po": 'msgid "a\n',
    "pairs.tmx": TMX,
    "broken.tmx": TMX.replace("</body>", ""),
    "bomb.tmx": BOMB,
    "cut.tsv.gz": b"\x1f\x8b\x08\x00",
    "key.toml": 'train = ["pairs.tsv"]\n[model]\nd_modle = 64\n',
    "top.toml": 'trian = ["pairs.tsv"]\nsorce = "en"\n',
    "side.toml": 'train = ["pairs.tsv"]\nsorce = "en"\n',
    "type.toml": 'train = ["pairs.tsv"]\n[model]\nd_model = "wide"\n',
    "section.toml": 'train = ["pairs.tsv"]\nmodel = 3\n',
    "syntax.toml": "train = [\n",
    "deep.toml": "a." * 200 + "a = 1\n",
    "file.toml": 'train = ["missing.tsv"]\n',
    "tiny.toml": 'train = ["pairs.tsv"]\n[model]\npreset = "tiny"\n',
    "task.toml": 'task = "clasify"\ntrain = ["pairs.tsv"]\n',
    "a-file": "in the way\n",
}

TABLE = r"""
no file at all | train | no file was given; translate learns from files of sentence pairs, for example
no file of parts | list attention --import parts.py | there is no such file of Python; give the name of one
a missing file | train missing.tsv | there is no file 'missing.tsv'; check the path
a folder where a file belongs | train folder | 'folder' is a folder, not a file
a binary file | train binary.tsv | binary.tsv line 1, byte 1 \(0x00\) is a NUL byte
a file that is not UTF-8 | train latin1.tsv | latin1.tsv line 31, byte 2 \(0xe4\) is not UTF-8
a gzip file cut short | train cut.tsv.gz | cut.tsv.gz is cut short
a line without two cells | train cells.tsv | cells.tsv line 31 has 1 cell where 2 were expected
one plain file for a translator | train lines.en --from en --to de | 1 plain file given
an empty text | train empty.txt | empty.txt has no text; give files with at least a word
a text shorter than a window | train lines.en | the text has \d+ tokens, but 1 x 129 are needed
a window longer than the context | train lines.en --data.window 512 --model.max-length 64
    | data.window is 512 tokens, but the model's context .* is 64; make the window shorter
a start folder of another width | train pairs.tsv --start good --model.d-model 64
    | good: its [a-z.]+ has the shape \(\d+, 32\), and here it would be \(\d+, 64\); start with the sizes
a start folder of another vocabulary | train pairs.tsv --start good --data.tokenizer unigram
    | good has sub-words of its own, so data.tokenizer cannot be another; leave it out
a start folder of another kind | train lines.en --start good
    | good holds a transformer model, which cannot learn the task 'language_model'; start from one of these
a start folder that is not there | train pairs.tsv --start nowhere | no model folder at nowhere; give
a label that nobody has learned | train labelled.tsv --task classify --valid others.tsv
    | others.tsv line 1 has the label 'maybe', which no training document has; known: bad, good
texts of one class | train one-class.tsv --task classify | every document has the label 'good'; give
an unknown objective | train pairs.tsv --objective tranlation | did you mean 'translation'
an objective that is no sum | train pairs.tsv --objective translation**2 | names no objective; write
an objective of another task | train pairs.tsv --objective classes
    | cannot be asked of a transformer model by the task 'translate'; leave --objective out
a figure that a task does not measure | train lines.en --training.best-by bleu
    | best_by is bleu, but language_model is measured by loss and perplexity
a translator asked to predict | predict 7 --model good | a model of the task 'translate'; ask it by
a translator asked to generate | generate 7 --model good | a model of the task 'translate'; ask it by
two files of different length | train lines.en lines.de | lines.en has 3 lines and lines.de has 2\b
an empty corpus | train empty.tsv | 0 usable pairs of 0 read; at least 10 are needed
one pair | train one.tsv | 1 usable pair of 1 read; at least 10 are needed
targets that copy their sources | train copies.tsv | 30 pairs had a target that is a copy
an empty validation file | train pairs.tsv --valid empty.tsv | the validation files: 0 usable pairs
a broken TMX | train broken.tmx --from en --to de | broken.tmx line 32 is not sound XML
an entity bomb in a TMX | train bomb.tmx --from en --to de | bomb.tmx.* uses XML entities .*refused
a language that a TMX lacks | train pairs.tmx --from en --to fr | its languages are: en, de
an unknown key in a recipe | train --recipe key.toml | key.toml: .*did you mean 'd_model'
a misspelled list of files in a recipe | train --recipe top.toml | 'trian'; did you mean 'train'
a misspelled language in a recipe | train --recipe side.toml | 'sorce'; did you mean 'source'
a misspelled key to compare | compare top.toml --vary position=none | 'trian'; did you mean 'train'
a wrong type in a recipe | train --recipe type.toml | type.toml: model.d_model: .*integer .*'wide'
a section that is no table | train --recipe section.toml | model is 3; it must be a table of settings
a recipe that is not TOML | train --recipe syntax.toml | syntax.toml is not valid TOML
a name of too many parts in a recipe | train --recipe deep.toml | has names of more than 100 parts; no setting
a recipe that is not there | train --recipe multi30k-en-ed | no recipe 'multi30k-en-ed'.*(mean|known)
a recipe that names a missing file | train --recipe file.toml | there is no file 'missing.tsv'
an unknown flag | train pairs.tsv --model.d-modle 64 | Did you mean --model.d-model?
an unknown command | trian pairs.tsv | Did you mean "train"?
a flag of the wrong type | train pairs.tsv --steps many | --steps: unable to convert "many" into int
a choice that is none | train pairs.tsv --model.norm per | Did you mean "pre"?
--model where --out is meant | train pairs.tsv --model mine | is a section .* --out
an unknown architecture | train pairs.tsv --architecture recurent | Did you mean "recurrent"?
an unknown task | train pairs.tsv --task clasify | Did you mean "classify"?
an unknown preset | train pairs.tsv --model.preset bas | "bas" for .* Did you mean "base"?
an attention of another kind | train pairs.tsv --model.attention single | not an attention to swap in
a position that needs trees | train pairs.tsv --model.position structural | needs a dependency tree
a sentence to explain, and no model | explain hello | the worked example is .* give a trained --model
an unknown position | train pairs.tsv --model.position sinusodal | did you mean 'sinusoidal'
an unknown option | train pairs.tsv --model.position learned(lenght=9) | did you mean 'length'
a position that is no name | train pairs.tsv --model.position 1+1 | '1\+1' does not name a part
an unknown attention | train pairs.tsv --model.attention scaled_dots | did you mean 'scaled_dot'
an unknown schedule | train pairs.tsv --training.schedule cosin | did you mean 'cosine'
an unknown tokenizer | train pairs.tsv --data.tokenizer bep | 'bep', and no tokenizer.json; did you
heads that do not divide the width | train pairs.tsv --model.n-heads 7 | not divisible by n_heads=7
a limit below zero | train pairs.tsv --steps -1 | steps cannot be negative, but it is -1
a limit that is no number | train pairs.tsv --minutes nan | minutes cannot be negative, but it is nan
too small a vocabulary | train pairs.tsv --data.vocab-size 5 | vocab_size=5 is too small.* 262 or more
--out is a file | train pairs.tsv --out a-file | a-file is a file; give --out the name of
no such device to train on | train pairs.tsv --device {absent} | there is no device '{absent}'
a part of a file that is none | translate lines.en --shard 9/8 -o out --model good | --shard 9/8 names no part
part 0 of a file | embed lines.en --shard 0/8 -o out.npy --model good | --shard 0/8 names no part of a file; give
a part that is no number | generate lines.en --shard x -o out --model good | --shard x names no part of a file; give
a part of no file | predict 7 --shard 1/8 --model good | --shard is for the lines of a file, and each part
a part of a packed file | translate cut.tsv.gz --shard 1/8 -o out --model good | cannot be read from its middle
no model folder | translate 7 --model nowhere | no model folder at nowhere; give the folder that
a file as model folder | translate 7 --model a-file | no model folder at a-file
an empty model folder | translate 7 --model folder | folder has no config.json
config.json is missing | translate 7 --model without-config | without-config has no config.json
tokenizer.json is missing | translate 7 --model without-tokenizer | tokenizer.json: No such file
model.safetensors is missing | translate 7 --model without-weights | safetensors is missing; copy
config.json is cut off | translate 7 --model cut-config | config.json is damaged or not from qkv; copy
config.json asks for another size | translate 7 --model other-size | config.json expects
config.json has an unknown key | translate 7 --model other-key | 'd_modle'; did you mean 'd_model'
config.json is of a later qkv | translate 7 --model later | written by a later qkv .*; update qkv
model.safetensors is cut off | translate 7 --model cut-weights | safetensors is damaged .*; copy
model.safetensors is noise | translate 7 --model random-weights | safetensors is damaged .*; copy
model.safetensors lacks a tensor | translate 7 --model fewer-weights | model.safetensors lacks \S
tokenizer.json is cut off | translate 7 --model cut-tokenizer | tokenizer.json is damaged: .*; copy
tokenizer.json of another model | translate 7 --model other-tokenizer | is not the one this model was
a vocabulary that does not fit | translate 7 --model other-vocabulary | 310 entries but .* 309
standard input is not UTF-8 | translate --model good < noise.txt | line 2, byte 3 \(0xff\)
a text file is not UTF-8 | translate latin1.txt --model good | latin1.txt line 1, byte 2 .0xe4. is not
more translations than beams | translate 7 --model good --n-best 9 | a beam of at least 9, not 5
no beam | translate 7 --model good --beam 0 | beam=0 .* must be at least 1
no temperature | translate 7 --model good --sample --temperature 0 | give a temperature above 0
a nucleus above 1 | translate 7 --model good --sample --top-p 2 | top_p above 0 and up to 1
a seed without end | translate 7 --model good --seed 999999999999999999999999999999 | seed must be a number from 0 to
a length penalty that is no number | translate 7 --model good --alpha nan | alpha must be a number
no such device | translate 7 --model good --device {absent} | no device '{absent}' .*use cpu
an unknown kind of device | translate 7 --model good --device gpu | no device 'gpu' on this machine
--output is a folder | translate 7 --model good -o folder | since folder is a folder; give --output
--output below a file | translate 7 --model good -o a-file/x | since a-file is a file; give --output
score without files | score --model good | no file was given; give one file of pairs
score of unequal files | score --model good lines.en lines.de | lines.en has 3 lines
score of an empty file | score --model good empty.tsv | there is nothing to score
average of nothing | average --out mean | nothing to average; name several model folders
average without --out | average good | --out requires an argument
average into a file | average good --out a-file | a-file is a file; give --out the name of
average of a missing run | average nowhere --out mean | nowhere has no checkpoints to average
average of a missing folder | average good nowhere --out mean | no model folder at nowhere
average of unlike models | average good other-words --out mean | other-words has another vocabul
average of no checkpoints | average good --last 0 --out mean | --last is 0, .* give 1 or more
list of an unknown kind | list postions | Did you mean "positions"?
info of no model | info nowhere | no model folder at nowhere
check without files | check | no file was given; give one file of pairs
a word that cannot be said | demo --say 2001 | '2001' cannot be said; give words of the letters a to z
an unknown engine | translate 7 --model good --engine int9 | 'int9'; did you mean 'int8'
8 bits that were never made | translate 7 --model without-bits --engine int8 | no int8.qkv; make it
no model to quantise | quantize nowhere | no model folder at nowhere
a quantised model that loses too much | quantize whole --bound -100 | so there is no int8.qkv; translate
an unknown format to export to | export good --to onxx x | unknown format 'onxx'; did you mean 'onnx'
an export over its own model | export good --to onnx good | good is the model folder itself; name
8 bits that a format lacks | export good --to onnx x --quantization int8 | for ctranslate2 alone
a broken PO to translate | translate broken.po --model good | broken.po line 1 is not sound PO
an unknown way to read | translate 7 --model good --format htm | htm
a server without a model | serve --model nowhere | no model folder at nowhere
a port that is none | serve --model good --port 70000 | there is no port 70000; give one from 1 to
a picture of an unknown kind | look 7 --model good -o x.txt | x.txt ends in none of .html, .png
an unknown picture | picture maks | there is no picture 'maks'; did you mean 'masks'
files to align that are not there | align --model good a b | there is no file 'a'; check the path
an unknown architecture of the demo | demo --architecture recurent | Did you mean "recurrent"?
a demo into a file | demo --out a-file | a-file is a file; give --out the name of
an unknown claim | why scael | scael.*did you mean 'scale'
a claim's picture of an unknown kind | why scale -o scale.txt | scale.txt
another sentence without a model | explain hello | the worked example is "I am good"; for another
a layer that a model lacks | explain 7 --model good --layer 9 | there is no layer 9 in this encoder
a head that a model lacks | explain 7 --model good --head 0 | there is no head 0 in this encoder; give
an unknown stack | explain 7 --model good --stack encodr | encodr
the worked example's flags for a model | explain 7 --model good --causal | are of the worked example
an explanation of an unknown kind | explain -o steps.pdf | steps.pdf is neither .html nor .svg
compare without a recipe | compare nothing --vary position=none | no recipe 'nothing'
nothing to compare | compare tiny.toml | tiny.toml has no \[\[vary\]\] rows; give --vary
a comparison without seeds | compare tiny.toml --vary position=none --seeds 0 | seeds is 0, but at
a variation of nothing | compare tiny.toml --vary postion=none | does not say what to vary; write KEY=
a variation without an end | compare tiny.toml --vary position=shaw(clip=2 | do not match; close each
a variation of the seed | compare tiny.toml --vary data.seed=1,2 | sets data.seed, but figures are
a variation that is not known | compare tiny.toml --vary position=roatry | did you mean 'rotary'
a variation given twice | compare tiny.toml --vary position=t5 --vary position=none | 'position' twice
a comparison without a budget | compare tiny.toml --vary position=none --steps 0 | a budget of 0 would
an unknown task to compare | compare task.toml --vary model.d_model=8 | did you mean 'classify'
"""
ROWS = TABLE.strip().replace("\n    |", " |").replace("{absent}", ABSENT).split("\n")
MISTAKES = [Mistake(*row.split(" | ", 2)) for row in ROWS]


WEIGHTS = ("model.safetensors", "int8.qkv")  # of which either is enough


def lay_out(place: Path, good: Path, names: str) -> None:
    """Write the files, and those of the spoilt models whose names stand in the command."""
    for name, content in FILES.items():
        (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (place / "folder").mkdir()
    (place / "good").symlink_to(good)
    for name, spoil in SPOILT.items():
        if name in names.split():
            shutil.copytree(good, place / name, ignore=shutil.ignore_patterns("training"))
            spoil(place / name)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def set_config(folder: Path, model: dict[str, object], **others: object) -> None:
    path = folder / "config.json"
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, **others, "transformer": {**tree["transformer"], **model}}))


def drop_tensor(path: Path) -> None:
    tensors = load_file(path)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, path)


def change_tokenizer(folder: Path) -> Tokenizer:
    """A sound tokenizer of the same size that was learned from other text."""
    texts = [f"{a}{b}{c}" for a in "bcdfgh" for b in "aeiou" for c in "klmnp"]
    tokenizer = Tokenizer.train(texts, vocab_size=310)
    assert len(tokenizer) == 310
    tokenizer.save(folder / "tokenizer.json")
    return tokenizer


def change_words(folder: Path) -> None:
    """A sound folder, of the same sizes, whose tokens mean other things."""
    set_config(folder, {}, tokenizer=change_tokenizer(folder).fingerprint)
    manifest.seal(folder, manifest.sealed(folder) or {})


SPOILT: dict[str, Callable[[Path], object]] = {
    "whole": lambda folder: shutil.copytree(folder.parent / "good" / "training", folder / "training"),
    "without-config": lambda folder: (folder / "config.json").unlink(),
    "without-tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "without-bits": lambda folder: (folder / "int8.qkv").unlink(missing_ok=True),
    "without-weights": lambda folder: [(folder / name).unlink(missing_ok=True) for name in WEIGHTS],
    "cut-config": lambda folder: cut(folder / "config.json"),
    "cut-weights": lambda folder: cut(folder / "model.safetensors"),
    "cut-tokenizer": lambda folder: cut(folder / "tokenizer.json"),
    "random-weights": lambda folder: (folder / "model.safetensors").write_bytes(bytes(range(256)) * 20),
    "fewer-weights": lambda folder: drop_tensor(folder / "model.safetensors"),
    "other-size": lambda folder: set_config(folder, {"d_ff": 65}),
    "other-key": lambda folder: set_config(folder, {"d_modle": 32}),
    "other-vocabulary": lambda folder: set_config(folder, {"vocab_size": 309}),
    "other-tokenizer": change_tokenizer,
    "other-words": change_words,
    "later": lambda folder: set_config(folder, {}, qkv_version=99),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_ends_in_one_sentence(
    mistake: Mistake, qkv: Callable[..., Any], model: Path, tmp_path: Path, errors_page: dict[str, tuple[str, str]]
) -> None:
    lay_out(tmp_path, model, mistake.command)
    before = sorted(path.name for path in tmp_path.iterdir())
    command, _, file = mistake.command.partition(" < ")
    result = qkv(*command.split(), stdin=(tmp_path / file).read_bytes() if file else b"")
    assert result.code in (1, 2)
    assert "Traceback" not in result.err
    *_, sentence = result.err.splitlines()
    assert [line for line in result.err.splitlines() if line.startswith("qkv: ")] == [sentence]
    assert re.search(mistake.sentence, sentence), sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "something was left behind"
    errors_page[mistake.name] = (f"qkv {mistake.command}", sentence.removeprefix("qkv: "))


def test_the_page_of_errors_lists_every_mistake(errors_in_docs: dict[str, str]) -> None:
    for mistake in MISTAKES:
        assert mistake.name in errors_in_docs, "write docs/errors.md anew: QKV_WRITE_DOCS=1 pytest tests/cli"
        assert re.search(mistake.sentence, errors_in_docs[mistake.name]), mistake.name
