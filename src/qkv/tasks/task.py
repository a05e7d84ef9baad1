"""What a run asks of a task: files -> examples -> rows of ids; which model, objective and figures; what it opens as."""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast, get_origin, get_type_hints

import torch
from torch import Tensor

from qkv.config import Tree, merge
from qkv.data import Buckets, Rows, RowsInMemory, Stream
from qkv.errors import InputError
from qkv.evaluation import class_scores
from qkv.folder import About, Loaded
from qkv.models import MODELS, Backbone, Headed, Model
from qkv.objectives import NOTHING, Asked, Objective, objective
from qkv.tasks.corpus import Corpus, Found, Survey
from qkv.tasks.measuring import ONE_PROCESS, Sharing, measured
from qkv.tasks.predictor import Predictor
from qkv.tasks.spool import Spooled, chunked
from qkv.tasks.text_config import TextConfig
from qkv.text.tokenizer import Tokenizer
from qkv.wording import are, count_of


class Task:
    """The interface of a task; `read` and `encode` are what a task must say, and `key` where no example has a text.

    An example is plain data as `read` makes it of a file; a row is its ids, column by column. A task names the kinds of
    models that can learn it and the objective that asks for it; both can be swapped for others of their tables.
    """

    name: ClassVar[str]
    shape: ClassVar[str]  # what its examples are called where they are given in memory: qkv.train(pairs=[...])
    example_class: ClassVar[type[Any]]
    kinds: ClassVar[tuple[type[Model], ...]]  # models that can learn it
    architecture: ClassVar[str]  # the one in MODELS that is trained unless another is asked for
    objective: ClassVar[str]  # what is asked unless something else is
    figures: ClassVar[tuple[str, ...]] = ("loss",)  # what each validation measures: `best_by` is one of them
    score: ClassVar[str] = "loss"  # the one that models are compared by
    search: ClassVar[Tree] = {}  # how answers are searched for unless said otherwise; {} if nothing is
    data_class: ClassVar[type[TextConfig]] = TextConfig  # a task adds settings of its own in a subclass
    defaults: ClassVar[Tree] = {}  # settings to begin with; a recipe and flags are laid over them
    files: ClassVar[str]  # what its files are, for people
    asks: ClassVar[str] = 'qkv predict "a text"'  # what a person may do with the model
    unit: ClassVar[str] = "examples"
    speed: ClassVar[str] = "examples"  # what training speed is counted in
    key_is: ClassVar[str] = "text"  # what examples are held out by, for people
    columns: int  # of a row
    sizes: ClassVar[tuple[int, ...]] = (0,)  # the columns whose length counts in a batch
    unique: ClassVar[bool] = False  # whether exact repetitions are dropped
    in_order: ClassVar[bool] = False  # whether rows must stay in their order: running text
    sample: ClassVar[int] = 200_000  # examples from which sub-words are learned,
    sample_letters: ClassVar[float] = math.inf  # or fewer, when they are long
    specials: ClassVar[tuple[str, ...]] = ()  # named tokens that its vocabulary must have, beside those of the model
    opens: ClassVar[type[Any]] = Predictor  # what `qkv.load` gives for a model that answers
    names: ClassVar[Mapping[str, Sequence[str]]] = {}  # of the texts of a question, where it has several: see asking.py
    also_called: Mapping[str, str] = {}  # another name that the column of a field may have in a table
    one: ClassVar[tuple[type[Any], ...]] = (str, Mapping)  # what is one question to it; a list of them is several
    start: Tree = {}  # noqa: RUF012  # the settings of the model to begin with, if there is one
    sharing: Sharing = ONE_PROCESS  # processes among which validation is shared out

    def __init__(self, data: Any, model: type[Model] | None = None) -> None:
        self.data = data  # of `data_class`
        self.model = model or MODELS[self.architecture]  # what a text is encoded for
        self.counts = Counter[str]()  # of what people should know of the rows: see `remarks`

    @classmethod
    def models(cls) -> dict[str, type[Model]]:
        return {name: model for name, model in MODELS.items() if issubclass(model, cls.kinds)}

    @classmethod
    def asked_of(cls, model: type[Model]) -> str:
        """The objective that a model is trained with unless another is asked for."""
        return cls.objective

    # -- from files to batches -----------------------------------------------------------------------------------

    def look(self, paths: Sequence[Path]) -> None:
        """A look at the files to train on, before any file is read: what they say holds for the others too."""

    def read(self, paths: Sequence[Path]) -> Iterator[Any]:
        """The examples of some files; whatever is wrong in them is an InputError that names the line."""
        raise NotImplementedError

    def from_memory(self, given: Any, place: str) -> Any:
        """An example out of what a program gives: its fields in their order, or by name; `place` names it."""
        with suppress(TypeError):
            values, named = ((), given) if isinstance(given, Mapping) else (given, {})
            example = self.example_class(*([values] if isinstance(values, str) else values), **named, place=place)
            if all(isinstance(getattr(example, name), kind) for name, kind in self.fields.items()):
                return example
        raise InputError(f"{place} is {given!r:.60}; {self.name} learns from {self.shape}: {', '.join(self.fields)}")

    @cached_property
    def fields(self) -> dict[str, Any]:
        """What an example is made of: names and types, those before its place."""
        hints = get_type_hints(self.example_class)
        return {name: get_origin(hints[name]) or hints[name] for name in [*hints][: [*hints].index("place")]}

    def examine(self, examples: Iterator[Any], held_out: Container[str], found: Found, name: str) -> Iterator[Any]:
        """The good ones among the examples of the part `name`; those of a key that is held out are not."""
        dropped = 0
        for example in examples:
            found.read += 1
            if self.key(example) in held_out:
                dropped += 1
            else:
                found.kept += 1
                yield example
        if dropped:
            found.findings.append(f"{are(dropped, self.unit, 'training ')} also to validate or to test: dropped")

    def key(self, example: Any) -> str:
        """What examples are held out by when no validation files are given: those with equal keys stay together."""
        return str(example.text)

    def parted(self, chunks: Iterable[Spooled], survey: Survey, hold_out: Callable[[Any], None]) -> Iterator[Spooled]:
        """The examples to train on, once some are held out."""
        threshold = survey.threshold(self.data.held_out)
        for kept, others in (chunk.parted(threshold) for chunk in chunks):
            for example in others:
                hold_out(example)
            if kept:
                yield kept

    def texts(self, example: Any) -> Iterable[str]:
        """The texts of an example, from which sub-words are learned."""
        return (self.key(example),)

    def named_tokens(self) -> tuple[str, ...]:
        """The special tokens that the vocabulary must have: the task's, and those of the model."""
        model = self.model
        own = model.frame.specials + model.specials + model.marks if issubclass(model, Backbone) else ()
        return tuple(dict.fromkeys(self.specials + own))

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        """What a trained model must remember of its data beside the tokenizer: the labels, for example. Plain data:
        it is written to config.json, and `encode` is given it."""
        return {}

    def bounds(self, config: Any) -> About:
        """Facts that follow from the model's settings and decide how texts are encoded: the longest that it reads."""
        return {}

    def bounded(self, facts: About, config: Any) -> About:
        """The facts of the data with those of the model."""
        return cast(About, merge(facts, self.bounds(config)))

    def parts(self, example: Any, tokenizer: Tokenizer, facts: About) -> list[Any]:
        """What is read of an example, one by one: itself, unless a task reads long ones in windows."""
        return [example]

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, facts: About) -> list[Any]:
        """A row of ids for each example, or part of one, in the same order."""
        raise NotImplementedError

    def rows(self, examples: Iterable[Any], tokenizer: Tokenizer, facts: About) -> Iterator[Any]:
        """The rows of many examples, encoded some at a time."""
        for chunk in chunked(examples, self.texts):
            read = [part for example in chunk for part in self.parts(example, tokenizer, facts)]
            yield from self.encode(read, tokenizer, facts) if read else ()

    @property
    def longest(self) -> tuple[int, ...]:
        """The most ids that each column of a row may have; longer rows are left out and counted. () for any."""
        return ()

    def too_long(self) -> str:
        """What is to be said of such rows."""
        return f"had over {self.longest[0] - 1} tokens"

    def stream(self, rows: Rows) -> Stream:
        """Rows as batches under the budget of the settings."""
        return Buckets(rows, tokens=self.data.batch_tokens, seed=self.data.seed, sizes=self.sizes)

    def validation(self, rows: Rows) -> Stream:
        """The same to validate on."""
        return self.stream(rows)

    # -- settings and model --------------------------------------------------------------------------------------

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        """Settings for this corpus and machine, where a person gives none; `training` has the limits that are given."""
        return {}

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        """The settings of the model that follow from the data; `model` is what is asked of it."""
        return {"vocab_size": len(tokenizer)}

    def settle(self, config: Any, asked: Objective) -> Any:
        """The settings of the data, with those that follow from the model's (a window as long as its context) and from
        what is asked."""
        return self.data

    def asking(self, text: str) -> str:
        """The text of an objective, with what follows from the settings of the data: what each part is asked."""
        return text

    def heads(self, facts: About) -> dict[str, str]:
        """The heads on a backbone that answer, each by the name of the objective that asks it."""
        return {}

    def build(self, config: Any, heads: Mapping[str, str] = NOTHING) -> Model:
        """The model to train, from its settings alone, with heads on it if it is a backbone."""
        model = self.model(config)
        return Headed(model, heads) if heads and isinstance(model, Backbone) else model

    def anew(self, start: Loaded, facts: About, heads: Mapping[str, str]) -> tuple[str, ...]:
        """Beginnings of parameters that are not taken from a model to start from: they answer another question."""
        return ()

    def check(self, rows: Rows, asked: Objective) -> None:
        """Refuse rows of which the objective cannot be asked."""

    def tallies(self) -> dict[str, Counter[str]]:
        """`counts`, by the name of the part where a task has several."""
        return {"": self.counts}

    def remarks(self) -> list[str]:
        """What people should know of the rows that were encoded, by `counts`."""
        return []

    def about(self, corpus: Corpus) -> About:
        """What config.json tells beside the model's settings."""
        return {"task": self.name, **corpus.facts}

    def counted(self, corpus: Corpus) -> str:
        """How much there is, for people."""
        return f"{self.name}: {count_of(len(corpus.train), self.unit)} to train on, {len(corpus.valid):,} to validate"

    # -- what comes of it ----------------------------------------------------------------------------------------

    def baselines(self, corpus: Corpus) -> dict[str, float]:
        """Name -> the task's `score` on the validation rows of something simple that is counted from the training
        rows, or learned from them in seconds: what a model must beat."""
        return {}

    def joined(self, example: Any, answers: list[Tree]) -> Tree:
        """The answer to an example out of those to its parts."""
        return answers[0]

    def answers(self, outputs: Any, asked: Asked) -> tuple[Tensor, Tensor] | None:
        """The classes (B,) that the outputs name and the right ones, if answers are classes or otherwise `scored`."""
        return None

    def scored(self, found: list[Any], gold: list[Any]) -> dict[str, float]:
        """The figures of all answers: of classes, macro-F1 and the Matthews correlation beside the accuracy."""
        scores = class_scores(found, gold)
        return {"macro_f1": scores.macro_f1, "mcc": scores.mcc}

    def shared_among(self, sharing: Sharing) -> None:
        """From now on these processes measure together."""
        self.sharing = sharing

    @torch.inference_mode()
    def measure(self, model: Model, objective: Objective, batches: Stream) -> dict[str, float]:
        """The mean loss over all examples and each part of it that the objective names (accuracy, for example).

        Of tokens, `loss` is the mean of -log p and `smoothed_loss` what training lowers; where there are `answers`,
        they are `scored` too. Of several objectives of which each batch asks one, all are measured on everything.
        """
        model.eval()
        return objective.measured(lambda one: measured(self, model, one, batches))

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        """Figures of what the model writes for the examples to validate on, if it writes."""
        return dict

    def summed_up(self, figures: dict[str, float]) -> dict[str, float]:
        """All figures of a validation, with those that are made of several."""
        return figures

    def evaluate(self, loaded: Loaded, examples: Sequence[Any], *, by: str = "", **how: Any) -> Tree:
        """Figures of a trained model on some examples, by the task's own objective or another; `how` says how to
        search, for tasks that do."""
        asked = objective(by or self.asked_of(self.model)).knowing(loaded.tokenizer, loaded.model.inputs())
        if lacking := sorted(asked.heads.keys() - getattr(loaded.model, "head_texts", {}).keys()):
            raise InputError(f"the model has no head for {lacking[0]}; train it with that, or measure by another one")
        asked = asked.with_model(loaded.model)
        self.data = self.settle(loaded.model.config, asked)
        rows = RowsInMemory([*self.rows(examples, loaded.tokenizer, loaded.about)])
        self.check(rows, asked)
        return dict(self.measure(loaded.model, asked, self.validation(rows)))

    def scored_by(self, loaded: Loaded) -> str:
        """The objective by which a trained model is scored, if that is not just the task's own."""
        return ""

    def timed(self, loaded: Loaded, examples: Sequence[Any], **how: Any) -> Tree:
        """How fast it answers, for tasks that write."""
        return {}

    def open(self, loaded: Loaded) -> Any:
        """What `qkv.load` gives: a Translator, a Generator, a Classifier."""
        return self.opens(self, loaded)
