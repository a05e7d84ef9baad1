"""A tiny corpus for each task: files that are read, learned and asked about in a second or two."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kit import sizes, some_pairs
from qkv.config import from_tree, read_toml
from qkv.data import Batch, RowsInMemory, Stream
from qkv.models import MODELS, Model
from qkv.objectives import OBJECTIVES, Objective, objective
from qkv.tasks import TASKS, Survey, Task
from qkv.tasks.corpus import learn_tokenizer
from qkv.text.tokenizer import Tokenizer

Tree = dict[str, Any]


@dataclass(frozen=True)
class Tiny:
    """So many examples drawn by a seed, as the content of a file; settings to learn them; and questions to ask."""

    file: str
    content: Callable[[int, int], str]
    data: Tree
    model: Tree
    asks: Callable[[Any, list[Any]], list[Any]]  # what `qkv.load` gave, questions -> answers
    questions: list[Any]

    def write(self, place: Path, count: int = 60, seed: int = 1) -> Path:
        path = place / f"{seed}-{self.file}"
        path.write_text(self.content(count, seed), encoding="utf-8")
        return path

    def settings(self, **training: Any) -> Tree:
        """Everything random takes part: dropout, the order of batches, the first weights."""
        usual = {"steps": 3, "epochs": 0.0, "threads": 1, "precision": "float32", "patience": 0, "bleu_sentences": 2,
                 "schedule": "constant", "learning_rate": 0.01}  # fmt: skip
        return {"data": self.data, "model": self.model, "training": {**usual, **training}, "quiet": True}


def pairs(count: int, seed: int) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in some_pairs(count, seed))


def running_text(count: int, seed: int) -> str:
    rng = random.Random(seed)
    return "".join(
        f"{rng.choice(['A dog', 'The cat'])} {rng.choice(['runs', 'sees'])} {n}.\n" for n in range(2 * count)
    )


def reviews(count: int, seed: int) -> str:
    """Two sentences, one of which says what the film is worth."""
    rng, lines = random.Random(seed), []
    words = {"pos": ["good", "great", "fine"], "neg": ["bad", "awful", "poor"]}
    for number in range(count):
        label = rng.choice(["pos", "neg"])
        sentences = [f"this is film {number} of {seed}.", f"It was {rng.choice(words[label])}."]
        lines.append(f"{label}\t{' ||| '.join(rng.sample(sentences, 2))}\n")
    return "".join(lines)


def paraphrases(count: int, seed: int) -> str:
    """Two sentences about an animal each, and whether it is the same one."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        first, second = rng.choices(["dog", "cat", "cow"], k=2)
        label = "same" if first == second else "other"
        lines.append(f"the {first} sees {number} of {seed}\ta {second} runs\t{label}\n")
    return "".join(lines)


def ratings(count: int, seed: int) -> str:
    """Two sentences, and how many words of the second are in the first."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        first, second = (rng.sample(["red", "old", "sad", "big"], 3) for _ in range(2))
        lines.append(f"{' '.join(first)} {number}\t{' '.join(second)}\t{len({*first} & {*second}) * 1.25}\n")
    return "".join(lines)


def names(count: int, seed: int) -> str:
    """CoNLL: persons of one word or two, and places."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        person = rng.choice([["Ann"], ["Ann", "Lee"], ["Bo", "Kim"]])
        lines += [f"{name}\t{'I' if i else 'B'}-person" for i, name in enumerate(person)]
        lines += ["saw\tO", f"{number}\tO", f"{rng.choice(['Rome', 'Oslo'])}\tB-place", ""]
    return "\n".join(lines)


def readings(count: int, seed: int) -> str:
    """SQuAD: who owns what; each text is asked about once."""
    rng, paragraphs = random.Random(seed), []
    for number in range(count):
        owners, things = rng.sample(["Mia", "Ben", "Zoe"], 3), rng.sample(["cup", "pen", "hat"], 3)
        context = f"{number}: " + " ".join(f"{who} has a {what}." for who, what in zip(owners, things, strict=True))
        answers = [{"answer_start": context.index(owners[1]), "text": owners[1]}]
        qa = {"id": f"{seed}-{number}", "question": f"who has the {things[1]}", "answers": answers}
        paragraphs.append({"context": context, "qas": [qa]})
    return json.dumps({"data": [{"title": "things", "paragraphs": paragraphs}]})


