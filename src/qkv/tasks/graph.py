"""A graph of entities: links in, a vector for each entity out; what ERNIE of Tsinghua begins with."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from qkv.config import Tree, setting
from qkv.errors import InputError, nearest
from qkv.folder import About, Loaded, in_brief
from qkv.models import TransE
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.task import Task
from qkv.tasks.text_config import TextConfig
from qkv.text import read_links
from qkv.text.examples import Link
from qkv.text.tokenizer import Tokenizer

MOST = 2**16 - 1  # numbers that a row of ids holds
NEAREST = 5  # entities that are told of one


@dataclass(frozen=True, kw_only=True)
class GraphConfig(TextConfig):
    """How links become rows of numbers."""

    vocab_size: int = setting(1000, "size of the vocabulary to learn, in which names are spelled")
    near: int = setting(5, "of texts with marked names: each is linked with so many of those behind it")
    at_least: int = setting(2, "links that an entity must have; those of others are left out, and counted")
    most: int = setting(50_000, "entities that are learned, those with the most links")

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.near, self.at_least) < 1 or not 2 <= self.most <= MOST:
            raise ValueError(f"near and at_least must be 1 or more, and most from 2 to {MOST:,}")


class Graph(Task):
    """Bordes et al. 2013 (TransE): links between entities to a vector for each, which says what it is related to.

    Links come in tables, as graphs of knowledge are written down; or out of texts in which people have marked the
    names: those that stand near each other.
    """

    name = "graph"
    shape = "links"
    example_class = Link
    kinds = (TransE,)
    architecture = "transe"
    objective = "links"
    figures = ("loss", "accuracy")
    score = "accuracy"
    data_class = GraphConfig
    files = (
        "tables of head, relation and tail (tsv, csv, jsonl), or texts with marked names (conllu, conll), for example: "
        "qkv train treebank.conllu --task graph --out entities"
    )
    asks = 'qkv predict "a name"'
    unit = "links"
    speed = "links"
    key_is = "link"
    columns = 1

    # -- from files to batches -----------------------------------------------------------------------------------

    def read(self, paths: Sequence[Path]) -> Iterator[Link]:
        return read_links(paths, near=self.data.near)

    def key(self, example: Link) -> str:
        return "\t".join(example[:3])

    def texts(self, example: Link) -> tuple[str, str]:
        return example.head, example.tail

    def facts(self, survey: Survey, tokenizer: Tokenizer) -> About:
        """The entities with the most links, those with as many by name; and all relations."""
        links = Counter(chain.from_iterable((link.head, link.tail) for link in survey.train))
        ranked = sorted((-count, name) for name, count in links.items() if count >= self.data.at_least)
        entities = [name for _, name in ranked[: self.data.most]]
        if len(entities) < 2:
            raise InputError(
                f"{len(links):,} entities have links, and fewer than 2 of them have {self.data.at_least} or more "
                "(data.at_least); give more links"
            )
        return {"entities": entities, "relations": sorted({link.relation for link in survey.train})}

    def bounds(self, config: Any) -> About:
        return {"entities": config.entities, "relations": config.relations} if config.entities else {}

    def fitting(self, model: Tree, tokenizer: Tokenizer, facts: About) -> Tree:
        return {"vocab_size": len(tokenizer), "entities": facts["entities"], "relations": facts["relations"]}

    def encode(self, examples: Sequence[Link], tokenizer: Tokenizer, facts: About) -> list[tuple[list[int]]]:
        """The numbers of head, relation and tail; entities count from 1, relations from 0."""
        numbers = {name: number for number, name in enumerate(facts["entities"], start=1)}
        relations = {name: number for number, name in enumerate(facts["relations"])}
        rows = list[tuple[list[int]]]()
        for head, relation, tail, _ in examples:
            if head in numbers and tail in numbers and relation in relations:
                rows.append(([numbers[head], relations[relation], numbers[tail]],))
        self.counts["left out"] += len(examples) - len(rows)
        return rows

    def remarks(self) -> list[str]:
        few = self.counts["left out"]  # links of an entity or a relation that is not among those that are learned
        return [f"{few:,} links are of entities with fewer than {self.data.at_least} in training: left out"] * (few > 0)

    # -- settings and model --------------------------------------------------------------------------------------

    def choose(self, survey: Survey, device: torch.device, training: Any) -> Tree:
        is_limited = training.steps or training.minutes or training.epochs
        return {
            "data": {"batch_tokens": 3072},
            "training": {"learning_rate": 0.01, "schedule": "linear(warmup=10)", "epochs": 0.0 if is_limited else 30.0,
                         "average": "none"},
        }  # fmt: skip

    def about(self, corpus: Corpus) -> About:
        return {"task": self.name}  # the names are among the model's settings

    # -- what comes of it ----------------------------------------------------------------------------------------

    def open(self, loaded: Loaded) -> "NearestEntities":
        return NearestEntities(self, loaded)


class NearestEntities:
    """`qkv.load(folder).predict("Paris")`: the entities whose vectors are nearest, each with its cosine."""

    def __init__(self, task: Graph, loaded: Loaded) -> None:
        self.task, self.loaded, self.folder = task, loaded, loaded.folder
        self.model, self.tokenizer, self.about = loaded.model.eval(), loaded.tokenizer, loaded.about
        self.names: list[str] = self.model.config.entities

    def __repr__(self) -> str:
        return in_brief(self, "plain")

    def predict(self, given: str | Sequence[str]) -> Any:
        several = [given] if isinstance(given, str) else list(given)
        answers = [self.near(name) for name in several]
        return answers[0] if isinstance(given, str) else answers

    @torch.inference_mode()
    def near(self, name: str) -> Tree:
        if name not in self.names:
            raise InputError(f"{name[:60]!r} is no entity that the graph has; {nearest(name, self.names)}")
        vectors = F.normalize(self.model.entities.weight[1:], dim=1)  # type: ignore[union-attr, index]
        own = self.names.index(name)
        best = (vectors @ vectors[own]).index_fill(0, torch.tensor(own, device=vectors.device), -1.0)
        found = best.topk(min(NEAREST, len(self.names) - 1))
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return {"entity": name, "near": {self.names[i]: cosine for i, cosine in pairs}}
