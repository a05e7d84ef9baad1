"""An explanation as tables in a terminal, as one SVG picture, and as a page of its own: nothing from outside."""

import math
from html import escape
from pathlib import Path

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from qkv.errors import InputError
from qkv.look.picture import write_file
from qkv.look.steps import Step

CELL, ROW, LEFT, TOP = 58, 26, 120, 66  # pixels: width and height of a cell, room for row labels and for headings
SHOWN = 8  # numbers of a vector that a terminal has room for
ON_PAGE = 16  # ... and a page
TOKENS = 64  # whose scores, each with each, a terminal is given
INK, BLUE, RED = "#1f2328", "31,111,235", "207,34,46"
STYLE = """:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--ground:#fff;--line:#d0d7de;--head:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--ground:#0d1117;--line:#3d444d;--head:#151b23}}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1rem;color:var(--ink)}
html{background:var(--ground)}h1{font-size:1.5rem;line-height:1.25;overflow-wrap:anywhere}section{margin:2rem 0}
h2{font-size:1.1rem;margin:0}code{font:.95em ui-monospace,monospace;overflow-wrap:anywhere}p{margin:.2rem 0 .6rem}
p{color:var(--soft)}.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}
td,th{border:1px solid var(--line);padding:.25rem .5rem;text-align:right;font-variant-numeric:tabular-nums}
th{background:var(--head);font-weight:600;white-space:nowrap}td.corner{border:0}
tbody th{position:sticky;left:0}"""


def as_table(step: Step) -> Table:
    """A table for the terminal; of long vectors, the first numbers."""
    if (tokens := len(step.rows)) > TOKENS:
        raise InputError(f"{tokens} tokens, where a terminal has room for {TOKENS}; write a page, -o steps.html")
    step = step.first(SHOWN)
    title = Text(f"{step.title}:  {step.equation}", style="bold")
    shown = Table(title=title, title_justify="left", caption=Text(step.about), caption_justify="left", box=SIMPLE)
    shown.add_column("")
    for name in step.columns:
        shown.add_column(Text(name), justify="right", no_wrap=True)
    for label, row in zip(step.rows, step.values.tolist(), strict=True):
        shown.add_row(Text(label), *map(number, row))
    return shown


def number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-inf"


def picture(steps: list[Step]) -> str:
    """All steps below one another, as groups of SVG elements."""
    groups, top, widest = [], 0, 760
    for step in steps:
        step = step.first(ON_PAGE)
        parts = [letters(0, 18, f"{step.title}:  {step.equation}", weight="bold"), letters(0, 38, step.about)]
        parts += [letters(LEFT + CELL * (i + 0.5), TOP - 8, one, anchor="middle") for i, one in enumerate(step.columns)]
        for j, (label, row) in enumerate(zip(step.rows, shades(step), strict=True)):
            parts.append(letters(LEFT - 8, TOP + ROW * (j + 0.68), label, anchor="end"))
            for i, (value, shade) in enumerate(row):
                x, y, fill = LEFT + CELL * i, TOP + ROW * j, shade or "#f6f8fa"
                parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{ROW}" fill="{fill}" stroke="#d0d7de"/>')
                parts.append(letters(x + CELL / 2, y + ROW * 0.68, value, anchor="middle", size=12))
        groups.append(f'<g transform="translate(0 {top})">{"".join(parts)}</g>')
        top, widest = top + TOP + ROW * len(step.rows) + 24, max(widest, LEFT + CELL * len(step.columns) + 10)
    inner = "\n".join(groups)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest} {top}" width="{widest}" height="{top}">'
        f'<rect width="100%" height="100%" fill="white"/>\n{inner}\n</svg>\n'
    )


def letters(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", size: int = 13) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" '
        f'fill="{INK}" font-family="system-ui, sans-serif">{escape(words)}</text>'
    )


def page(steps: list[Step], title: str) -> str:
    """Real tables, which a screen reader can walk through; light or dark as the reader's system is."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>\n"
        + "\n".join(section(number, step) for number, step in enumerate(steps, start=1))
        + "\n</main></body></html>\n"
    )


def section(number: int, step: Step) -> str:
    step = step.first(ON_PAGE)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in step.columns)
    rows = [
        f'<tr><th scope="row">{escape(label)}</th>'
        + "".join(f'<td style="background:{shade or "none"}">{value}</td>' for value, shade in row)
        + "</tr>"
        for label, row in zip(step.rows, shades(step), strict=True)
    ]
    return (
        f'<section aria-labelledby="step-{number}"><h2 id="step-{number}">{number}. {escape(step.title)}: '
        f"<code>{escape(step.equation)}</code></h2>\n<p>{escape(step.about)}</p>\n"
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(step.title)}"><table>'
        f'<thead><tr><td class="corner"></td>{head}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def shades(step: Step) -> list[list[tuple[str, str]]]:
    """Each number of a step with its colour: blue above 0, red below, the stronger the larger.

    Clear enough for letters on it to be read, light or dark; 0 and what a mask blocks have none.
    """
    strength = step.values.abs().where(step.values.isfinite(), 0)
    strength = 0.55 * strength / (strength.max() or 1.0)
    return [
        [(number(v), f"rgba({BLUE if v > 0 else RED},{s:.3f})" if s else "") for v, s in zip(*row, strict=True)]
        for row in zip(step.values.tolist(), strength.tolist(), strict=True)
    ]


def save(steps: list[Step], path: Path, title: str) -> Path:
    """Write an .html page or an .svg picture."""
    return write_file(path, page(steps, title) if check_ending(path) == ".html" else picture(steps))


def check_ending(path: Path) -> str:
    if (kind := path.suffix.lower()) not in (".html", ".svg"):
        raise InputError(f"{path} is neither .html nor .svg; name the explanation's file with one of these endings")
    return kind
