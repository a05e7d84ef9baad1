"""Translation as a task: the one that needs no name."""

from qkv.objectives import Translation
from qkv.tasks.task import Task


class Translate(Task):
    """Vaswani et al. 2017, section 5: sentence pairs to a translator; what qkv train does without --task.

    Pairs need not fit in memory, as the examples of other tasks must: they are shards on disk (qkv.training).
    """

    name = "translate"
    architecture = "transformer"
    objective_class = Translation
    files = "files of sentence pairs, for example: qkv train pairs.tmx --from en --to de"
