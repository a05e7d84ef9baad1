"""What a run asks of a task: files -> examples -> ids -> batches, and what the figures are to be measured against."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from qkv.config import Tree
from qkv.data.examples import Examples, Ints
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.text.tokenizer import Tokenizer
from qkv.training import prepare
from qkv.training.settings import TextConfig


class Task:
    """The interface of a task; `read`, `encode`, `collate` and `baselines` are what a task must say.

    An example is whatever `read` makes of a file; an encoded one is whatever `collate` can lay side by side. Both stay
    in memory. Its model is in MODELS and has the task's name as its `task`; its objective is as in objectives/, and
    what the objective names in `Loss.parts` (accuracy, for example) becomes a figure of each validation.
    """

    name: ClassVar[str]
    architecture: ClassVar[str]  # the model in MODELS that is trained unless another is asked for
    objective_class: ClassVar[type[Any]]
    data_class: ClassVar[type[TextConfig]] = TextConfig  # a task adds settings of its own in a subclass
    defaults: ClassVar[Tree] = {}  # settings to begin with; a recipe and flags are laid over them
    files: ClassVar[str]  # what its files are, for people
    asks: ClassVar[str] = "text"  # what `qkv predict` is given

    def __init__(self, data: Any) -> None:
        self.data = data  # of `data_class`

    # -- from files to batches -----------------------------------------------------------------------------------

    def read(self, path: Path) -> Iterable[Any]:
        """The examples of one file; whatever is wrong in it is an InputError that names the line."""
        raise NotImplementedError

    def key(self, example: Any) -> str:
        """What examples are held out by when no validation files are given: those with equal keys stay together."""
        raise NotImplementedError

    def texts(self, example: Any) -> Iterable[str]:
        """The texts of an example, from which sub-words are learned."""
        raise NotImplementedError

    def learn_tokenizer(self, train: Sequence[Any]) -> Tokenizer:
        """Sub-words of the training examples; or a tokenizer.json that is given."""
        return prepare.learn_tokenizer(self.data, map(self.texts, train))

    def facts(self, train: Sequence[Any]) -> Tree:
        """What a trained model must remember of its data beside the tokenizer: the labels, for example. Plain data:
        it is written to config.json, and `encode` is given it."""
        return {}

    def fitting(self, facts: Tree, tokenizer: Tokenizer) -> Tree:
        """The settings of the model that follow from the data."""
        return {"vocab_size": len(tokenizer)}

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, facts: Tree) -> list[Any]:
        """Ids for each example, in the same order."""
        raise NotImplementedError

    def size(self, encoded: Any) -> tuple[int, ...]:
        """What an encoded example costs in a batch: see data.Examples."""
        raise NotImplementedError

    def collate(self, encoded: Sequence[Any], numbers: Ints) -> Any:
        """A batch: a frozen dataclass with `.to(device)`, and the numbers of its examples as `.pairs`."""
        raise NotImplementedError

    def batches(self, encoded: Sequence[Any]) -> Examples:
        """Encoded examples as batches under the budget of the settings."""
        c, sizes = self.data, [self.size(one) for one in encoded]
        return Examples(encoded, sizes, self.collate, tokens=c.batch_tokens, seed=c.seed)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def baselines(self, train: Sequence[Any], valid: Sequence[Any], loaded: Loaded) -> dict[str, float]:
        """Name -> accuracy on the encoded validation examples of something simple that is counted from the encoded
        training examples, or quickly learned from them. `loaded` has an untrained model of the run's own settings,
        the tokenizer, and the facts in its `about`."""
        raise NotImplementedError

    def classes(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor] | None:
        """The classes (B,) that the model's outputs name and those that are right, if its answers are classes: then
        macro-F1 and the Matthews correlation stand beside the accuracy."""
        return None

    def predict(self, loaded: Loaded, texts: Sequence[str]) -> list[Tree]:
        """What a trained model says to some inputs: one plain tree for each. Optional."""
        raise InputError(f"a model of the task {self.name!r} cannot be asked by qkv predict; use it from Python")
