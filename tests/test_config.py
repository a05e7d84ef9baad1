"""Settings from plain data, and parts from a text: nothing is evaluated, and what is wrong is named."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.config import ANY, AT_MOST, build, check_numbers, from_tree, merge, parse_call, read_toml, setting, to_tree
from qkv.errors import InputError, nearest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)  # any but halves of surrogate pairs


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A table within a table."""

    depth: int = setting(3, "how deep")
    kind: Literal["soft", "hard"] = setting("soft", "what kind")

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, not {self.depth}")


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Settings to try things on."""

    name: str
    rate: float = setting(0.5, "how fast")
    flag: bool = setting(False, "whether")
    files: list[str] = field(default_factory=list)
    inner: Inner = field(default_factory=Inner)


def test_what_a_setting_is_about_can_be_shown() -> None:
    assert {f.name: f.metadata["about"] for f in dataclasses.fields(Inner)} == {
        "depth": "how deep",
        "kind": "what kind",
    }


@given(
    st.builds(
        Outer, name=TEXT, rate=st.floats(allow_nan=False), flag=st.booleans(), files=st.lists(TEXT, max_size=3),
        inner=st.builds(Inner, depth=st.integers(1, ANY), kind=st.sampled_from(["soft", "hard"])),
    )
)  # fmt: skip
def test_settings_come_back_from_their_tree(settings: Outer) -> None:
    assert from_tree(Outer, to_tree(settings)) == settings


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({"name": "a", "rat": 1.0}, "here: unknown key 'rat'; did you mean 'rate'?"),
        ({"name": "a", "zzz": 1.0}, "here: unknown key 'zzz'; known: files, flag, inner, name, rate"),
        ({"name": "a", "inner": {"dept": 1}}, "here: unknown key 'inner.dept'; did you mean 'depth'?"),
        ({}, "here: name: Field required"),
        ({"name": 3}, "here: name: Input should be a valid string (given: 3)"),
        ({"name": "a", "rate": "fast"}, "here: rate: Input should be a valid number (given: 'fast')"),
        ({"name": "a", "flag": "yes"}, "here: flag: Input should be a valid boolean (given: 'yes')"),
        ({"name": "a", "inner": {"depth": True}}, "here: inner.depth: Input should be a valid integer (given: True)"),
        ({"name": "a", "inner": {"kind": "odd"}}, "here: inner.kind: Input should be 'soft' or 'hard' (given: 'odd')"),
        ({"name": "a", "inner": {"depth": 0}}, "here: inner: depth must be at least 1, not 0"),
        ({"name": "a", "inner": 3}, "here: inner: "),
        ({"name": "a", "files": [1]}, "here: files.0: Input should be a valid string (given: 1)"),
        (["name"], "here: a table of settings was expected, not ['name']"),
        (None, "here: a table of settings was expected, not None"),
    ],
)
def test_what_is_wrong_is_named(tree: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        from_tree(Outer, tree, "here")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_later_trees_win_key_by_key() -> None:
    low: dict[str, Any] = {"a": 1, "deep": {"x": 1, "deeper": {"y": 1, "z": 1}}, "list": [1, 2]}
    high: dict[str, Any] = {"b": 2, "deep": {"deeper": {"y": 2}}, "list": [3]}
    assert merge(low, high) == {"a": 1, "b": 2, "deep": {"x": 1, "deeper": {"y": 2, "z": 1}}, "list": [3]}
    assert low == {"a": 1, "deep": {"x": 1, "deeper": {"y": 1, "z": 1}}, "list": [1, 2]}  # and are left as they were


@pytest.mark.parametrize("content", [b"a = ", b"a = 1\na = 2", b"\xff\xfe", b"[a\n"])
def test_what_is_not_toml_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.toml").write_bytes(content)
    with pytest.raises(InputError, match=r"r\.toml is not valid TOML"):
        read_toml(tmp_path / "r.toml")


# -- parts -----------------------------------------------------------------------------------------------------------


class Window:
    """A part with options of several types."""

    def __init__(self, size: int, *, radius: int = 1, rate: float = 0.5, kind: str = "a", length: int | None = None):
        self.all = (size, radius, rate, kind, length)


TABLE = {"window": Window, "nothing": lambda size: size}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("window", (8, 1, 0.5, "a", None)),
        ("window()", (8, 1, 0.5, "a", None)),
        ("window(radius=3)", (8, 3, 0.5, "a", None)),
        ("window(rate=1, kind='b')", (8, 1, 1, "b", None)),
        ("window(3)", (8, 3, 0.5, "a", None)),
        ("window(3, 0.25, length=7)", (8, 3, 0.25, "a", 7)),
        (" window( radius = -2 , length=None)".strip(), (8, -2, 0.5, "a", None)),
    ],
)
def test_a_part_is_built_from_its_text(spec: str, expected: tuple[Any, ...]) -> None:
    part = build(TABLE, spec, 8)
    assert isinstance(part, Window)
    assert part.all == expected


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("windw", "unknown name 'windw'; did you mean 'window'?"),
        ("qqq", "unknown name 'qqq'; known: nothing, window"),
        ("window(radios=3)", "'window' has no option 'radios'; did you mean 'radius'?"),
        ("window(size=3)", "'window' has no option 'size'; "),
        ("nothing(x=3)", "'nothing' has no option 'x'; it takes none"),
        ("window(radius='wide')", "window(radius='wide'): Input should be a valid integer"),
        ("window(radius=1.5)", "window(radius=1.5): Input should be a valid integer"),
        ("window(radius=True)", "window(radius=True): Input should be a valid integer"),
        ("window('wide')", "window(radius='wide'): Input should be a valid integer"),
        ("window(3, radius=3)", "'window' is given 'radius' twice, once without a key; give it once"),
        (
            "window(1, 0.5, 'b', 2, 3)",
            "values without a key: 'window' takes only radius, rate, kind, length, so 5 are too many; write name(key=",
        ),
        ("nothing(3)", "values without a key: 'nothing' takes none; write name(key=value)"),
        ("windw(3)", "unknown name 'windw'; did you mean 'window'?"),
        ("window(rate='x')", "window(rate='x'): Input should be a valid number"),
    ],
)
def test_a_part_that_cannot_be_built_is_refused(spec: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        build(TABLE, spec, 8)
    assert str(caught.value).startswith(sentence)


EVIL = [
    "__import__('os').system('touch hacked')",
    "window(radius=__import__('os').system('touch hacked'))",
    "window(radius=open('hacked', 'w'))",
    "window(**{'radius': 3})",
    "window(*[3])",
    "window(radius=[x for x in (1, 2)])",
    "window(radius={[]: 1})",
    "window(radius=1 + size)",
    "window.__init__",
    "window(radius=1, radius=2)",
    "window; window",
    "window if 1 else window",
    "lambda: window",
    "",
    " ",
    "(",
    "window(",
    "window\x00",
    "1",
    "'window'",
    "window(radius=" + "(" * 5000 + ")" * 5000 + ")",
    "-" * 100_000 + "1",
    "window(radius=" + "9" * 5000 + ")",
]


@pytest.mark.parametrize("spec", EVIL, ids=lambda spec: repr(spec[:40]))
def test_no_text_is_ever_executed(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not name a part; write name or name") as caught:
        build(TABLE, spec, 8)
    assert len(str(caught.value)) < 300
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(spec: str) -> None:
    try:
        name, keywords = parse_call(spec)
    except InputError:
        return
    assert name.isidentifier()
    assert all(key.isidentifier() for key in keywords)


def test_the_nearest_name_is_offered_or_all_of_them() -> None:
    assert nearest("transfomer", ["transformer", "recurrent"]) == "did you mean 'transformer'?"
    assert nearest("x", ["b", "a"]) == "known: a, b"


@pytest.mark.parametrize("name", [*AT_MOST, "anything"])
def test_every_number_has_an_end(name: str) -> None:
    most = AT_MOST.get(name, ANY)
    check_numbers({"inside": {name: most}}, "here")
    for more in (most + 1, 10**10_000):
        with pytest.raises(InputError, match=f"^here: inside.{name} must be at most {most:,}, not "):
            check_numbers({"inside": {name: more}}, "here")
