"""What a person wants done; chosen by the names in TASKS: what models learn. USES adds what they can do unlearned."""

from qkv.tasks.classify import Classify
from qkv.tasks.cloze import ReadCloze
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.embed import Embed
from qkv.tasks.embedder import Embedder
from qkv.tasks.fill import Fill
from qkv.tasks.heads import FindHeads
from qkv.tasks.language_model import LanguageModel
from qkv.tasks.predictor import Classifier, Predictor
from qkv.tasks.task import Task, TextConfig
from qkv.tasks.translation import Translate

TASKS: dict[str, type[Task]] = {
    "translate": Translate,
    "language_model": LanguageModel,
    "fill": Fill,
    "classify": Classify,
    "cloze": ReadCloze,
    "heads": FindHeads,
}

# What a model folder can be opened for: its own task, or one that any backbone can do with nothing more to learn.
USES: dict[str, type[Task]] = {**TASKS, "embed": Embed}
