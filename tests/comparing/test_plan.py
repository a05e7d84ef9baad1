"""Which rows a comparison has: --vary is split as a person means it, and what cannot be built is told at once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import refused
from qkv.comparing import compare
from qkv.comparing.plan import Row, laid_over, possible, read_recipe, split, variations, varied
from qkv.config import parse_call, read_toml, to_tree
from qkv.errors import InputError
from qkv.models import parameter_count
from qkv.tasks import TASKS
from qkv.training.settings import Settings, complete

ROOT = Path(__file__).parents[2]
NAMES = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
NUMBERS = st.integers(0, 99).map(str) | st.floats(0, 1).map(str)
BASE = {"train": ["pairs.tsv"], "model": {"preset": "tiny", "norm": "pre"}}


def call(arguments: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda name, given: f"{name}({','.join(given)})", NAMES, st.lists(arguments, max_size=3))


VALUES = st.recursive(NAMES | NUMBERS, lambda inner: call(st.builds("{}={}".format, NAMES, inner)), max_leaves=6)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_values_joined_by_commas_are_split_into_the_same_values(values: list[str]) -> None:
    assert split(",".join(values)) == values
    assert split(" , ".join(values)) == values


@given(st.text(alphabet="a,()[] ", max_size=12))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        parts = split(text)
    except InputError:
        return
    assert ",".join(parts).replace(" ", "") == text.replace(" ", "")
    assert all(part and part.count("(") == part.count(")") for part in parts)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("position=shaw(clip=16),t5(buckets=32,max_distance=64)",
         [{"model": {"position": "shaw(clip=16)"}}, {"model": {"position": "t5(buckets=32,max_distance=64)"}}]),
        ("attention=local(radius=2)", [{"model": {"attention": "local(radius=2)"}}]),
        ("model=transformer,recurrent", [{"architecture": "transformer"}, {"architecture": "recurrent"}]),
        ("model.d_model=64,128", [{"model": {"d_model": 64}}, {"model": {"d_model": 128}}]),
        ("training.learning-rate=1e-3", [{"training": {"learning_rate": 1e-3}}]),
        ("model.attention_bias=true", [{"model": {"attention_bias": True}}]),
        ("data.doctor.max_ratio=3", [{"data": {"doctor": {"max_ratio": 3}}}]),
        ("training.average=none", [{"training": {"average": "none"}}]),
    ],
)  # fmt: skip
def test_a_variation_is_a_setting(text: str, rows: list[dict[str, object]]) -> None:
    assert [row.changes for row in variations(text)] == rows


@refused(
    [
        (["position"], "does not say what to vary"),
        (["position="], "does not say what to vary"),
        (["beam=1,2"], "does not say what to vary"),
        (["model.=1"], "does not say what to vary"),
        (["position=none,,learned"], "empty value"),
        (["position=shaw(clip=16,none"], "brackets"),
        (["position=shaw)clip=16(,none"], "brackets"),
        (["data.seed=1,2"], "give --seeds 3"),
        (["position=none", "position=learned"], "names 'position' twice"),
    ],
)
def test_mistakes_are_said_in_words(wrong: list[str]) -> None:
    varied(wrong)


def test_combinations_and_one_by_one() -> None:
    given = ["position=none,learned", "model.n_heads=1,2,4"]
    rows = varied(given)
    assert len(rows) == 6
    assert rows[1] == Row("position=none, model.n_heads=2", {"model": {"position": "none", "n_heads": 2}})
    assert len({row.folder for row in rows}) == 6
    assert [row.name for row in varied(given, one_by_one=True)] == [
        "base", "position=none", "position=learned", "model.n_heads=1", "model.n_heads=2", "model.n_heads=4"
    ]  # fmt: skip


def test_what_cannot_be_built_is_refused_or_named() -> None:
    rows = varied(["model.n_heads=2,7", "position=none,larned"])
    with pytest.raises(InputError) as refused:
        possible(BASE, rows, skip=False)
    told = str(refused.value)
    assert told.startswith("3 of 4 rows cannot be built")
    assert "model.n_heads=7, position=none: settings: model: d_model=128 is not divisible by n_heads=7" in told
    assert "did you mean 'learned'?" in told
    kept, left = possible(BASE, rows, skip=True)
    assert [row.name for row in kept] == ["model.n_heads=2, position=none"]
    assert list(left) == [row.name for row in rows if row not in kept]
    with pytest.raises(InputError, match=r"1 of 1 rows cannot be built .* correct them"):
        possible(BASE, varied(["model.d_modle=3"]), skip=True)


def test_another_architecture_takes_what_it_has_and_the_rest_is_told() -> None:
    for name in TASKS["translate"].models():
        row = Row(name, {"architecture": name})
        tree, left_out = laid_over(BASE, row)
        known = complete(tree, "settings").model.__dataclass_fields__
        assert left_out == [key for key in ("norm",) if key not in known]
        assert possible(BASE, [row], skip=False)[0] == [row]
    with pytest.raises(InputError, match="'recurent' is no model of the task 'translate'; did you mean 'recurrent'"):
        possible(BASE, varied(["model=recurent"]), skip=False)


@pytest.mark.parametrize("names", [["a", "a"], ["a b", "a/b"], ["A", "a"]])
def test_two_rows_never_share_a_folder(names: list[str]) -> None:
    with pytest.raises(InputError, match="would both be kept in"):
        possible(BASE, [Row(name) for name in names], skip=False)


@given(st.text(min_size=1, max_size=200))
def test_a_folder_is_a_plain_name(name: str) -> None:
    folder = Row(name).folder
    assert 1 <= len(folder) <= 120
    assert folder.isascii()
    assert not set(folder) & set('/\\:*?"<>| \0')
    assert folder not in (".", "..")


@pytest.mark.parametrize(
    ("more", "how", "sentence"),
    [
        ("", {}, "nothing to compare"),
        ("", {"vary": ["position=none"], "seeds": 0}, "seeds is 0"),
        ("", {"vary": ["position=none"], "jobs": 0}, "jobs is 0"),
        ("", {"vary": ["position=none"], "beam": 0}, "must be at least 1"),
        ("", {"vary": ["position=none"], "steps": 0}, "a budget of 0"),
        ("", {"vary": ["position=none"], "steps": -1}, "cannot be negative"),
        ("[[vary]]\nmodel.n_heads = 1\n", {}, "row 1 of .*has no name"),
        ('[[vary]]\nname = "x"\ndata.seed = 3\n', {}, "give --seeds 3"),
        ('[[vary]]\nname = "x"\nmodel = 3\n', {}, "must be a table of settings"),
        ('[[vary]]\nname = "x"\ncurve = "tuned"\n', {}, "a point of a learning curve by two keys"),
        ('[[vary]]\nname = "x"\nexamples = 100\n', {}, "a point of a learning curve by two keys"),
        ("[vary]\nname = 3\n", {}, "begins with"),
    ],
)  # fmt: skip
def test_nothing_is_written_before_a_mistake_is_found(
    more: str, how: dict[str, object], sentence: str, recipe: Path
) -> None:
    recipe.write_text(recipe.read_text() + more)
    with pytest.raises(InputError, match=sentence):
        compare(recipe, out=recipe.parent / "out", **how)  # type: ignore[arg-type]
    assert not (recipe.parent / "out").exists()


def test_a_model_that_is_only_a_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('train = ["pairs.tsv"]\nmodel = "transformer"\n')
    with pytest.raises(
        InputError, match=r"a\.toml: model is 'transformer'; write its settings below a line \[model\]$"
    ):
        compare(tmp_path / "a.toml", vary=["position=none"], out=tmp_path / "out")


# -- the paper's Table 3 ---------------------------------------------------------------------------------------------

# Table 3 of the paper: millions of parameters, where a row prints them; rows that print none have those of base, 65.
PUBLISHED = {"(B) d_k=8": 58, "(B) d_k=16": 60, "(C) N=1": 36, "(C) N=2": 50, "(C) N=6": 80, "(C) d_model=64": 28,
             "(C) d_model=256": 168, "(C) d_ff=128": 53, "(C) d_ff=512": 90, "big": 213}  # fmt: skip
MOVED = {"(A)": {"n_heads"}, "(B)": {"d_k"}, "(C) N": {"encoder_layers", "decoder_layers"}, "(C) d_m": {"d_model"},
         "(C) d_f": {"d_ff"}, "(D) drop": {"dropout"}, "(D) label": {"label_smoothing"}, "(E)": {"position"},
         "big": {"d_model", "d_ff", "n_heads"}, "base": set()}  # fmt: skip


def sections(settings: Settings) -> dict[str, dict[str, object]]:
    """All settings by section, the objective's options among them."""
    tree = {**to_tree(settings), "objective": parse_call(settings.objective)[1]}
    return {section: values for section, values in tree.items() if isinstance(values, dict)}


