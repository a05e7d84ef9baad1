"""The pictures of the lecture notes: each can be opened, shows something, and shows what is true."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib", reason="pictures need matplotlib; pip install 'qkv[look]'")
import itertools

from matplotlib.colors import to_hex
from PIL import Image

from kit import tiny_model
from qkv.decoding import Translator
from qkv.errors import InputError
from qkv.look import record_attention
from qkv.look.architecture import boxes
from qkv.look.gallery import ANIMATIONS, Given
from qkv.look.gallery.parts import rotation, unilm
from qkv.look.picture import COLOURS, Picture, plain
from qkv.models import (
    Convolutional,
    ConvolutionalConfig,
    Headed,
    Recurrent,
    RecurrentConfig,
    Transformer,
    TransformerConfig,
    count_parameters,
)
from qkv.text.tokenizer import BOS, EOS, Tokenizer
from qkv.why.pictures import PICTURES

ANIMAL = "The animal didn't cross the street because it was too tired"
TOKENIZER = Tokenizer.train([ANIMAL, "knowledge is power"] * 3, vocab_size=340, alphabet='狗吃饭"$')
SVG = "{http://www.w3.org/2000/svg}"


def small(**others: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "d_ff": 32, "n_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "max_length": 7}
    return Transformer(TransformerConfig(vocab_size=len(TOKENIZER), **(sizes | others)))


@pytest.fixture(scope="module")
def translator() -> Translator:
    """Never trained; the animations' twin writes at most 6 tokens."""
    return Translator(small(max_length=60), TOKENIZER, {})


@pytest.fixture(scope="module")
def pictures(translator: Translator) -> dict[str, Picture]:
    """Every picture, drawn once."""
    short = Translator(small(), TOKENIZER, {})
    how = {name: (short, "it is") if name in ANIMATIONS else (translator, "") for name in PICTURES}
    return {name: draw(Given(*how[name])) for name, draw in PICTURES.items()}


