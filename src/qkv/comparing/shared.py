"""What all runs of a comparison share: the corpus, read once, the sizes that follow from it, and the vocabulary."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from qkv.comparing.plan import Row, laid_over
from qkv.config import Tree, merge, to_tree
from qkv.models import MODELS
from qkv.tasks import TASKS, complete
from qkv.tasks.reading import read_examples
from qkv.tasks.settings import TaskSettings, with_defaults
from qkv.text import languages
from qkv.text.tokenizer import TOKENIZERS, Tokenizer
from qkv.training import prepare
from qkv.training.choose import Corpus, choose
from qkv.training.device import choose_device
from qkv.training.display import Display
from qkv.training.settings import paths

FILES = ("train", "valid", "test")
# Settings that change no figure but speed: a result stays good whatever they are.
IDLE = ("threads", "keep", "checkpoint_minutes", "checkpoint_steps")


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
    """Reads the corpus of the recipe; then gives each row its whole settings, the vocabulary among them."""

    def __init__(self, base: Tree, out: Path, display: Display) -> None:
        self.base, self.out = base, out
        partial = complete(merge({"model": {"preset": "tiny"}}, base), "settings")
        train, valid, test = (paths(getattr(partial, name)) for name in FILES)
        found = languages(train, partial.source or None, partial.target or None)
        self.names = {"source": found[0] or "", "target": found[1] or ""}
        source = prepare.Source(train, valid, test, self.names["source"], self.names["target"], partial.data.doctor)
        with display.counting("reading", None) as tick:
            self.survey = source.survey(tick)
        corpus = Corpus(self.survey.report.kept, self.survey.characters)
        self.chosen = choose(corpus, choose_device(partial.training.device), partial.training)

    def spec(self, row: Row, seed: int, search: Mapping[str, Any]) -> Spec:
        """The `seed`th run of a row, counted from 0."""
        tree = self.whole(row)
        settings = complete(tree, row.name)
        tree = merge(tree, {"data": {"tokenizer": self.tokenizer(settings), "seed": settings.data.seed + seed}})
        folder = f"{row.folder}-{settings.data.seed + seed}"
        digest = digest_of(complete(tree, row.name), search)
        return Spec(row.name, settings.data.seed + seed, folder, tree, dict(search), digest)

    def whole(self, row: Row) -> Tree:
        """Every setting that the recipe or the row gives or the corpus decides."""
        tree, _ = laid_over(self.base, row)
        tree.pop("published", None)
        config = MODELS[str(tree.get("architecture", next(iter(MODELS))))].config_class
        known = ["preset", *(setting.name for setting in fields(config))]
        sizes = {key: value for key, value in self.chosen["model"].items() if key in known}
        return merge(self.names, {**self.chosen, "model": sizes}, tree)

    def tokenizer(self, settings: Any) -> str:
        """The path of the sub-words for these settings: learned once, so that rows have the same vocabulary."""
        c = settings.data
        if c.tokenizer not in TOKENIZERS:
            return str(c.tokenizer)
        what = digest_json([self.survey.files, c.tokenizer, c.vocab_size])
        path = self.out / "tokenizers" / f"{c.tokenizer}-{c.vocab_size}-{what[:8]}.json"
        if not path.exists():
            prepare.learn_tokenizer(c, self.survey.sample).save(path)
        return str(path)


class SharedTask(Shared):
    """The same for a task that is not translation: its sizes are its own, not those of the corpus."""

    def __init__(self, base: Tree, out: Path, display: Display) -> None:
        self.base, self.out, self.display = base, out, display

    def whole(self, row: Row) -> Tree:
        tree, _ = laid_over(self.base, row)
        tree.pop("published", None)
        return with_defaults(TASKS[tree["task"]], tree)

    def tokenizer(self, settings: TaskSettings) -> str:
        """Learned once for all rows that read the same text in the same way."""
        c, task = settings.data, TASKS[settings.task](settings.data)
        if c.tokenizer not in TOKENIZERS:
            return str(c.tokenizer)
        reading = {key: value for key, value in to_tree(c).items() if key not in ("seed", "batch_tokens")}
        files = [[file_digest(path) for path in paths(getattr(settings, name))] for name in FILES]
        path = self.out / "tokenizers" / f"{c.tokenizer}-{c.vocab_size}-{digest_json([files, reading])[:8]}.json"
        if not path.exists():
            task.learn_tokenizer(read_examples(task, settings, self.display.say).train).save(path)
        return str(path)


def digest_of(settings: Any, search: Mapping[str, Any]) -> str:
    """Files count by what is in them, wherever they are."""
    tree = to_tree(settings)
    for name in IDLE:
        del tree["training"][name]
    for name in FILES:
        tree[name] = [file_digest(path) for path in paths(tree[name])]
    tree["data"]["tokenizer"] = Tokenizer.load(Path(settings.data.tokenizer)).fingerprint
    return digest_json([tree, dict(search)])


@cache
def file_digest(path: Path) -> str:
    return prepare.digest(path)


def digest_json(data: Any) -> str:
    return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
