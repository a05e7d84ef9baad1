"""The task graph, and the way from it to ERNIE of Tsinghua and what is built on that."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import qkv
from corpora import CORPORA, MARKED
from kit import close, same, write
from qkv.errors import InputError
from qkv.folder import RunFolder
from qkv.opening import score_files
from qkv.tasks.graph import Graph, GraphConfig
from qkv.text.examples import Link
from qkv.training import checkpoint

TINY = CORPORA["graph"]
LINKS = [("Rome", "in", "Italy"), ("Rome", "near", "Milan"), ("Milan", "in", "Italy"), ("Oslo", "in", "Norway")]
FILL = "masked_lm + next_sentence + denoising_entities"


def some(examples: list[tuple[str, str, str]]) -> Any:
    """What a task asks of a survey."""

    return SimpleNamespace(train=[Link(*one, "") for one in examples])


def test_entities_with_enough_links_are_numbered_by_how_many_they_have() -> None:
    task = Graph(GraphConfig())
    facts = task.facts(some(LINKS), None)  # type: ignore[arg-type]
    assert facts == {"entities": ["Italy", "Milan", "Rome"], "relations": ["in", "near"]}
    rows = task.encode(some(LINKS).train, None, facts)  # type: ignore[arg-type]
    assert rows == [([3, 0, 1],), ([3, 1, 2],), ([2, 0, 1],)]
    assert task.remarks() == ["1 links are of entities with fewer than 2 in training: left out"]
    assert Graph(GraphConfig(at_least=1, most=4)).facts(some(LINKS), None)["entities"][3] == "Norway"  # type: ignore[arg-type]


def test_links_of_entities_that_stand_once_are_refused() -> None:
    with pytest.raises(InputError, match="2 entities have links, and fewer than 2 of them have 2 or more"):
        Graph(GraphConfig()).facts(some(LINKS[-1:]), None)  # type: ignore[arg-type]


def test_the_nearest_are_those_with_the_largest_cosine(tmp_path: Path) -> None:
    qkv.train(TINY.write(tmp_path), task="graph", out=tmp_path / "graph", **TINY.settings(steps=20))
    opened = qkv.load(tmp_path / "graph")
    names, table = opened.model.config.entities, opened.model.entities.weight.detach()[1:]
    found = opened.predict("Italy")
    cosines = {name: float(F.cosine_similarity(table[names.index("Italy")], row, dim=0))
               for name, row in zip(names, table, strict=True) if name != "Italy"}  # fmt: skip
    best = sorted(cosines, key=cosines.__getitem__, reverse=True)[:5]
    assert [*found["near"]] == best
    assert found["near"] == pytest.approx({name: cosines[name] for name in best}, abs=1e-5)
    assert opened.predict(["Rome", "Italy"])[1] == found
    with pytest.raises(InputError, match="'Itlay' is no entity that the graph has; did you mean 'Italy'"):
        opened.predict("Itlay")
    figures = score_files(tmp_path / "graph", TINY.write(tmp_path, seed=2))
    assert figures["examples"] == 60
    assert 0 <= figures["accuracy"] <= 1


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of the names that are in a treebank, and an ERNIE that began with it."""
    place = tmp_path_factory.mktemp("ernie")
    links = [("Mia", "likes", "Tom Lee"), ("Ann Fox", "likes", "Mia"), ("Tom Lee", "sees", "Ann Fox")] * 4
    qkv.train(links=links, out=place / "entities", **{**TINY.settings(steps=20), "data": {"batch_tokens": 60}})
    qkv.train(MARKED.write(place), out=place / "ernie", **pretraining(place, steps=9))
    return place


def pretraining(place: Path, **training: Any) -> dict[str, Any]:
    model = {"d_model": 16, "n_heads": 2, "layers": 2, "max_length": 48, "dropout": 0.2}
    how = {"validate_every": 3, "average": "running(decay=0.9)", **training}
    return {**MARKED.settings(**how), "model": model, "task": "fill", "architecture": "ernie_thu", "objective": FILL,
            "start": place / "entities"}  # fmt: skip


def test_ernie_begins_with_the_vectors_of_a_graph_and_they_stay(folders: Path) -> None:
    tables = [load_file(folders / name / "model.safetensors") for name in ("entities", "ernie")]
    assert torch.equal(tables[0]["entities.weight"], tables[1]["backbone.entities.weight"])
    graph, ernie = (qkv.load(folders / name) for name in ("entities", "ernie"))
    assert ernie.model.backbone.config.entities == graph.model.config.entities == ["Ann Fox", "Mia", "Tom Lee"]
    assert ernie.tokenizer.fingerprint != graph.tokenizer.fingerprint  # its words are those of the texts
    assert {"<mask>", "<ent>", "<head>", "<tail>"} <= ernie.tokenizer.specials.keys()
    best = ernie.fill("The old dog sees <mask>.", k=1)[0]
    assert best["text"].startswith("the old dog sees")


