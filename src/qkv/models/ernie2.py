"""ERNIE 2.0, a BERT that is told its task (Sun et al. 2020, "ERNIE 2.0: A Continual Pre-Training Framework")."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.config import setting
from qkv.layers import Embedding, init_normal
from qkv.models.bert import Bert, BertConfig


@dataclass(frozen=True, kw_only=True)
class Ernie2Config(BertConfig):
    """Sun et al. 2020, section 5.1, base, unless said otherwise; segments and tasks are the released model's."""

    segments: int = setting(4, "vectors that tell the first text from the second, and further ones; 0 for none")
    tasks: int = setting(16, "vectors that tell one task of pre-training from another")


class Ernie2(Bert):
    """Sun et al. 2020, section 4.1 and Figure 3: BERT, to whose sum of token, segment and position comes a vector of
    the task that the text is read for. Fine-tuning may begin with any of them, here with task 0.
    """

    config_class = Ernie2Config
    config: Ernie2Config

    def __init__(self, config: Ernie2Config) -> None:
        super().__init__(config)
        self.tasks = Embedding(config.tasks, config.d_model, scale=1.0)
        init_normal(self.tasks)

    def encode(
        self, ids: Tensor, *, segments: Tensor | None = None, mask: Tensor | None = None, task: Tensor | int = 0
    ) -> Tensor:
        """`task` is the number of one task for all, or of each text's (B,)."""
        number = torch.as_tensor(task, device=ids.device).reshape(-1, 1)  # (1 or B, 1)
        return self.read(self.tokens(ids, segments) + self.tasks(number), ids, mask)
