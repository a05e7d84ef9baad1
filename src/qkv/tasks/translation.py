"""Translation: sentence pairs in, a translator out."""

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from qkv.config import Tree, merge, setting
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.evaluation import Scores, score
from qkv.folder import About, Loaded, RunFolder
from qkv.models import EncoderDecoder, Model, SequenceToSequence
from qkv.tasks.corpus import Corpus, Found, Survey
from qkv.tasks.measuring import ONE_PROCESS, Sharing, asked_together
from qkv.tasks.on_backbone import gentle
from qkv.tasks.on_encoder_decoder import OnEncoderDecoder
from qkv.tasks.text_config import TextConfig
from qkv.text import Pair, languages, read_pairs
from qkv.text.doctor import Report, Rules, examine, fail_if_unusable
from qkv.text.normalise import normalise
from qkv.text.tokenizer import BOS, EOS, Tokenizer
from qkv.wording import count_of

TIMED, ROUNDS = 100, 3  # sentences whose decoding is timed, and how often


@dataclass(frozen=True, kw_only=True)
class PairsConfig(TextConfig):
    """How sentence pairs become ids and batches."""

    source: str = setting("", "the language to translate from, e.g. en; --from on the command line")
    target: str = setting("", "the language to translate to, e.g. de; --to on the command line")
    max_length: int = setting(200, "pairs with more tokens than this on a side are left out, and counted")
    max_target: int = setting(0, "the same of the target alone, where it is much shorter; 0 for max_length")
    whole_lines: bool = setting(False, "a line of several sentences is translated as one, as in training: a summary")
    doctor: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, not {self.max_length}")
        if self.max_target < 0:
            raise ValueError(f"max_target must be a number of tokens, or 0 for max_length, not {self.max_target}")

    @property
    def lengths(self) -> tuple[int, int]:
        """The most tokens of a source and of a target."""
        return self.max_length, self.max_target or self.max_length