def test_it_begins_with_a_bert_and_a_graph_at_once(folders: Path, tmp_path: Path, capsys: Any) -> None:
    """Zhang et al. 2019, section 4: tokens as BERT reads them, entities as TransE does; what is left is new."""
    given, place = pretraining(folders, steps=1), f"{tmp_path / 'bert'} + {folders / 'entities'}"
    bert = {**given, "architecture": "bert", "objective": "masked_lm + next_sentence", "start": None}
    qkv.train(MARKED.write(tmp_path), out=tmp_path / "bert", **bert)
    frozen = {**given["training"], "steps": 1, "learning_rate": 1e-30, "average": "none"}
    both = {**given, "start": place, "training": frozen, "model": {}, "data": {"window": 48}, "quiet": False}
    qkv.train(MARKED.write(tmp_path), out=tmp_path / "ernie", **both)
    assert f"begins with the weights of {place}: " in capsys.readouterr().err
    words, graph, ernie = (load_file(path / "model.safetensors") for path in
                           (tmp_path / "bert", folders / "entities", tmp_path / "ernie"))  # fmt: skip
    assert torch.equal(graph["entities.weight"], ernie["backbone.entities.weight"])
    assert words.keys() < ernie.keys()
    for name in words:
        close(ernie[name], words[name])
    wrong = f"{tmp_path / 'bert'} + {folders / 'ernie'}"
    with pytest.raises(InputError, match="holds a ernie_thu model, with which no bert begins; leave it out"):
        qkv.train(MARKED.write(tmp_path), out=tmp_path / "x", **{**bert, "data": {}, "start": wrong})


def test_a_run_that_stopped_goes_on_as_if_it_never_had(folders: Path, tmp_path: Path) -> None:
    file = MARKED.write(folders)
    qkv.train(file, out=tmp_path, **pretraining(folders, steps=4))
    qkv.train(out=tmp_path, quiet=True, training={"steps": 9})
    states = []
    for out in (folders / "ernie", tmp_path):
        found = checkpoint.newest(RunFolder(out).checkpoints, pytest.fail)
        assert found is not None
        states.append({**found.weights, **found.tensors})
    assert same(*states)


def test_types_and_tags_and_vectors_come_of_it(folders: Path, tmp_path: Path) -> None:
    """Entity typing and tagging of the same file of names; marks are read as such, and names are found in texts."""
    names = write(tmp_path / "names.conll", CORPORA["tag"].content(30, 1).replace("Ann Lee", "Mia"))
    given = {"start": folders / "ernie", "quiet": True, "training": {"steps": 3, "threads": 1, "precision": "float32"}}
    for task in ("classify", "tag"):
        qkv.train(names, task=task, out=tmp_path / task, **given)
    typed, tagger = (qkv.load(tmp_path / task) for task in ("classify", "tag"))
    assert typed.about["labels"] == ["person", "place"]
    [row] = typed.task.encode([typed.task.question("<ent> Mia <ent> saw <mask>", "")], typed.tokenizer, typed.about)
    specials = typed.tokenizer.specials
    assert [row[0].count(specials[name]) for name in ("<ent>", "<mask>")] == [2, 0]
    related = typed.task.question("<head> Mia <head> saw <tail> Rome <tail>", "")  # relations are asked in the same way
    [[marked, *_]] = typed.task.encode([related], typed.tokenizer, typed.about)
    assert [marked.count(specials[name]) for name in ("<head>", "<tail>", "<ent>")] == [2, 2, 0]
    backbone: Any = typed.model.backbone
    assert backbone.names.find(torch.tensor([row[0]])).sum() == 2  # Mia is the second
    assert typed.predict("<ent> Mia <ent> saw Rome")["label"] in ("person", "place")
    assert len(tagger.predict("Mia saw Rome")["tags"]) == 3
    vectors = qkv.load(folders / "ernie", task="embed").embed(["Mia sees a dog.", "A cat sees a dog."])
    together = qkv.load(folders / "ernie", task="embed").embed("Mia sees a dog.")
    close(torch.from_numpy(vectors[0]), torch.from_numpy(together))


def test_who_began_with_no_entities_is_not_asked_for_them(tmp_path: Path) -> None:
    settings = {name: value for name, value in pretraining(tmp_path).items() if name != "start"}
    with pytest.raises(InputError, match="the model knows none; train some with --task graph, and begin with them"):
        qkv.train(MARKED.write(tmp_path), out=tmp_path / "ernie", **settings)
    assert not (tmp_path / "ernie" / "config.json").exists()
