"""What attention did: recording it, and pictures of it."""

from qkv.look.charts import draw_curves
from qkv.look.heatmap import draw
from qkv.look.sentence import Look, look_at, record_attention