@pytest.fixture(scope="module")
def drawn(
    tmp_path_factory: pytest.TempPathFactory, pictures: dict[str, Picture]
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Every picture, and its numbers as they were before they were written."""
    place = tmp_path_factory.mktemp("pictures")
    found = {}
    for name, picture in pictures.items():
        path = picture.save(place / f"{name}.{'gif' if name in ANIMATIONS else 'png'}")
        found[name] = path, picture.data
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_the_file_opens_shows_something_and_has_its_numbers_beside_it(name: str, drawn: Any) -> None:
    path, data = drawn[name]
    with Image.open(path) as image:
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            pixels = np.asarray(image.convert("RGB"))
            h, w = pixels.shape[:2]
            inner = pixels[h // 8 : -h // 8, w // 8 : -w // 8]  # not only a title or a frame
            assert inner.std() > 1, frame
    beside = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert_equal(beside, plain(data))


def assert_equal(a: Any, b: Any) -> None:
    """The same tree, numbers to 1e-6."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_equal(one, other)
    elif isinstance(a, float):
        assert a == pytest.approx(b, abs=1e-6)
    else:
        assert a == b


@pytest.mark.parametrize("name", PICTURES)
def test_axes_have_names_and_whole_numbers_where_they_count(name: str, pictures: dict[str, Picture]) -> None:
    """A bar of colours has one; what is no chart has no axes. Curves and colours that differ are explained."""
    figure = pictures[name].figures[0]
    for axes in (one for one in figure.axes if one.axison):
        named = [bool(axes.get_xlabel()), bool(axes.get_ylabel())]
        assert any(named) if hasattr(axes, "_colorbar") else all(named), axes.get_title()
        lines = [line for line in axes.lines if len(line.get_xdata()) > 1]
        if lines and all(float(x).is_integer() for line in lines for x in line.get_xdata()):
            assert all(float(tick).is_integer() for tick in axes.get_xticks())
        if len(lines) > 1:
            assert axes.get_legend() or figure.legends
    if name in ("masks", "patterns", "xlnet", "bigbird"):
        (legend,) = figure.legends
        assert next(text.get_text() for text in legend.get_texts()) == "blocked"


def test_each_head_has_a_cell_of_its_own_colour_beside_each_token(pictures: dict[str, Picture]) -> None:
    """The colour of a cell is the head's, laid over white as strongly as the weight that the model gave."""
    picture = pictures["heads"]
    (axes,) = picture.figures[0].axes
    weights, tokens = picture.data["weights"], picture.data["tokens"]
    filled = [patch for patch in axes.patches if patch.get_fill()]
    assert len(filled) == weights.numel()
    found = {(round(one.get_x(), 6), round(one.get_y(), 6)): one for one in filled}
    columns, rows = (sorted({place[side] for place in found}) for side in (0, 1))
    assert (len(columns), len(rows)) == (len(weights), len(tokens))
    for head, x in enumerate(columns):
        for token, y in enumerate(reversed(rows)):  # the first token stands at the top
            *colour, alpha = found[x, y].get_facecolor()
            assert to_hex(colour) == COLOURS[head]
            assert alpha == pytest.approx(float(weights[head, token]), abs=1e-6)


@pytest.mark.parametrize("name", sorted(ANIMATIONS))
def test_an_animation_has_a_frame_for_each_token_and_the_end(name: str, drawn: Any) -> None:
    path, data = drawn[name]
    assert data["rows"][-1] == "</s>"
    torch.testing.assert_close(data["weights"].sum(-1), torch.ones(len(data["rows"]), dtype=torch.float64))
    with Image.open(path) as image:
        assert image.n_frames == len(data["rows"])
        frames = []
        for frame in range(image.n_frames):
            image.seek(frame)
            frames.append(np.asarray(image.convert("RGB")))
    assert all((a != b).any() for a, b in itertools.pairwise(frames)), "each frame adds a token"


# -- a trained model's pictures --------------------------------------------------------------------------------------


def test_the_heat_map_is_what_the_model_did(translator: Translator, drawn: Any) -> None:
    data = drawn["heat-map"][1]
    src = [*TOKENIZER.encode(ANIMAL), EOS]
    with record_attention(translator) as maps, torch.no_grad():
        translator.model(torch.tensor([src]), torch.tensor([[BOS]]))
    weights = torch.stack([maps[f"encoder.blocks.{i}.attention"][0] for i in range(2)]).double()
    torch.testing.assert_close(data["weights"], weights[data["layer"], data["head"]], atol=1e-6, rtol=0)
    torch.testing.assert_close(data["weights"].sum(-1), torch.ones(len(src), dtype=torch.float64))
    it, animal = (data["tokens"].index(f"▁{word}") for word in ("it", "animal"))
    assert (data["query"], data["key"]) == (it, animal)
    assert data["weights"][it, animal] == weights[:, :, it, animal].max(), "the head that links them best"
    torch.testing.assert_close(data["focus"], weights[:, :, it], atol=1e-6, rtol=0)
    torch.testing.assert_close(drawn["heads"][1]["weights"], weights[data["layer"], :, it], atol=1e-6, rtol=0)


def test_one_query_against_every_key(translator: Translator, drawn: Any) -> None:
    data = drawn["jane"][1]
    torch.testing.assert_close(data["scores"], data["products"] / math.sqrt(8))
    torch.testing.assert_close(data["weights"], data["scores"].softmax(-1))
    assert len(data["context"]) == 8
    assert data["words"][data["query"]].startswith("▁"), "the third word"


def test_any_script_and_any_sign_can_be_a_label(translator: Translator, tmp_path: Path) -> None:
    """In an SVG text stays text; in a PNG what no font has is spelled out."""
    for suffix in ("svg", "png"):
        given = Given(translator, '狗吃饭 "it" $x$', spell=suffix == "png")
        path = PICTURES["heads"](given).save(tmp_path / f"heads.{suffix}")
        if suffix == "svg":
            texts = [element.text for element in ElementTree.parse(path).iter(f"{SVG}text")]
            assert {"狗", '"', "$"} <= set(texts)
        else:
            assert np.asarray(Image.open(path).convert("L")).std() > 1


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_the_boxes_of_a_stack_hold_every_weight(name: str) -> None:
    """The table of tokens counts twice, as input and as output."""
    model: Any = tiny_model(name, layers=2)
    found, table = boxes(model), model.tokens.weight.numel()
    assert sum(box.parameters * box.times for box in found) == count_parameters(model) + table
    headed = boxes(Headed(model, {"classes": "classes(n=3)"}))
    assert [box.label for box in headed[:-1]] == [box.label for box in found[:-2]]
    assert (headed[-1].label, headed[-1].about) == ("Classes", "classes(n=3)")


ORDER = {
    "post": {
        "encoder": "Multi-head attention, Add & Norm <-1, Feed-forward, Add & Norm <-1",
        "decoder": "Masked multi-head attention, Add & Norm <-1, Multi-head attention !, Add & Norm <-1, Feed-forward, "
        "Add & Norm <-1",
    },
    "pre": {
        "encoder": "Norm, Multi-head attention, Add <-2, Norm, Feed-forward, Add <-2, Norm at last",
        "decoder": "Norm, Masked multi-head attention, Add <-2, Norm, Multi-head attention !, Add <-2, Norm, "
        "Feed-forward, Add <-2, Norm at last",
    },
}


@pytest.mark.parametrize("norm", ORDER)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_the_boxes_stand_in_the_order_of_the_computation(norm: str, stack: str) -> None:
    """Vaswani et al. 2017, Figure 1, and pre-norm's order; the picture's numbers are the same boxes."""
    model = small(norm=norm, n_heads=4, decoder_layers=3, encoder_layers=3)
    drawn = PICTURES["architecture"](Given(Translator(model, TOKENIZER, {}))).data["boxes"]
    assert drawn == [asdict(box) for box in boxes(model)]
    words = []
    for box in drawn:
        if box["stack"] == stack and "embedding" not in box["label"] and box["label"] != "Positions":
            last = " at last" if box["label"] == "Norm" and box["times"] == 1 else ""
            around = f" <-{box['around']}" if box["around"] else " !" if box["from_encoder"] else ""
            words.append(f"{box['label']}{last}{around}")
    assert ", ".join(words) == ORDER[norm][stack]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_boxes_hold_every_weight_once(norm: str) -> None:
    """With tables of their own for source, target and output."""
    model = small(tied="none", norm=norm, n_heads=4, decoder_layers=3)
    parts = boxes(model)
    assert sum(box.times * box.parameters for box in parts) == count_parameters(model)
    labels = {f"{box.label}: {box.about}" for box in parts}
    assert {"Multi-head attention: 4 heads of 4", "Feed-forward: 16 -> 32 -> 16"} <= labels
    assert {box.times for box in parts if box.stack == "decoder"} == {1, 3}
    assert any(box.label.startswith("Masked") for box in parts if box.stack == "decoder")
    assert not any(box.label.startswith("Masked") for box in parts if box.stack == "encoder")
    for other in (
        Recurrent(RecurrentConfig(vocab_size=20, d_model=8)),
        Convolutional(ConvolutionalConfig(vocab_size=20, d_model=8, encoder_layers=1, decoder_layers=1, tied="none")),
    ):
        tied = count_parameters(other.source) * (2 if other.config.tied == "all" else 0)
        assert sum(box.parameters for box in boxes(other)) - tied == count_parameters(other)


# -- positions and masks ---------------------------------------------------------------------------------------------


def sinusoids(length: int, width: int) -> torch.Tensor:
    """The formula, entry by entry."""
    rows = [[math.sin(p / 10000 ** (j / width)) if j % 2 == 0 else math.cos(p / 10000 ** ((j - 1) / width))
             for j in range(width)] for p in range(length)]  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64)


