"""One run of a comparison, in a process of its own: `python -m qkv.comparing.one spec.json` trains and measures."""

import json
import os
import statistics
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from qkv import folder as folders
from qkv import tasks
from qkv.comparing.shared import Spec
from qkv.config import Tree, merge
from qkv.data.validation import validation_pairs
from qkv.decoding import Translator
from qkv.engines import load_translator
from qkv.errors import InputError
from qkv.evaluation import score
from qkv.files import write_json
from qkv.memory import peak_memory
from qkv.models import count_parameters
from qkv.text import read_pairs
from qkv.training import Trained
from qkv.training.device import choose_device
from qkv.training.settings import paths

TIMED = 100  # sentences whose decoding is timed
ROUNDS = 3  # ... so often; the median counts
STOPPED = 130  # the exit code of a run that was asked to stop


def main(path: Path) -> int:
    """Train as the spec beside it says, go on where an earlier process stopped, and write result.json at the end."""
    try:
        spec, folder = Spec(**json.loads(path.read_text(encoding="utf-8"))), path.parent
        threads = {"training": {"threads": spec.threads}} if spec.threads else {}
        trained = tasks.train(out=folder, **merge(spec.settings, threads))
        memory = most_memory(folder / "memory.json")  # before translations add to it
        if trained.stopped == "interrupted":
            return STOPPED
        result = {**measure(spec, folder, trained), "peak_memory": memory}
        write_json(folder / "result.json", {"digest": spec.digest, "row": spec.row, "seed": spec.seed, **result})
    except InputError as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return STOPPED
    return 0


def measure(spec: Spec, folder: Path, trained: Trained) -> Tree:
    """The figures of the weights that were kept."""
    figures: Tree = {name: trained.best[name] for name in ("loss", "perplexity") if name in trained.best}
    figures |= {"steps": trained.steps, "minutes": trained.minutes, "threads": torch.get_num_threads()}
    speed = training_speed(folder / "training" / "log.jsonl")
    device = str(choose_device(spec.settings.get("training", {}).get("device", "auto")))
    figures["parameters"] = count_parameters(folders.load(folder).model)
    if spec.settings.get("task", "translate") != "translate":
        return figures | {"example_speed": speed} | answers(spec, folder, trained, device)
    figures["training_speed"] = speed
    translator = load_translator(folder, device, own_process=True)
    measured_on, pairs = held_out(spec, folder, translator)
    texts = [line.text for line in translator.translate([source for source, _ in pairs], **spec.search)]
    scores = score(texts, [target for _, target in pairs], target_language=str(translator.about.get("target", "")))
    figures |= {"bleu": scores.bleu, "bleu_signature": scores.bleu_signature, "measured_on": measured_on}
    return figures | {"decoding_speed": decoding_speed(translator, [source for source, _ in pairs], spec.search)}


def answers(spec: Spec, folder: Path, trained: Trained, device: str) -> Tree:
    """Of a task: accuracy on the test files, or else on the validation examples; and what its baselines have there."""
    baselines = json.loads((folder / "results.json").read_text(encoding="utf-8"))["baselines"]
    files = paths(spec.settings.get("test", []))
    found = tasks.score(folder, *files, device=device) if files else trained.best
    where = "test files" if files else "validation examples"
    figures = {name: found[name] for name in ("accuracy", "macro_f1", "mcc") if name in found}
    return {**figures, "measured_on": where, "baselines": baselines}


def held_out(spec: Spec, folder: Path, translator: Translator) -> tuple[str, list[tuple[str, str]]]:
    """The pairs to translate: of the test files, or the validation files, or those that training held out."""
    source, target = (str(translator.about.get(name, "")) or None for name in ("source", "target"))
    for name in ("test", "valid"):
        if files := paths(spec.settings.get(name, [])):
            return f"{name} files", [(p.source, p.target) for p in read_pairs(files, source=source, target=target)]
    return "pairs held out", validation_pairs(folder, translator.tokenizer)


def training_speed(log: Path) -> float:
    """Target tokens a second (of other tasks: answers), by the lines of the log that nothing stands between."""
    events: list[Tree] = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    tokens, seconds = 0, 0.0
    for before, event in pairwise(events):
        if before["event"] == event["event"] == "train":
            tokens, seconds = tokens + event["tokens"], seconds + event["seconds"] - before["seconds"]
    if seconds <= 0:  # a run of moments
        steps = [event for event in events if event["event"] == "train"]
        tokens, seconds = sum(step["tokens"] for step in steps), steps[-1]["seconds"]
    return tokens / max(seconds, 0.01)  # the log's own precision


def decoding_speed(translator: Translator, sources: list[str], search: dict[str, Any]) -> float:
    """Target tokens a second, from text to text."""
    speeds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        lines = translator.translate(sources[:TIMED], **search)
        seconds = time.perf_counter() - began
        speeds.append(sum(len(translator.tokenizer.encode(line.text)) + 1 for line in lines) / seconds)  # with the end
    return statistics.median(speeds)


def most_memory(path: Path) -> int | None:
    """The peak of all processes that have trained this run; one that found nothing left to train says little."""
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    most = max((peak for peak in (earlier, peak_memory()) if peak is not None), default=None)
    write_json(path, most)
    return most


def leave_with_parent() -> None:
    """End at once when standard input closes: then the process that started this one is gone."""

    def watch() -> None:
        os.read(0, 1)  # not by sys.stdin, whose lock this thread would hold when the process ends
        os._exit(STOPPED)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    leave_with_parent()
    raise SystemExit(main(Path(sys.argv[1])))
