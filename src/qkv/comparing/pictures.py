"""The pictures of a comparison: every figure of every row, learning curves, speed beside quality."""

from pathlib import Path

from qkv.comparing.table import Table, shown
from qkv.evaluation import FIGURES
from qkv.look.charts import draw_learning, draw_points, draw_trade


def draw(table: Table, out: Path) -> None:
    """table.png; where rows are points of learning curves, curve.png; where there are translations, speed.png."""
    entries = [entry for entry in table.sorted() if entry.results]
    names, score = [entry.row.name for entry in entries], FIGURES[table.task.score]
    panels = {}
    for name in table.figures():
        known = shown(name)
        title = known.title + (f" ({known.after.strip()})" if known.after else "")
        panels[title] = [[value / known.unit for value in entry.values(name)] for entry in entries]
    if pairs := table.pairs():
        more = {name: one.differences(other, table.task.score) for name, (one, other) in pairs.items()}
        over = [[value / score.unit for value in more.get(name, [])] for name in names]
        panels[f"{score.title} over its counterpart"] = over
    draw_points(names, panels, out / "table.png")
    if learned := table.learning():
        draw_learning(learned, f"{score.title}{score.after}", out / "curve.png")
    if {"bleu", "decoding_speed"} <= set(table.figures()):
        speed, quality = FIGURES["decoding_speed"].title, FIGURES["bleu"].title
        draw_trade(names, {speed: panels[speed]}, {quality: panels[quality]}, out / "speed.png")
