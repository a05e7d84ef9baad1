"""Several tasks at once: one backbone that all share, for each a head of its own, and batches of all in one epoch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from torch import nn

from qkv.config import Tree, from_tree, named, parse_call, setting, to_call
from qkv.data import Mixture, Rows, RowsOfPart, Stream
from qkv.device import ENGINE
from qkv.errors import InputError, nearest
from qkv.folder import About, Loaded
from qkv.models import Headed, Model
from qkv.objectives import Each, Objective, objective
from qkv.tasks.answer import FindAnswers
from qkv.tasks.choose import ChooseAnswers
from qkv.tasks.classify import Classify
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.measuring import Sharing
from qkv.tasks.on_backbone import BackboneConfig, OnBackbone
from qkv.tasks.pairs import JudgePairs, RatePairs
from qkv.tasks.predictor import Predictors
from qkv.tasks.tag import TagWords
from qkv.text.tokenizer import Tokenizer

KINDS: dict[str, type[OnBackbone]] = {
    kind.name: kind for kind in (Classify, JudgePairs, RatePairs, TagWords, FindAnswers, ChooseAnswers)
}


@dataclass(frozen=True, kw_only=True)
class JointConfig(BackboneConfig):
    """How the examples of several tasks become ids and batches. What all parts share is set once, for each of them."""

    parts: list[str] = setting(
        [], "the parts of a mixture, each a name and its task with settings of its own: rte=pair(head='san')"
    )


class InPart(NamedTuple):
    """An example of one part of a mixture: its fields, as the part's own task has them."""

    part: str
    example: list[Any]
    place: str