def endings(count: int, seed: int) -> str:
    """Two ways to go on, or three; the right one says the animal again."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        animals = rng.sample(["dog", "cat", "cow"], rng.choice([2, 3]))
        choices = rng.sample([f"the {animal} runs" for animal in animals], len(animals))
        right = choices.index(f"the {animals[0]} runs")
        record = {"context": f"a {animals[0]} is here, {number}", "choices": choices, "answer": right}
        lines.append(json.dumps(record) + "\n")
    return "".join(lines)


def questions(count: int, seed: int) -> str:
    """ "Mia cup . Ben pen ." and "XXXXX pen .": names are drawn anew for each file."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        names = ["".join(rng.choices("abcdefghij", k=5)).title() for _ in range(3)]
        things, answer = rng.sample(["cup", "pen", "hat"], 3), rng.randrange(3)
        context = [f"{name} {thing} ." for name, thing in zip(names, things, strict=True)]
        asked = {"context": context, "question": f"XXXXX {things[answer]} ."}
        lines.append(json.dumps({**asked, "answer": names[answer], "candidates": sorted(names)}) + "\n")
    return "".join(lines)


def conllu(trees: list[tuple[list[str], list[int]]]) -> str:
    lines = []
    for words, heads in trees:
        for number, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
            lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{head}\tdep\t_\t_")
        lines.append("")
    return "\n".join(lines)