def test_positions_are_the_formula(drawn: Any) -> None:
    paper, halves = drawn["positions"][1]["tables"]
    expected = sinusoids(50, 128)
    torch.testing.assert_close(paper.double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        halves.double(), torch.cat((expected[:, ::2], expected[:, 1::2]), dim=1), atol=1e-6, rtol=0
    )
    gram = drawn["gram"][1]["gram"]
    assert gram.argmax(dim=1).tolist() == list(range(100))
    for k in range(1, 100):
        assert gram.diagonal(k).std(unbiased=False) < 1e-4, "a band for each distance"


def test_the_rotation_moves_every_place_by_k() -> None:
    places = sinusoids(30, 16)
    for k in (1, 7):
        torch.testing.assert_close(places[k:], places[:-k] @ rotation(16, k).T, atol=1e-12, rtol=0)


def rows(*lines: str) -> torch.Tensor:
    return torch.tensor([[sign == "1" for sign in line] for line in lines])


def test_the_masks_are_those_drawn_by_hand(drawn: Any) -> None:
    left = rows("100000", "110000", "111000", "111100", "111110", "111111")
    seq = rows("111000", "111000", "111000", "111100", "111110", "111111")
    found = unilm()
    assert found["left to right"].equal(left)
    assert found["right to left"].equal(left.T)
    assert found["source, then target"].equal(seq)
    assert found["both directions"].all()
    causal, padded, *_ = drawn["masks"][1]["masks"]
    assert causal.bool().equal(left)
    assert padded.bool().equal(rows(*["111100"] * 6))
    content, query = drawn["xlnet"][1]["masks"]  # Yang et al. 2019, Figure 4
    assert content.bool().equal(rows("1111", "0110", "0010", "0111"))
    assert query.bool().equal(rows("0111", "0010", "0000", "0110"))