class Translate(OnEncoderDecoder):
    """Vaswani et al. 2017, section 5: sentence pairs to a translator; what qkv train does without --task."""

    name = "translate"
    shape = "pairs"
    example_class = Pair
    kinds = (SequenceToSequence,)
    objective = "translation"
    figures = ("loss", "bleu")
    score = "bleu"
    data_class = PairsConfig
    files = "files of sentence pairs, for example: qkv train pairs.tmx --from en --to de"
    unit = "pairs"
    key_is = "source"
    columns = 2
    sizes = (0, 1)

    @classmethod
    def asked_of(cls, model: type[Model]) -> str:
        """A model of one stack is asked for hidden words."""
        return cls.objective if issubclass(model, EncoderDecoder) else "masked_translation"

    # -- from files to batches -----------------------------------------------------------------------------------

    def __init__(self, data: PairsConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        self.languages: tuple[str | None, str | None] = data.source or None, data.target or None
        self.also_called = {side: code for side, code in zip(self.fields, self.languages, strict=True) if code}
        self.skipped = Counter[str]()  # what was no pair at all

    def look(self, paths: Sequence[Path]) -> None:
        """All files are read in one direction: what is asked for, or what those to train on say."""
        self.languages = languages(paths, *self.languages)

    def read(self, paths: Sequence[Path]) -> Iterator[Pair]:
        self.look(paths)
        self.skipped.clear()
        return read_pairs(paths, source=self.languages[0], target=self.languages[1], skipped=self.skipped)

    def examine(self, examples: Iterator[Pair], held_out: Container[str], found: Found, name: str) -> Iterator[Pair]:
        if name == "test":  # the source of every one is held out, whatever its target
            yield from super().examine(examples, held_out, found, name)
            return
        doctor: Rules = self.data.doctor
        report, rules = Report(), doctor if name == "train" else replace(doctor, drop_copies=False)
        yield from examine(examples, rules, report, held_out)
        report.skipped += self.skipped
        found.read, found.kept = report.read, report.kept
        found.findings += report.lines()
        try:
            fail_if_unusable(report, *([1] if name == "valid" else []))
        except InputError as error:
            raise InputError(f"the validation files: {error}" if name == "valid" else str(error)) from None

    def key(self, example: Pair) -> str:
        return normalise(example.source)

    def texts(self, example: Pair) -> tuple[str, str]:
        return example.source, example.target

    def encode(self, examples: Sequence[Pair], tokenizer: Tokenizer, facts: About) -> list[tuple[list[int], list[int]]]:
        """(x1 .. xn </s>, <s> y1 .. ym </s>), with the mark of the target before x1 and y1 if the vocabulary has it."""
        mark = tokenizer.mark(facts.get("target", ""))
        sources = tokenizer.encode_batch([pair.source for pair in examples])
        targets = tokenizer.encode_batch([pair.target for pair in examples])
        return [([*mark, *src, EOS], [BOS, *mark, *tgt, EOS]) for src, tgt in zip(sources, targets, strict=True)]

    @property
    def longest(self) -> tuple[int, int]:
        source, target = self.data.lengths
        return source + 1, target + 2

    def told(self) -> Tree:
        source, target = self.languages
        split: About = {"whole_lines": True} if self.data.whole_lines else {}
        return {"source": source or "", "target": target or "", **split}

    def facts(self, survey: Survey, tokenizer: Tokenizer | None = None) -> About:
        return cast(About, self.told())

    # -- settings and model --------------------------------------------------------------------------------------

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        gently = {"learning_rate": gentle(self.start)} if self.is_one_stack and self.start else {}
        return merge(super().choose(survey, device, training), {"data": self.fitting_lengths()}, {"training": gently})

    @property
    def is_one_stack(self) -> bool:
        return not issubclass(self.model, EncoderDecoder)

    def fitting_lengths(self) -> Tree:
        """What a model of one stack, with which training starts, can read and write in its context."""
        context = self.start.get("max_length", math.inf)
        if self.context(*self.data.lengths) <= context or not self.is_one_stack:
            return {}
        return {"max_length": max(1, (context - self.context(0, 0)) // 2)}

    def context(self, source: int, target: int) -> int:
        assert issubclass(self.model, SequenceToSequence)
        return self.model.context(source, target)

    def needed(self) -> tuple[int, str]:
        needed, said = self.context(*self.data.lengths), super().needed()[1]
        return (
            needed,
            "source and target (data.max_length, data.max_target) and three more" if self.is_one_stack else said,
        )

    def counted(self, corpus: Corpus) -> str:
        direction = f"{corpus.facts['source'] or 'source'} -> {corpus.facts['target'] or 'target'}"
        return f"{direction}: {count_of(len(corpus.train), 'pairs')} to train on, {len(corpus.valid):,} to validate"

    # -- what comes of it ----------------------------------------------------------------------------------------

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        """BLEU of the first sentences to validate on, as a person would see them."""
        pairs = corpus.valid_examples(Pair, training.bleu_sentences)

        def bleu() -> dict[str, float]:
            translator = Translator(loaded.model, loaded.tokenizer, loaded.about)
            return {"bleu": scores(translator, pairs, self.sharing, beam=1).bleu}

        return bleu if pairs else dict

    def evaluate(self, loaded: Loaded, examples: Sequence[Pair], **how: Any) -> Tree:
        """BLEU of the translations, and its signature."""
        found = scores(self.open(loaded, engine="float32"), examples, **how)
        return {"bleu": found.bleu, "bleu_signature": found.bleu_signature}

    def timed(self, loaded: Loaded, examples: Sequence[Pair], **how: Any) -> Tree:
        """Target tokens a second, from text to text: the median of several rounds."""
        translator, sources, speeds = (
            self.open(loaded, engine="float32"),
            [pair.source for pair in examples[:TIMED]],
            [],
        )
        for _ in range(ROUNDS):
            began = time.perf_counter()
            lines = translator.translate(sources, **how)
            seconds = time.perf_counter() - began
            speeds.append(sum(len(loaded.tokenizer.encode(line.text)) + 1 for line in lines) / seconds)  # with the end
        return {"decoding_speed": statistics.median(speeds)}


def scores(translator: Translator, pairs: Sequence[Pair], sharing: Sharing = ONE_PROCESS, **how: Any) -> Scores:
    def translated(sources: Sequence[str]) -> list[str]:
        return [line.text for line in translator.translate(sources, **how)]

    texts = asked_together(sharing, translated, [pair.source for pair in pairs])
    target = str(translator.about.get("target", ""))
    return score(texts, [pair.target for pair in pairs], target_language=target)


def validation_pairs(folder: Path, most: int | None = None) -> list[tuple[str, str]]:
    """The first `most` pairs that the run of a model folder set aside for validation; none if it keeps no run."""
    place = RunFolder(folder).corpus
    has_pairs = place.exists() and "languages" not in (corpus := Corpus.open(place)).facts
    pairs = corpus.valid_examples(Pair, most) if has_pairs else []
    return [(pair.source, pair.target) for pair in pairs]
