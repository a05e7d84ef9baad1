"""The page of a pre-norm model: its steps and its boxes are those of pre-norm."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kit import save_untrained, tokenizer
from qkv.look.architecture import boxes
from qkv.look.explain import explain
from qkv.opening import load_translator

Open = Callable[..., Any]
TEXT = "3 1 4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pre") / "pre-norm"
    about = {"source": "en", "target": "de", "longest_source": 20}
    sizes = {"norm": "pre", "activation": "gelu", "n_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    return save_untrained(place, "transformer", tokenizer(TEXT, "drei eins vier"), about, max_length=64, **sizes)


def test_steps_and_boxes(
    folder: Path, serve: Callable[..., Any], window: Open, shot: Callable[[Page, str], None]
) -> None:
    translator = load_translator(folder)
    steps = explain(translator, TEXT, layer=2, head=3)
    with serve("--model", folder) as address:
        page: Page = window().open(f"{address}#q={TEXT}&tab=explain&block=2&head=3")
        titles = page.locator("#panel .steps h3")
        expect(titles).to_have_count(len(steps))
        assert titles.all_inner_texts() == [f"{step.title} {step.equation}" for step in steps]
        assert "q = LayerNorm(x) W^Q, head 3" in page.locator("#panel code").all_inner_texts()
        page.get_by_role("tab", name="Architecture").click()
        canvas = page.locator('figure[data-name="architecture"] canvas')
        canvas.focus()
        page.keyboard.press("ArrowDown")
        told = []
        encoder = [box.label for box in boxes(translator.model) if box.stack == "encoder"]
        for _ in range(20):  # more than there are boxes
            told.append(page.locator("#panel .readout").first.inner_text().partition(":")[0])
            page.keyboard.press("ArrowDown")
        assert [label for label, _ in groupby(told)] == encoder[::-1], "from the top down to the embedding"
        shot(page, "architecture-pre-norm")
