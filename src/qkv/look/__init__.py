"""What attention did: recording it, and pictures of it."""

from typing import TYPE_CHECKING

from qkv.late import late

if TYPE_CHECKING:
    from qkv.look.charts import draw_curves as draw_curves
    from qkv.look.heatmap import draw as draw
    from qkv.look.sentence import Look as Look
    from qkv.look.sentence import look_at as look_at
    from qkv.look.sentence import record_attention as record_attention

__getattr__ = late(__name__, {
    "Look": "sentence", "draw": "heatmap", "draw_curves": "charts", "look_at": "sentence",
    "record_attention": "sentence",
})  # fmt: skip
