"""What tasks share whose answer comes from a head on a backbone: fine-tuning, whatever was pre-trained."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from qkv.config import Tree, setting, to_call
from qkv.device import ENGINE
from qkv.errors import InputError
from qkv.folder import About, Loaded
from qkv.models import Backbone, Model
from qkv.tasks.corpus import Survey
from qkv.tasks.task import Task
from qkv.tasks.text_config import TextConfig
from qkv.text.tokenizer import Tokenizer
from qkv.wording import count_of

# The rate by the width of what is tuned: Devlin et al. 2019 tune BERT base with 2e-5 to 5e-5; the smaller ones of
# Turc et al. 2019 are best with up to 3e-4.
RATES = ((256, 3e-4), (512, 1e-4), (math.inf, 3e-5))


def gentle(start: Tree) -> float:
    """The learning rate that tunes a model of these sizes."""
    return next(rate for widest, rate in RATES if start["d_model"] <= widest)


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(TextConfig):
    """How texts become ids and batches for a backbone."""

    max_length: int = setting(0, "tokens of a text, longer ones are cut and counted; 0 for the backbone's context")
    pool: Literal["", "last", "first", "mean", "concat"] = setting(
        "",
        "whose state stands for a text: last (GPT), first (BERT), mean, or concat of last, largest and mean (ULMFiT); "
        "unless given, the backbone's own",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 0:
            raise ValueError(
                f"max_length must be a number of tokens, or 0 for the whole context, not {self.max_length}"
            )


class OnBackbone(Task):
    """Radford et al. 2018, section 3.3: texts are read in the backbone's own frame, and a head answers."""

    kinds: ClassVar[tuple[type[Model], ...]] = (Backbone,)
    architecture = "transformer_encoder"
    data_class: ClassVar[type[BackboneConfig]] = BackboneConfig
    columns = 2
    tokens: ClassVar[int] = 2048  # in a batch, unless something else is asked for: some 32 sentences

    def bounds(self, config: Any) -> About:
        assert issubclass(self.model, Backbone)
        if self.data.max_length > config.max_length and not self.model.endless:
            raise InputError(
                f"data.max_length is {self.data.max_length}, but the model's context is {config.max_length} tokens; "
                "make it shorter, or leave it out"
            )
        return {"max_length": self.data.max_length or config.max_length}

    def ids(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        """Of whole texts, in which the model's marks are read as such."""
        assert issubclass(self.model, Backbone)
        if not self.model.marks:
            return tokenizer.encode_batch(texts)
        return [tokenizer.encode(text, specials=self.model.marks) for text in texts]

    def framed(self, texts: Iterable[Sequence[Sequence[int]]], tokenizer: Tokenizer, facts: About) -> list[list[int]]:
        """The ids of one text, or of two, in the backbone's frame; what is too long is cut, and counted."""
        assert issubclass(self.model, Backbone)
        rows = [self.model.frame.join(tokenizer, parts, facts["max_length"]) for parts in texts]
        self.counts["cut"] += sum(is_cut for _, is_cut in rows)
        return [ids for ids, _ in rows]

    def head(self, name: str, **options: Any) -> str:
        """The text of a head over the state that stands for a text, by the settings or as the backbone has it."""
        assert issubclass(self.model, Backbone)
        pool = options.pop("pool", "") or self.data.pool or self.model.pool
        options |= {"pool": pool} if pool != "last" else {}
        return to_call(name, options | ({"dense": True} if self.model.dense else {}))

    def open(self, loaded: Loaded, *, engine: str = ENGINE) -> Any:
        """`engine` is a name of engines.READERS, for what a Predictor reads."""
        return self.opens(self, loaded, engine)

    def remarks(self) -> list[str]:
        cut = self.counts["cut"]
        return [f"{count_of(cut, 'texts')} had more tokens than the model reads at once: cut"] * (cut > 0)

    def choose(self, survey: Survey, device: Any, training: Any) -> Tree:
        """Devlin et al. 2019, appendix A.3: what has learned before is tuned gently, for a few epochs. A new model
        learns from the beginning, for as long as it gets better."""
        width = self.start.get("d_model", 0)
        rate = gentle(self.start) if width else 1e-3
        epochs = 4.0 if width else 15.0
        steps = max(1, survey.characters // 4 // self.tokens) * min(epochs, training.epochs or epochs)
        most = 100 if training.minutes else 400  # nobody knows yet how many steps a minute has
        warmup = min(most, max(1, int(min(steps, training.steps or steps)) // 10))
        new = {} if width else {"dropout": 0.1, **({"preset": "tiny"} if "tiny" in self.model.presets else {})}
        return {
            "data": {"batch_tokens": self.tokens},
            "model": new,
            "training": {
                "learning_rate": rate, "schedule": f"linear(warmup={warmup})", "weight_decay": 0.01, "beta2": 0.98,
                "epochs": 0.0 if training.steps or training.minutes else epochs, "patience": 4 if width else 8,
                "average": "none", "validate_every": 0,
            },
        }  # fmt: skip

    def anew(self, start: Loaded, facts: About, heads: Mapping[str, str]) -> tuple[str, ...]:
        """The last layer of a head that was another one before, or of other labels."""
        before = getattr(start.model, "head_texts", {})
        labels = start.about.get("labels") == facts.get("labels")
        return tuple(f"heads.{name}.output." for name, text in heads.items() if before.get(name) != text or not labels)