def sentences(count: int, seed: int) -> list[tuple[list[str], list[int]]]:
    """Articles and adjectives belong to the next noun, nouns to the verb."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        words, heads, verb = [], [], 0
        for part in range(2):
            inner = ["the", *rng.sample(["old", "red", "sad"], rng.randint(0, 2))]
            noun = len(words) + len(inner) + 1
            words += [*inner, rng.choice(["dog", "cat", "man", "hat"])]
            heads += [noun] * len(inner) + [-1]
            if part == 0:
                words, heads, verb = [*words, rng.choice(["sees", "eats"])], [*heads, 0], len(words) + 1
        found.append((words, [verb if head == -1 else head for head in heads]))
    return found


def treebank(count: int, seed: int) -> str:
    """Documents of four sentences each, about one animal with a name: noun phrases, proper nouns, capitals."""
    rng, lines = random.Random(seed), []
    for number in range(count // 4):
        animal, name = rng.choice(["dog", "cat", "bird"]), rng.choice(["Tom Lee", "Mia", "Ann Fox"]).split()
        lines.append(f"# newdoc id = doc-{number}")
        for _ in range(4):
            words = ["The", rng.choice(["old", "red"]), animal, rng.choice(["sees", "likes"]), *name, "."]
            tags = ["DET", "ADJ", "NOUN", "VERB", *["PROPN"] * len(name), "PUNCT"]
            heads = [3, 3, 4, 0, 4, *[5] * (len(name) - 1), 4]
            relations = ["det", "amod", "nsubj", "root", "obj", *["flat"] * (len(name) - 1), "punct"]
            cells = enumerate(zip(words, tags, heads, relations, strict=True), start=1)
            lines += [f"{i}\t{w}\t_\t{t}\t_\t_\t{h}\t{r}\t_\t_" for i, (w, t, h, r) in cells]
            lines.append("")
    return "\n".join(lines)


def links(count: int, seed: int) -> str:
    """Towns lie in their countries, and countries border on others."""
    rng = random.Random(seed)
    towns = {"Rome": "Italy", "Milan": "Italy", "Lyon": "France", "Paris": "France", "Bonn": "Germany"}
    lines = [f"{town}\tin\t{towns[town]}\n" for town in rng.choices([*towns], k=count // 2)]
    pairs = [rng.sample(["Italy", "France", "Germany"], 2) for _ in range(count // 2)]
    return "".join([*lines, *(f"{one}\tborders\t{other}\n" for one, other in pairs)])


def abstracts(count: int, seed: int) -> str:
    """Some sentences, of which one says what the others are about."""
    rng, lines = random.Random(seed), []
    for number in range(count):
        animal = rng.choice(["dog", "cat", "bird"])
        document = [f"Report {number} of {seed}.", f"It is about a {animal}.", *["It rained."] * rng.randrange(4)]
        lines.append(json.dumps({"document": document, "summary": f"a {animal}, {number}"}) + "\n")
    return "".join(lines)


def predicted(predictor: Any, texts: list[str]) -> list[Any]:
    return list(predictor.predict(texts))


ASKED = {"context": ["Zoe cup .", "Ann hat ."], "question": "XXXXX hat .", "candidates": ["Zoe", "Ann"]}
LONGER = {**ASKED, "context": [*ASKED["context"], "Kim pen ."], "candidates": ["Zoe", "Ann", "Kim"]}
SMALL = {"d_model": 16, "d_ff": 16, "n_heads": 2, "dropout": 0.2}
BACKBONE = {**SMALL, "encoder_layers": 1}

CORPORA = {
    "translate": Tiny(
        "pairs.tsv", pairs,
        {"vocab_size": 340, "batch_tokens": 100, "max_length": 50, "source": "en", "target": "ne"},
        {**SMALL, "encoder_layers": 1, "decoder_layers": 1},
        lambda translator, texts: [line.text for line in translator.translate(texts, beam=2)],
        ["red cat", "the green house on the hill", "sun"],
    ),
    "unpaired": Tiny(
        "sentences.en", lambda count, seed: "".join(f"{one}\n" for one, _ in some_pairs(count, seed)),
        {"vocab_size": 340, "batch_tokens": 100, "languages": ["en"]},
        {**SMALL, "encoder_layers": 1, "decoder_layers": 1},
        lambda translator, texts: [line.text for line in translator.translate(texts, beam=2)],
        ["red cat", "the green house on the hill", "sun"],
    ),
    "language_model": Tiny(
        "text.txt", running_text, {"vocab_size": 340, "batch_tokens": 100, "window": 12},
        {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 32, "dropout": 0.2},
        lambda generator, prompts: [one.text for one in generator.generate(prompts, tokens=5)],
        ["A dog", "The cat sees 12.\nA", "A"],
    ),
    "summarise": Tiny(
        "papers.jsonl", abstracts, {"vocab_size": 340, "batch_tokens": 200, "max_length": 24, "max_target": 16},
        {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 43, "dropout": 0.2},
        lambda summariser, texts: [[one.text, one.score, one.read] for one in summariser.summarise(texts, beam=2)],
        ["Report 3. It is about a cat.", "Report 7 of 1. It is about a bird. " + "It rained. " * 9, "A dog."],
    ),
    "fill": Tiny(
        "text.txt", running_text, {"vocab_size": 340, "batch_tokens": 100, "window": 12},
        {"d_model": 16, "n_heads": 2, "layers": 1, "max_length": 32, "dropout": 0.2},
        lambda filler, texts: [*zip(filler.fill(texts, 3), filler.fill(texts, 3, jointly=True), strict=True)],
        ["a dog <mask>", "the <mask> sees 12 .\n<mask>", "<mask>"],
    ),
    "classify": Tiny(
        "reviews.tsv", reviews, {"vocab_size": 320, "batch_tokens": 100},
        {"d_embedding": 8, "d_model": 8, "dropout": 0.2, "word_dropout": 0.1},
        predicted, ["It was good.", "A film. It was bad. A very long film, and poor.", "fine"],
    ),
    "pair": Tiny(
        "pairs.tsv", paraphrases, {"vocab_size": 320, "batch_tokens": 100}, BACKBONE,
        predicted, [("the dog sees 7", "a dog runs"), ("a cat", "a very long story of a cow"), ("a", "b")],
    ),
    "similarity": Tiny(
        "ratings.tsv", ratings, {"vocab_size": 320, "batch_tokens": 100}, BACKBONE,
        predicted, [("red old sad 7", "old sad big"), ("red", "a very long story of red and old"), ("a", "b")],
    ),
    "tag": Tiny(
        "names.conll", names, {"vocab_size": 320, "batch_tokens": 100}, BACKBONE,
        predicted, ["Ann Lee saw 7 Rome", "Bo Kim saw Ann , Bo and Lee in Oslo", "Rome"],
    ),
    "answer": Tiny(
        "squad.json", readings, {"vocab_size": 330, "batch_tokens": 200, "max_length": 24, "stride": 8}, BACKBONE,
        predicted, [{"question": "who has the cup", "context": "Ann has a hat. Mia has a cup. Ben has a pen."},
                    ("who", "Zoe"), "who has it\tBen has it, and Mia"],
    ),
    "choose": Tiny(
        "endings.jsonl", endings, {"vocab_size": 330, "batch_tokens": 200}, BACKBONE,
        predicted, [("a cat is here", "the cat runs", "the dog runs"), "a dog\ta cow\ta cat\tthe dog runs",
                    {"context": "a cow", "choices": ["the cow", "a very long story of a cat"]}],
    ),
    "cloze": Tiny(
        "questions.jsonl", questions, {"vocab_size": 320, "batch_tokens": 200},
        {"d_model": 8, "d_hidden": 8, "dropout": 0.2},
        predicted, [json.dumps(ASKED), json.dumps(LONGER)],
    ),
    "heads": Tiny(
        "trees.conllu", lambda count, seed: conllu(sentences(count, seed)), {"vocab_size": 320, "batch_tokens": 100},
        {**SMALL, "layers": 1, "d_arc": 8},
        predicted, ["the old dog eats the hat", "the cat", "a sad man"],
    ),
    "joint": Tiny(
        "pairs.tsv", paraphrases, {"vocab_size": 320, "batch_tokens": 100, "parts": ["animals=pair"]}, BACKBONE,
        lambda opened, texts: predicted(opened.parts["animals"], texts),
        [("the dog sees 7", "a dog runs"), ("a cat", "a very long story of a cow"), ("a", "b")],
    ),
    "graph": Tiny(
        "links.tsv", links, {"vocab_size": 320, "batch_tokens": 60}, {"d_entity": 8}, predicted, ["Italy", "Paris"],
    ),
}  # fmt: skip


# -- a task with a model that learns it and the objective that asks for it, before any training ------------------------

MARKED = Tiny(  # a corpus for whatever is asked of the task fill
    "text.conllu", treebank, {"vocab_size": 100, "batch_tokens": 160, "window": 48},
    {**CORPORA["fill"].model, "max_length": 48, "entities": ["Tom Lee", "Mia", "Ann Fox"], "d_entity": 8},
    CORPORA["fill"].asks, CORPORA["fill"].questions,
)  # fmt: skip
RECIPES = [read_toml(path) for path in sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))]
WHOLE = sorted({(tree["architecture"], tree["objective"]) for tree in RECIPES if tree.get("task") == "fill"})
ONE_WAY = ("left_to_right_lm", "right_to_left_lm", "sequence_to_sequence_lm")  # which UniLM alone can be asked
OF_A_BATCH = ("denoising_entities",)  # whose answers are chosen from all rows of a batch
SINGLE = [name for name, kind in OBJECTIVES.items() if kind.passages is True and name not in ONE_WAY + OF_A_BATCH] + [
    f"masked_lm(unit={unit!r})" for unit in ("word", "span", "phrase", "entity", "ngram")
]
# (task, model, what is asked unless it is the task's own)
LEARNERS = [(task, model, "") for task, kind in TASKS.items() for model in kind.models()]
PRETRAINERS = [
    *(("fill", "unilm" if text in ONE_WAY else "bert", text) for text in [*SINGLE, *ONE_WAY]),
    ("fill", "elmo", "bidirectional_lm"),
]
COMPOUND = [("fill", model, text) for model, text in WHOLE if "+" in text or "|" in text]


@dataclass(frozen=True)
class Learner:
    """All that a run puts together."""

    task: Task
    model: Model
    objective: Objective
    batches: Stream
    tokenizer: Tokenizer
    facts: Tree


def learner(name: str, architecture: str, text: str, place: Path, dropout: float = 0.0) -> Learner:
    """The task of that name with a tiny model, made as a run makes it, on a file in `place`."""
    tiny, kind, model = MARKED if text else CORPORA[name], TASKS[name], MODELS[architecture]
    task = kind(kind.data_class(**tiny.data), model)
    survey = Survey(task, {"train": [tiny.write(place, 24)], "valid": [], "test": []}, place, lambda _: None)
    tokenizer = learn_tokenizer(task.data, survey.sample, None, task.named_tokens())
    facts = task.facts(survey, tokenizer)
    asked = sizes(architecture, **{**tiny.model, "dropout": dropout, "word_dropout": dropout})
    asked.pop("vocab_size")
    config: Any = from_tree(
        model.config_class, {**asked, **model.fitting(tokenizer), **task.fitting(asked, tokenizer, facts)}
    )
    facts = task.bounded(facts, config)
    torch.manual_seed(0)
    asked_for = objective(task.asking(text or kind.asked_of(model)))
    task.data = task.settle(config, asked_for)
    built = task.build(config, {**asked_for.knowing(tokenizer).heads, **task.heads(facts)})
    built.know(tokenizer)
    rows = RowsInMemory([*task.rows(survey.train, tokenizer, facts)])
    asked_for = asked_for.knowing(tokenizer, built.inputs()).with_model(built)
    return Learner(task, built, asked_for, task.validation(rows), tokenizer, facts)


def alone(batch: Batch) -> Iterator[Batch]:
    """Each row of a batch as a batch of its own, without padding."""
    for i, lengths in enumerate(batch.lengths):
        columns = tuple(ids[i : i + 1, :n] for ids, n in zip(batch.columns, lengths.tolist(), strict=True))
        yield replace(batch, columns=columns, lengths=lengths[None], rows=batch.rows[i : i + 1])
