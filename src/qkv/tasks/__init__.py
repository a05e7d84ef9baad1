"""What a person wants done; chosen by the names in TASKS: what models learn. USES adds what they can do unlearned."""

from qkv.engines.embedder import Embedder
from qkv.tasks.answer import FindAnswers
from qkv.tasks.choose import ChooseAnswers
from qkv.tasks.classify import Classify
from qkv.tasks.cloze import ReadCloze
from qkv.tasks.corpus import Corpus, Survey
from qkv.tasks.embed import Embed
from qkv.tasks.fill import Fill
from qkv.tasks.graph import Graph
from qkv.tasks.heads import FindHeads
from qkv.tasks.joint import Joint
from qkv.tasks.language_model import LanguageModel
from qkv.tasks.pairs import JudgePairs, RatePairs
from qkv.tasks.predictor import Classifier, Predictor
from qkv.tasks.summarise import Summarise
from qkv.tasks.tag import TagWords
from qkv.tasks.task import Task
from qkv.tasks.text_config import TextConfig
from qkv.tasks.translation import Translate
from qkv.tasks.unpaired import Unpaired

TASKS: dict[str, type[Task]] = {
    "translate": Translate,
    "unpaired": Unpaired,
    "language_model": LanguageModel,
    "summarise": Summarise,
    "fill": Fill,
    "classify": Classify,
    "pair": JudgePairs,
    "similarity": RatePairs,
    "tag": TagWords,
    "answer": FindAnswers,
    "choose": ChooseAnswers,
    "cloze": ReadCloze,
    "heads": FindHeads,
    "joint": Joint,
    "graph": Graph,
}

# What a model folder can be opened for: its own task, or one that any backbone can do with nothing more to learn.
USES: dict[str, type[Task]] = {**TASKS, "embed": Embed}
