"""What all runs of a comparison share: the corpus, read once, the sizes that follow from it, and the vocabulary."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from qkv import folder
from qkv.comparing.plan import Row, laid_over, stage
from qkv.config import Tree, merge, to_tree
from qkv.display import Display
from qkv.files import replacing
from qkv.folder import Loaded
from qkv.tasks import Corpus, Survey, Task
from qkv.tasks.corpus import PARTS, learn_tokenizer
from qkv.training import prepare
from qkv.training.settings import IDLE, complete, modern

LATER = ("seed", "batch_tokens", "tokenizer", "vocab_size")  # settings of data that do not change how files are read


@dataclass(frozen=True)
class Spec:
    """One run: all that its process must know, and a digest of all that its result depends on."""

    row: str
    seed: int
    folder: str  # below the comparison's own
    settings: Tree
    search: dict[str, Any]
    digest: str
    threads: int = 0
    part: str = ""  # the set that it is run on, of a recipe that has several
    before: str = ""  # the folder of the stage whose weights it begins with
    is_stage: bool = False


class Shared:
    """Reads the files of a recipe once, and encodes them once for all rows that encode them alike."""

    def __init__(self, base: Tree, out: Path, display: Display) -> None:
        self.base, self.out, self.display = base, out, display
        self.surveys: dict[str, Survey] = {}
        self.stages: dict[tuple[str, int], tuple[Spec, Path]] = {}  # and the folder of its first weights

    def spec(self, row: Row, seed: int, given: Mapping[str, Any], part: str = "") -> Spec:
        """The `seed`th run of a row, counted from 0; on one of the recipe's sets, or of a stage."""
        return self.planned(row, seed, given, part)[0]

    def stage(self, name: str, seed: int) -> tuple[Spec, Path]:
        """A stage with one seed, and a folder of its model before it has learned anything."""
        if (name, seed) not in self.stages:
            self.stages[name, seed] = self.planned(stage(self.base, name), seed, {})
        return self.stages[name, seed]

    def planned(self, row: Row, seed: int, given: Mapping[str, Any], part: str = "") -> tuple[Spec, Path]:
        tree, _ = laid_over(modern(self.base), row, part)
        tree.pop("published", None)
        tree, row = modern(tree, row.name), row.on(part)
        before, untrained = self.stage(row.after, seed) if row.after else (None, Path())
        if before:
            tree["start"] = str(untrained)
        tree, starts = prepare.started(tree, row.name)
        survey = self.survey(tree, row.name)
        tree = prepare.chosen(tree, survey, row.name)
        number = prepare.task(tree, row.name).data.seed + seed
        tree = merge(tree, {"data": {"seed": number}})
        settings = complete(tree, row.name)
        task = prepare.task(tree, row.name)
        task.data = settings.data
        corpus = self.corpus(task, survey, settings.model, starts)
        task.heads(corpus.facts)  # refuses those that cannot be, before anything trains
        tree["corpus"] = str(corpus.folder)
        if before:  # by what it has learned, wherever that lies
            settings = replace(settings, start=f"{'untrained ' * row.untrained}{before.digest}")
            tree["start"] = str(untrained if row.untrained else self.out / before.folder)
        search = {name: given[name] for name in task.search if name in given}
        digest = digest_of(settings, corpus, search)
        place = "-".join([row.folder, *[part] * bool(part), str(number)])
        spec = Spec(
            row.name, number, f"{'stages' if row.is_stage else 'runs'}/{place}", tree, search, digest, part=part,
            before=before.folder if before and not row.untrained else "", is_stage=row.is_stage,
        )  # fmt: skip
        return spec, self.first_weights(spec, task, corpus) if row.is_stage else Path()

    def first_weights(self, spec: Spec, task: Task, corpus: Corpus) -> Path:
        """A model folder as the stage will be before its first step, so that what comes after it can be planned."""
        place = self.out / "untrained" / f"{Path(spec.folder).name}-{spec.digest[:8]}"
        if not place.exists():
            settings = prepare.fitted(task, spec.settings, corpus.tokenizer, corpus.facts, spec.row)
            with torch.random.fork_rng():
                model, _ = prepare.drawn(task, settings, corpus.facts, corpus.tokenizer)
            with replacing(place) as part:
                folder.save(part, model, corpus.tokenizer, task.about(corpus))
        return place

    def survey(self, tree: Tree, where: str) -> Survey:
        """The files, read and examined; again only for a row that reads them in another way."""
        data = {key: value for key, value in tree.get("data", {}).items() if key not in LATER}
        columns = prepare.task(tree, where).columns  # a task may read texts otherwise for another kind of model
        key = digest_json([tree.get("task"), columns, [tree.get(part) for part in PARTS], data])
        if key not in self.surveys:
            self.out.mkdir(parents=True, exist_ok=True)
            self.surveys[key] = prepare.read(tree, {}, self.out, self.display, where)
        return self.surveys[key]

    def corpus(self, task: Task, survey: Survey, model: Any, starts: list[Loaded]) -> Corpus:
        """Encoded once for all rows and seeds that are encoded alike."""
        bounds, tokenizer = task.bounds(model), prepare.words_of(starts)
        idle = ("batch_tokens",) if task.data.limit else ("batch_tokens", "seed")  # the seed draws what is learned from
        encoding: Tree = {key: value for key, value in to_tree(task.data).items() if key not in idle}
        encoding["start"] = tokenizer.fingerprint if tokenizer else list(task.named_tokens())
        folder = self.out / "corpora" / digest_json([survey.digests, task.name, encoding, bounds])[:16]
        if not folder.exists():
            tokenizer = learn_tokenizer(task.data, survey.sample, tokenizer, task.named_tokens())
            facts = task.bounded(task.facts(survey, tokenizer), model)
            prepare.write(folder, task, survey, tokenizer, facts, self.display)
        return Corpus.open(folder)


def digest_of(settings: Any, corpus: Corpus, search: Mapping[str, Any]) -> str:
    """Files count by what is in them, wherever they are."""
    tree = to_tree(settings)
    for name in IDLE:
        del tree["training"][name]
    for name in ("corpus", *PARTS):
        del tree[name]
    tree["data"]["tokenizer"] = corpus.tokenizer.fingerprint
    return digest_json([tree, sorted(corpus.digests.values()), dict(search)])


def digest_json(data: Any) -> str:
    return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
