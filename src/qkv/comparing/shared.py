"""What all runs of a comparison share: the corpus, read once, the sizes that follow from it, and the vocabulary."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from qkv.comparing.plan import Row, laid_over
from qkv.config import Tree, merge, to_tree
from qkv.folder import Loaded
from qkv.tasks import Corpus, Survey, Task
from qkv.tasks.corpus import PARTS, learn_tokenizer
from qkv.training import prepare
from qkv.training.display import Display
from qkv.training.settings import IDLE, complete, modern

LATER = ("seed", "batch_tokens", "tokenizer", "vocab_size")  # settings of data that do not change how files are read


@dataclass(frozen=True)
class Spec:
    """One run: all that its process must know, and a digest of all that its result depends on."""

    row: str
    seed: int
    folder: str
    settings: Tree
    search: dict[str, Any]
    digest: str
    threads: int = 0


class Shared:
    """Reads the files of a recipe once, and encodes them once for all rows that encode them alike."""

    def __init__(self, base: Tree, out: Path, display: Display) -> None:
        self.base, self.out, self.display = base, out, display
        self.surveys: dict[str, Survey] = {}

    def spec(self, row: Row, seed: int, search: Mapping[str, Any]) -> Spec:
        """The `seed`th run of a row, counted from 0."""
        tree, _ = laid_over(modern(self.base), row)
        tree.pop("published", None)
        tree = modern(tree, row.name)
        tree, start = prepare.started(tree, row.name)
        survey = self.survey(tree, row.name)
        tree = prepare.chosen(tree, survey, row.name)
        number = prepare.task(tree, row.name).data.seed + seed
        tree = merge(tree, {"data": {"seed": number}})
        settings = complete(tree, row.name)
        task = prepare.task(tree, row.name)
        task.data = settings.data
        corpus = self.corpus(task, survey, settings.model, start)
        tree["corpus"] = str(corpus.folder)
        digest = digest_of(settings, corpus, search)
        return Spec(row.name, number, f"{row.folder}-{number}", tree, dict(search), digest)

    def survey(self, tree: Tree, where: str) -> Survey:
        """The files, read and examined; again only for a row that reads them in another way."""
        data = {key: value for key, value in tree.get("data", {}).items() if key not in LATER}
        columns = prepare.task(tree, where).columns  # a task may read texts otherwise for another kind of model
        key = digest_json([tree.get("task"), columns, [tree.get(part) for part in PARTS], data])
        if key not in self.surveys:
            self.out.mkdir(parents=True, exist_ok=True)
            self.surveys[key] = prepare.read(tree, {}, self.out, self.display, where)
        return self.surveys[key]

    def corpus(self, task: Task, survey: Survey, model: Any, start: Loaded | None) -> Corpus:
        """Encoded once for all rows and seeds that are encoded alike."""
        bounds, tokenizer = task.bounds(model), start.tokenizer if start else None
        idle = ("batch_tokens",) if task.data.limit else ("batch_tokens", "seed")  # the seed draws what is learned from
        encoding: Tree = {key: value for key, value in to_tree(task.data).items() if key not in idle}
        encoding["start"] = tokenizer.fingerprint if tokenizer else ""
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
