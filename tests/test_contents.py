"""What is read from the source is what importing says: for every table, every class of settings and every preset."""

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv import contents
from qkv.cli.show import LISTS
from qkv.models import MODELS
from qkv.tasks import TASKS

TABLES = [place for places in LISTS.values() for place in places]


def settings_classes() -> list[type[Any]]:
    """All dataclasses of the package with a field that has a sentence for --help."""
    found = []
    for module in pkgutil.walk_packages(qkv.__path__, "qkv."):
        if module.name != "qkv.__main__":
            for one in vars(importlib.import_module(module.name)).values():
                if isinstance(one, type) and dataclasses.is_dataclass(one) and one.__module__ == module.name:
                    found += [one] * any("about" in field.metadata for field in dataclasses.fields(one))
    return found


def imported(cls: type[Any]) -> contents.Settings:
    """What the class itself says."""
    return {
        field.name: contents.Setting(
            imported(field.type) if dataclasses.is_dataclass(field.type) else field.type,
            field.metadata.get("about", ""),
        )
        for field in dataclasses.fields(cls)
    }


@pytest.mark.parametrize("place", TABLES, ids=lambda place: place[1])
def test_a_table_is_read_as_it_is(place: tuple[str, str]) -> None:
    module, name = place
    table = getattr(importlib.import_module(module), name)
    read = contents.table(module, name)
    assert list(read) == list(table)
    for key, part in read.items():
        if isinstance(table[key], str):
            assert part.doc == table[key]
        else:
            assert (part.module, part.name) == (table[key].__module__, table[key].__name__)
            assert part.doc == inspect.cleandoc(table[key].__doc__ or "")
            assert part.summary


@pytest.mark.parametrize("cls", settings_classes(), ids=lambda cls: cls.__name__)
def test_settings_are_read_as_they_are(cls: type[Any]) -> None:
    read = contents.settings(cls.__module__, cls.__name__)
    assert read == imported(cls)
    assert list(read) == [field.name for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("name", MODELS)
def test_the_settings_and_sizes_of_a_model_are_found(name: str) -> None:
    part = contents.table("qkv.models", "MODELS")[name]
    place = contents.attribute(part, "config_class")
    assert place
    assert contents.settings(*place) == imported(MODELS[name].config_class)
    sizes = contents.attribute(part, "presets")
    assert list(contents.table(*sizes) if sizes else {}) == list(MODELS[name].presets)


@pytest.mark.parametrize("name", TASKS)
def test_the_settings_of_a_task_are_found(name: str) -> None:
    place = contents.attribute(contents.table("qkv.tasks", "TASKS")[name], "data_class")
    assert place
    assert contents.settings(*place) == imported(TASKS[name].data_class)


def test_every_recipe_is_listed_with_the_figure_it_is_measured_against() -> None:
    files = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
    found = contents.recipes()
    assert [path for path, _ in found.values()] == files
    assert all(any(letter.isdigit() for letter in published) for _, published in found.values())


def test_an_annotation_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.py").write_text("class Odd:\n    sizes: complex = setting(1j, 'about')\n")
    monkeypatch.setattr(contents, "ROOT", tmp_path)
    with pytest.raises(TypeError, match="complex is no type of a setting"):
        contents.settings("qkv.odd", "Odd")
