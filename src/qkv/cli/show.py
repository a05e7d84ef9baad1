"""qkv list, info, average, check and completion: what there is, whether it is sound, and several in one."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal

from qkv import contents
from qkv.bundled import translators
from qkv.cli.app import Flag, From, Model, To, print_json, print_table
from qkv.errors import InputError
from qkv.papers import PAPERS

# What `qkv list` can be asked for, and the tables that say it. Recipes are files, translators folders; papers are made
# of all of these.
LISTS: dict[str, list[tuple[str, str]]] = {
    "tasks": [("qkv.tasks", "TASKS")],
    "models": [("qkv.models", "MODELS")],
    "objectives": [("qkv.objectives", "OBJECTIVES")],
    "heads": [("qkv.layers", "HEADS")],
    "positions": [("qkv.positions", "POSITIONS")],
    "attention": [("qkv.attention", name) for name in ("ATTENTIONS", "SCORES", "STRUCTURES")],
    "tokenizers": [("qkv.text.tokenizer", "TOKENIZERS")],
    "schedules": [("qkv.training", "SCHEDULES")],
    "averages": [("qkv.training.averaging", "AVERAGES")],
    "recipes": [],
    "papers": [],
    "translators": [],
}
LISTED = 20  # items of a list that `qkv info` prints
if TYPE_CHECKING:
    Listed = str
else:
    Listed = Literal[tuple(LISTS)]


def list_(what: Listed | None = None) -> None:
    """What can be chosen by name in a recipe or a flag; with no name, what there is to list.

    For example:
      qkv list
      qkv list positions
      qkv list recipes
      qkv list papers
      qkv list translators
    """
    if what is None:
        some = {name: [one for one, _ in listed(name)] for name in LISTS}
        shown = {name: shorten(", ".join(names), 52, placeholder=" ...") for name, names in some.items()}
        return print_table((f"qkv list {name}", str(len(names)), shown[name]) for name, names in some.items())
    print_table(listed(what))


def listed(what: str) -> list[tuple[str, str]]:
    """Names, each with a sentence."""
    if what == "papers":
        return [(name, paper.summary) for name, paper in PAPERS.items()]
    if what == "recipes":
        return [(name, about) for name, (_, about) in contents.recipes().items()]
    if what == "translators":
        return [(name, described(name, folder)) for name, folder in translators().items()]
    return [(name, part.summary) for place in LISTS[what] for name, part in contents.table(*place).items()]


def described(name: str, folder: Path) -> str:
    """What a translator that comes with qkv is good for, and how large it is."""
    from qkv.text.detection import name_of

    source, target = (name_of(code) for code in name.split("-"))
    size = sum(file.stat().st_size for file in folder.iterdir())
    return f"{source} to {target}, short everyday sentences, {size / 1e6:.1f} MB"


def info(model: Model = Path("model"), *, json: Flag = False) -> None:
    """What a model folder holds.

    For example:
      qkv info model
    """
    from qkv import folder
    from qkv.engines import chosen
    from qkv.models import architecture_of, count_parameters
    from qkv.training.checkpoint import existing

    loaded = folder.load(model)
    facts = {
        "folder": str(model),
        "engine": chosen(model, loaded.model),
        "model": architecture_of(loaded.model),
        "parameters": count_parameters(loaded.model),
        **loaded.about,
        **dataclasses.asdict(loaded.model.config),
        "checkpoints": len(existing(folder.RunFolder(model).checkpoints)),
    }
    if json:
        return print_json(facts)
    known = {name: value for name, value in facts.items() if value not in ("", [])}
    print_table([name, in_short(value)] for name, value in known.items())


def in_short(value: Any) -> str:
    """Of a long list, such as the names of entities, its beginning and how many there are."""
    if isinstance(value, list) and len(value) > LISTED:
        return f"{', '.join(map(str, value[:LISTED]))} ... {len(value):,} in all"
    return f"{value:,}" if type(value) is int else str(value)


def average(*folders: Path, out: Path, last: int = 5) -> None:
    """Average the weights of several model folders, or of the last checkpoints of one run.

    For example:
      qkv average model --last 3 --out averaged
      qkv average run1 run2 run3 --out averaged

    Args:
      folders: Model folders or checkpoints of one model; or one run folder.
      out: The model folder to write.
      last: Of one run folder: how many of its newest checkpoints.
    """
    from qkv import folder
    from qkv.training.averaging import mean
    from qkv.training.checkpoint import existing
    from qkv.training.run import check_out

    if last < 1:
        raise InputError(f"--last is {last}, but at least one checkpoint must be averaged; give 1 or more")
    check_out(out)
    if (out / "config.json").exists():
        raise InputError(f"{out} holds a model, which is not overwritten; give --out the name of a new folder")
    if not folders:
        raise InputError("nothing to average; name several model folders, or one run folder")
    several = existing(folder.RunFolder(folders[0]).checkpoints)[-last:] if len(folders) == 1 else list(folders)
    if not several:
        raise InputError(f"{folders[0]} has no checkpoints to average; name several model folders")
    first, *others = loaded = [folder.load(path) for path in several]
    for path, other in zip(several[1:], others, strict=True):
        if other.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise InputError(f"{path} has another vocabulary than {several[0]}; average folders of one run only")
    folder.fill(first.model, mean([folder.weights(one.model) for one in loaded], several), several[0])
    folder.save(out, first.model, first.tokenizer, first.about)
    print(f"{out}: the mean of {len(several)} sets of weights ({', '.join(path.name for path in several)})")


def check(*files: Path, from_: From = "", to: To = "", seal: bool = False) -> None:
    """Read files of pairs as training would, and tell what it would find and drop; or see whether each file of a model
    folder is still what was written.

    For example:
      qkv check pairs.tmx --from en --to de
      qkv check model

    Args:
      seal: Of a model folder in which you changed a file yourself: its files are right as they are now.
    """
    if any(file.is_dir() for file in files):
        return check_folders(files, seal)
    from qkv.text import languages, read_pairs
    from qkv.text.doctor import Report, Rules, examine

    source, target = languages(list(files), from_ or None, to or None)
    report = Report()
    read = read_pairs(list(files), source=source, target=target, skipped=report.skipped)
    seen = {hash((pair.source, pair.target)) for pair in examine(read, Rules(), report)}
    report.duplicates = report.kept - len(seen)
    print(f"{report.read:,} pairs read, {len(seen):,} good")
    for line in report.lines():
        print(line)


def check_folders(folders: Sequence[Path], seal: bool) -> None:
    from qkv import manifest
    from qkv.engines.native.kept import FILE, native_file
    from qkv.engines.native.library import is_built
    from qkv.folder.loaded import FILES
    from qkv.weights import load_weights

    for folder in folders:
        if seal and not (folder / manifest.NAME).exists() and (folder / "config.json").exists():
            manifest.seal(folder, [name for name in FILES if (folder / name).exists()])
        places = [folder, folder / "training", folder / "training" / "data"]
        places = [place for place in places if (place / manifest.NAME).exists()]
        if not places:
            raise InputError(f"{folder}: {manifest.UNKNOWN}; if all is right as it is, say so: {manifest.cure(folder)}")
        for place in places:
            if seal:
                manifest.seal(place, [name for name in manifest.sealed(place) or {} if (place / name).exists()])
            manifest.check(place)
            for weights in place.glob("*.safetensors"):
                load_weights(weights)  # which have a checksum of their own,
            if (place / FILE).exists() and is_built():
                native_file(place)  # as this has
            print(f"{place}: {len(manifest.sealed(place) or {})} files are what was written")


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script by which a shell completes commands, flags and their choices when Tab is pressed.

    Write it once to where your shell looks for such files, and again after an update; it holds for new shells.

    For example:
      qkv completion bash > ~/.local/share/bash-completion/completions/qkv
      qkv completion zsh > ~/.zfunc/_qkv
      qkv completion fish > ~/.config/fish/completions/qkv.fish

    Args:
      shell: Which shell. Of zsh, the folder must be one of its fpath; bash needs the package bash-completion, or a line
        `source FILE` in ~/.bashrc.
    """
    from qkv.cli import application

    print(application().generate_completion(shell=shell))
