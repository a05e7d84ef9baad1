"""State that goes from batch to batch: of windows of running text that go on from those before them."""

from typing import Any

from torch import Tensor

from qkv.data import Batch
from qkv.objectives.objective import Asked


class Carrying:
    """Merity et al. 2018, section 5: a window begins with the state that the one before it has left; no gradient goes
    back over the border between them."""

    def __init__(self) -> None:
        self.state: tuple[Tensor, ...] = ()

    def ask(self, model: Any, asked: Asked, batch: Batch) -> Any:
        """What the model says to a question about a batch, which goes on from the last one unless it `begins`."""
        goes_on = self.state and not batch.begins
        outputs = model(**asked.inputs, **({"state": self.state} if goes_on else {}))
        self.state = tuple(part.detach() for part in getattr(outputs, "state", ()))
        return outputs
