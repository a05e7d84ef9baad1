"""A picture of the page with a model of one's own; `make screenshot` draws those of the READMEs.

PYTHONPATH=tests python tests/page/screenshot.py MODEL "Some text." page.png zh-CN
"""

import shutil
import sys
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import expect, sync_playwright

from conftest import serving

VIEW = {"width": 1120, "height": 860}  # pixels
COLOURS = 256  # of a small file


def screenshot(model: Path, text: str, path: Path, language: str) -> None:
    with serving("--model", model) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEW, locale=language, color_scheme="light")
        page.goto(f"{address}#q={quote(text)}")
        expect(page.locator("#result .translated")).not_to_be_empty(timeout=120_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=path, animations="disabled")
        browser.close()
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


if __name__ == "__main__":
    screenshot(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "en-GB")