class Joint(OnBackbone):
    """Liu et al. 2019 (MT-DNN): several tasks learn together, each by a head of its own on a backbone that they share.

    Algorithm 1: an epoch is all batches of all parts, shuffled; each is asked for the loss of its part alone. There is
    a file for each part, in their order. A part counts in the `mean` by the figure of its task, or by that which its
    settings name: cola=classify(score='mcc').
    """

    name = "joint"
    shape = "mixture"
    example_class = InPart
    objective = "each"
    figures = ("loss", "mean")
    score = "mean"
    data_class = JointConfig
    defaults = {"training": {"best_by": "mean"}}  # noqa: RUF012
    files = (
        "a file for each of data.parts, for example: qkv train sst2.tsv rte.tsv --task joint --start bert "
        "--data.parts sst2=classify --data.parts rte=pair"
    )
    asks = 'qkv predict "a text" --part NAME'
    key_is = "part and text"

    def __init__(self, data: JointConfig, model: type[Model] | None = None) -> None:
        super().__init__(data, model)
        shared = {key: value for key, value in asdict(data).items() if key != "parts"}
        self.tasks: dict[str, OnBackbone] = {}
        self.counted_by: dict[str, str] = {}  # the figure by which each part counts in the mean
        for name, text in named(data.parts, "data.parts").items():
            task, options = parse_call(text)
            if task not in KINDS:
                raise InputError(
                    f"data.parts: {name} has the task {task!r}, which shares no backbone; {nearest(task, KINDS)}"
                )
            if hasattr(nn.ModuleDict, name):
                raise InputError(
                    f"data.parts: a part cannot be called {name!r}, which has a meaning in torch; call it otherwise"
                )
            kind, score = KINDS[task], options.pop("score", KINDS[task].score)
            if score not in kind.figures:
                raise InputError(f"data.parts: {name} is to count by {score!r}; {nearest(str(score), kind.figures)}")
            own = from_tree(kind.data_class, {**shared, **options}, f"data.parts: {name}")
            self.tasks[name], self.counted_by[name] = kind(own, self.model), score
        self.columns = 1 + max((task.columns for task in self.tasks.values()), default=1)

    # -- from files to batches -----------------------------------------------------------------------------------

    def look(self, paths: Sequence[Path]) -> None:
        if not self.tasks:
            raise InputError("a mixture of no parts was asked for; name them, for example: --data.parts rte=pair")

    def read(self, paths: Sequence[Path]) -> Iterator[InPart]:
        if len(paths) != len(self.tasks):
            count = "1 file was" if len(paths) == 1 else f"{len(paths)} files were"
            raise InputError(f"{count} given for the parts {', '.join(self.tasks)}; give one for each, in this order")
        for (name, task), path in zip(self.tasks.items(), paths, strict=True):
            yield from (in_part(name, example) for example in task.read([path]))

    def from_memory(self, given: Any, place: str) -> InPart:
        self.look(())
        match given:
            case [str(part), example] | {"part": str(part), "example": example} if part in self.tasks:
                return in_part(part, self.tasks[part].from_memory(example, place))
        raise InputError(f"{place} is {given!r:.60}; give a part ({', '.join(self.tasks)}) and an example of its task")

    def own(self, example: InPart) -> Any:
        """The same as an example of the part's own task."""
        return self.tasks[example.part].example_class(*example.example, example.place)

    def key(self, example: InPart) -> str:
        return f"{example.part}\t{self.tasks[example.part].key(self.own(example))}"

    def texts(self, example: InPart) -> Any:
        return self.tasks[example.part].texts(self.own(example))

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        mixture: dict[str, Any] = {}
        for name, task in self.tasks.items():
            own: Any = OfPart(self, name, survey.train)
            if next(iter(own), None) is None:
                raise InputError(f"the part {name} has no example to train on; give it some, or leave it out")
            mixture[name] = task.facts(own, tokenizer)
        return {"parts": list(self.data.parts), "mixture": mixture}

    def bounds(self, config: Any) -> About:
        return {"mixture": {name: dict(task.bounds(config)) for name, task in self.tasks.items()}}

    def parts(self, example: InPart, tokenizer: Tokenizer, facts: About) -> list[Any]:
        read = self.tasks[example.part].parts(self.own(example), tokenizer, facts_of(facts, example.part))
        return [(example.part, one) for one in read]

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, facts: About) -> list[list[list[int]]]:
        """The columns of the part's own task, and a last one that is as long as the number of the part."""
        rows, numbers = list[list[list[int]]](), {name: number for number, name in enumerate(self.tasks)}
        for name, several in groupby(examples, key=lambda one: one[0]):
            for row in self.tasks[name].encode([one for _, one in several], tokenizer, facts_of(facts, name)):
                missing = self.columns - 1 - len(row)
                rows.append([*row, *[[]] * missing, [0] * numbers[name]])
        return rows

    def stream(self, rows: Rows) -> Mixture:
        return self.mixed(rows, lambda task, own: task.stream(own))

    def validation(self, rows: Rows) -> Mixture:
        return self.mixed(rows, lambda task, own: task.validation(own))

    def mixed(self, rows: Rows, batches: Callable[[OnBackbone, Rows], Stream]) -> Mixture:
        parts = enumerate(self.tasks.values())
        streams = [batches(task, RowsOfPart(rows, number, task.columns)) for number, task in parts]
        return Mixture(streams, seed=self.data.seed)

    # -- settings and model --------------------------------------------------------------------------------------

    def asking(self, text: str) -> str:
        """What each part is asked: what is said of it, or what its own task asks."""
        given = objective(text)
        if not isinstance(given, Each):
            raise InputError(
                f"the objective of a mixture is each, not {text}; give each(parts=['rte=classes']), or none"
            )
        said = named(given.parts, "each")
        for name in said.keys() - self.tasks.keys():
            raise InputError(
                f"the objective each asks the part {name!r}, and data.parts has {', '.join(self.tasks) or 'none'}; "
                "name it in both, or in neither"
            )
        return to_call(
            "each", {"parts": [f"{name}={said.get(name, task.objective)}" for name, task in self.tasks.items()]}
        )

    def heads(self, facts: About) -> dict[str, str]:
        parts = self.tasks.items()
        return {
            f"{name}.{head}": text for name, task in parts for head, text in task.heads(facts_of(facts, name)).items()
        }

    def anew(self, start: Loaded, facts: About, heads: Mapping[str, str]) -> tuple[str, ...]:
        """The last layers of parts that were others before, or had other labels."""
        before, known = getattr(start.model, "head_texts", {}), start.about.get("mixture", {})
        labels = {name: known.get(name, {}).get("labels") for name in self.tasks}
        same = [f"{name}." for name in self.tasks if labels[name] == facts_of(facts, name).get("labels")]
        new = (name for name, text in heads.items() if before.get(name) != text or not name.startswith(tuple(same)))
        return tuple(f"heads.{name}.output." for name in new)

    def tallies(self) -> dict[str, Counter[str]]:
        return {name: task.counts for name, task in self.tasks.items()}

    def remarks(self) -> list[str]:
        return [f"{name}: {remark}" for name, task in self.tasks.items() for remark in task.remarks()]

    # -- what comes of it ----------------------------------------------------------------------------------------

    def shared_among(self, sharing: Sharing) -> None:
        super().shared_among(sharing)
        for task in self.tasks.values():
            task.shared_among(sharing)

    def measure(self, model: Model, objective: Objective, batches: Stream) -> dict[str, float]:
        """The loss of each part, and the figure by which it counts; `loss` is the mean of all."""
        assert isinstance(model, Headed)
        assert isinstance(objective, Each)
        assert isinstance(batches, Mixture)
        parts = zip(self.tasks.items(), objective.objectives.values(), batches.streams, strict=True)
        figures = {name: task.measure(model.of(name), one, stream) for (name, task), one, stream in parts}
        return {"loss": fmean(found["loss"] for found in figures.values()), **self.counting(figures)}

    def counting(self, figures: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """Of the figures of each part, those that count, by the part's name and theirs."""
        kept = [(name, figure) for name, own in self.counted_by.items() for figure in ("loss", own)]
        return {f"{name}.{figure}": figures[name][figure] for name, figure in kept if figure in figures[name]}

    def summed_up(self, figures: dict[str, float]) -> dict[str, float]:
        return {**figures, "mean": fmean(figures[f"{name}.{figure}"] for name, figure in self.counted_by.items())}

    def judge(self, loaded: Loaded, corpus: Corpus, training: Any) -> Callable[[], dict[str, float]]:
        examples, judges = corpus.valid_examples(InPart), dict[str, Callable[[], dict[str, float]]]()
        for name, task in self.tasks.items():
            own: Any = OfPart(self, name, examples)
            judges[name] = task.judge(self.part(loaded, name), own, training)
        return lambda: self.counting({name: judged() for name, judged in judges.items()})

    def evaluate(self, loaded: Loaded, examples: Sequence[InPart], *, by: str = "", **how: Any) -> Tree:
        if by:
            raise InputError(f"a mixture is measured by what each part asks, not by {by}; name a part, or leave it out")
        figures = {}
        for name, task in self.tasks.items():
            figures[name] = task.evaluate(self.part(loaded, name), [*OfPart(self, name, examples)], **how)
        return self.summed_up({"loss": fmean(found["loss"] for found in figures.values()), **self.counting(figures)})

    def part(self, loaded: Loaded, name: str) -> Loaded:
        """One part as a model of its own task, with the same weights."""
        if name not in self.tasks:
            raise InputError(f"the mixture has no part {name!r}; {nearest(name, self.tasks)}")
        model, known = loaded.model, loaded.about.get("mixture", {})
        if not isinstance(model, Headed) or name not in model.heads or name not in known:
            raise InputError(
                f"config.json lacks the head of the part {name}, or what it is about; copy the folder again"
            )
        about: Any = {"task": self.tasks[name].name, **known[name]}
        return Loaded(model.of(name), loaded.tokenizer, about, loaded.folder)

    def open(self, loaded: Loaded, *, part: str = "", engine: str = ENGINE) -> Any:
        """The Predictor of a part; without one, those of all."""
        if not part:
            return Predictors(self, loaded, engine)
        alone = self.part(loaded, part)
        return self.tasks[part].open(alone, engine=engine)


class OfPart:
    """Of the examples of a mixture, those of one part: what its own task asks of a survey and of a corpus."""

    def __init__(self, task: Joint, part: str, examples: Any) -> None:
        self.task, self.part, self.examples = task, part, examples

    def __iter__(self) -> Iterator[Any]:
        return (self.task.own(example) for example in self.examples if example.part == self.part)

    @property
    def train(self) -> "OfPart":
        return self

    def valid_examples(self, kind: type[Any], most: int | None = None) -> list[Any]:
        return [*islice(self, most)]


def in_part(name: str, example: Any) -> InPart:
    """An example of a part's own task, whose place is its last field."""
    return InPart(name, list(example)[:-1], example.place)


def facts_of(facts: About, part: str) -> About:
    found: Any = facts["mixture"][part]
    return found
