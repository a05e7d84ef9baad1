"""One run of a comparison, in a process of its own: `python -m qkv.comparing.one spec.json` trains and measures."""

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from qkv import folder as folders
from qkv import lifeline, parts
from qkv.comparing.shared import Spec
from qkv.config import Tree, merge
from qkv.device import choose_device
from qkv.errors import InputError
from qkv.files import read_json, write_json
from qkv.folder import RunFolder
from qkv.memory import peak_memory
from qkv.models import count_parameters
from qkv.objectives import objective
from qkv.objectives.together import Either
from qkv.opening import task_in
from qkv.tasks import Corpus, Task
from qkv.training import Trained, train
from qkv.training.settings import complete, paths

KEPT = ("loss", "perplexity", "causal_lm_perplexity")  # figures of the best validation
STOPPED = 130  # the exit code of a run that was asked to stop


def main(path: Path) -> int:
    """Train as the spec beside it says, go on where an earlier process stopped, and write result.json at the end."""
    try:
        spec, folder = Spec(**read_json(path)), path.parent
        threads = {"training": {"threads": spec.threads}} if spec.threads else {}
        trained = train(out=folder, **merge(spec.settings, threads))
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
    device = str(choose_device(spec.settings.get("training", {}).get("device", "auto")))
    loaded = folders.load(folder, device)
    task, settings = task_in(loaded), complete(spec.settings, spec.row)
    task.data = settings.data  # files are read as they were for training
    figures: Tree = {name: trained.best[name] for name in KEPT if name in trained.best and not settings.measured_by}
    figures |= {"steps": trained.steps, "minutes": trained.minutes, "threads": torch.get_num_threads()}
    figures["training_speed" if task.speed == "tokens" else "example_speed"] = training_speed(RunFolder(folder).log)
    figures["parameters"] = count_parameters(loaded.model)
    measured_on, examples = held_out(spec, task)
    how = {**spec.search, **({"by": settings.measured_by} if settings.measured_by else {})}
    found = task.evaluate(loaded, examples, **how)
    found = by_objective(found, settings.measured_by) if settings.measured_by else found
    kept = found if task.score == "loss" else {name: value for name, value in found.items() if name != "loss"}
    figures |= {**kept, "measured_on": measured_on}
    if RunFolder(folder).results.exists():
        figures["baselines"] = read_json(RunFolder(folder).results)["baselines"]
    return figures | task.timed(loaded, examples, **spec.search)


def by_objective(found: Tree, by: str) -> Tree:
    """Where several objectives are measured one by one, the figures of each as those of a part; `loss` is the mean."""
    asked = objective(by)
    if not isinstance(asked, Either):
        return found
    keys = [(name, key) for _, name, _ in asked.parts for key in ("loss", "accuracy")]
    parts = {f"{name}.{key}": found[f"{name}_{key}"] for name, key in keys if f"{name}_{key}" in found}
    return {"loss": found["loss"], **parts}


def held_out(spec: Spec, task: Task) -> tuple[str, list[Any]]:
    """The examples to measure on: of the test files, or the validation files, or those that training held out."""
    for name in ("test", "valid"):
        if files := paths(spec.settings.get(name, [])):
            return f"{name} files", list(task.read(files))
    examples = Corpus.open(Path(spec.settings["corpus"])).valid_examples(task.example_class)
    return f"{task.unit} held out", examples


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


def most_memory(path: Path) -> int | None:
    """The peak of all processes that have trained this run; one that found nothing left to train says little."""
    earlier = read_json(path) if path.exists() else None
    most = max((peak for peak in (earlier, peak_memory()) if peak is not None), default=None)
    write_json(path, most)
    return most


if __name__ == "__main__":
    lifeline.leave_with_parent()
    for file in sys.argv[2:]:
        parts.import_file(Path(file))
    raise SystemExit(main(Path(sys.argv[1])))