def test_patterns_of_long_attentions_are_those_of_loops(drawn: Any) -> None:
    """Of 24 tokens, from what each pattern says of two places; BigBird's two blocks that all see are the first and the
    last of twelve."""
    found = dict(zip(*(drawn["patterns"][1][key] for key in ("names", "masks")), strict=True))
    expected = {
        "scaled_dot": lambda i, j: True,
        "linformer(k=6)": lambda i, j: True,
        "memory_compressed(factor=3)": lambda i, j: True,
        "window(radius=3)": lambda i, j: abs(i - j) <= 3,
        "window(radius=2, global_tokens=2)": lambda i, j: abs(i - j) <= 2 or min(i, j) < 2,
        "local(block=6)": lambda i, j: i // 6 == j // 6,
        "local(block=4, before=1)": lambda i, j: i // 4 in (j // 4, j // 4 + 1),
    }
    for name, sees in expected.items():
        assert found[name].bool().equal(torch.tensor([[sees(i, j) for j in range(24)] for i in range(24)])), name
    itc, etc = (mask.bool() for name, mask in found.items() if name.startswith("bigbird"))
    ends = [0, 1, 22, 23]
    assert itc[ends].all()
    assert itc[:, ends].all()
    for i in range(2, 22):
        near = {j for j in range(24) if abs(i // 2 - j // 2) <= 1} | {*ends}
        seen = {*itc[i].nonzero()[:, 0].tolist()}
        assert near <= seen
        assert len(seen - near) in (2, 0)  # one block is drawn, which may be no other than these
    assert etc.shape == (26, 26)
    assert etc[:2].all()
    assert etc[:, :2].all()


# -- numbers worked by hand ------------------------------------------------------------------------------------------


def test_numbers_of_the_notes(drawn: Any) -> None:
    steps = {step["title"]: step["values"] for step in drawn["steps"][1]["steps"]}
    # The notes print these six decimals of softmax(X X^T) X.
    printed = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]
    assert np.asarray(steps["context"]) == pytest.approx(np.asarray(printed), abs=1e-6)
    assert drawn["chef"][1]["steps"] == {"recurrent": 7, "windows of 3": 7, "self-attention": 1}
    paths = drawn["paths"][1]
    assert set(paths["path"]["self-attention"]) == {1}
    assert len(set(paths["sequential"]["self-attention"])) == len(set(paths["sequential"]["windows of 3"])) == 1
    assert paths["sequential"]["recurrent"] == sorted(set(paths["sequential"]["recurrent"]))


def test_what_a_query_finds_in_a_shop(drawn: Any) -> None:
    """Scores 2, 1, 1; e^2 / (e^2 + 2 e) = e / (e + 2)."""
    share = math.e / (math.e + 2)
    assert drawn["shopping"][1]["found"].item() == pytest.approx(20 * share + (1 - share) / 2 * (25 + 60))


def test_norms_average_over_their_own_axis(drawn: Any) -> None:
    data = drawn["norms"][1]
    x = data["x"].numpy()
    np.testing.assert_allclose(data["layer_norm"], (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), atol=1e-4)
    np.testing.assert_allclose(data["batch_norm"], (x - x.mean(0)) / x.std(0), atol=1e-4)


def test_learning_rates_peak_where_the_papers_say(drawn: Any) -> None:
    data = drawn["learning-rates"][1]
    curves = {name: np.asarray(values) for name, values in data["curves"].items()}
    peak = curves["noam, d 512, warm-up 4,000"]
    assert peak.max() == pytest.approx(512**-0.5 * 4000**-0.5, rel=0.01)  # 6.99e-4, at step 4000
    assert data["steps"][int(peak.argmax())] == pytest.approx(4000, abs=25)
    triangle = curves["slanted triangle (ULMFiT)"]
    assert data["steps"][int(triangle.argmax())] == pytest.approx(1000, abs=25)
    assert triangle[-1] == pytest.approx(1 / 32, abs=0.01)


def test_the_family_has_three_branches(drawn: Any) -> None:
    groups = drawn["family"][1]["families"]
    assert [len(models) for models in groups.values()] == [5, 9, 1]


def test_residuals_let_a_deep_stack_learn(drawn: Any) -> None:
    losses = {name: np.asarray(values) for name, values in drawn["landscape"][1]["losses"].items()}
    middle = {name: table[7, 7] for name, table in losses.items()}
    assert middle["with residuals"] < 0.1 * middle["without residuals"]
    assert middle["with residuals"] == losses["with residuals"].min()


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_mistakes_are_said_in_words(translator: Translator, tmp_path: Path) -> None:
    for name in ("heat-map", "heads", "jane", *ANIMATIONS):
        with pytest.raises(InputError, match="this picture shows a trained model at work; give one with --model"):
            PICTURES[name](Given())
    recurrent = Translator(
        Recurrent(RecurrentConfig(vocab_size=len(TOKENIZER), d_model=8, max_length=20)), TOKENIZER, {}
    )
    with pytest.raises(InputError, match="the encoder of this model has no self-attention; give a transformer"):
        PICTURES["heat-map"](Given(recurrent, "it is"))
    with pytest.raises(InputError, match=r"this is a still picture, .* let its name end in \.png or \.svg"):
        PICTURES["xlnet"](Given()).save(tmp_path / "masks.gif")
    assert not list(tmp_path.iterdir())