def test_table_3_has_the_papers_rows_each_with_its_own_change_and_the_papers_direction() -> None:
    base, rows = read_recipe(ROOT / "recipes" / "table3-multi30k.toml")
    assert [row.name[:3] for row in rows].count("(A)") == 4
    assert len(rows) == 1 + 4 + 2 + 7 + 5 + 1 + 1  # base, A to E, big; one more dropout than the paper
    plain = sections(complete(base, "base"))
    size = parameter_count(complete(base, "base").model)
    for row in rows:
        settings = complete(laid_over(base, row)[0], row.name)
        changed = {
            key
            for section, values in sections(settings).items()
            for key, value in values.items()
            if value != plain[section][key]
        }
        assert changed == next(keys for prefix, keys in MOVED.items() if row.name.startswith(prefix)), row.name
        if "(E)" not in row.name:  # whose table of positions the paper does not count
            ours, theirs = parameter_count(settings.model) - size, PUBLISHED.get(row.name, 65) - 65
            assert (ours > 0) - (ours < 0) == (theirs > 0) - (theirs < 0), row.name
    assert possible(base, rows, skip=False)[0] == rows


def test_table_3_names_the_published_figures_of_its_rows() -> None:
    tree = read_toml(ROOT / "recipes" / "table3-multi30k.toml")
    told = {row["name"]: row.get("published", "") for row in tree["vary"]}
    for name, millions in PUBLISHED.items():
        assert f"{millions} M" in told[name]
    assert [name for name, published in told.items() if "BLEU" not in published] == ["(D) dropout 0.1"]
