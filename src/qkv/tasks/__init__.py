"""What a person wants done; chosen by the names in TASKS."""

from qkv.tasks.classify import Classify
from qkv.tasks.cloze import ReadCloze
from qkv.tasks.corpus import Corpus, Survey
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
