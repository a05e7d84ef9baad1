"""The settings that the data of every task has."""

from dataclasses import dataclass

from qkv.config import setting


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """How any text becomes ids and batches."""

    tokenizer: str = setting(
        "bpe", "how sub-words are learned, by a name of `qkv list tokenizers`; or the path of a tokenizer.json to use"
    )
    vocab_size: int = setting(8000, "size of the vocabulary to learn")
    grow: int = setting(0, "with --start: sub-words to learn from the new text beside those of the old model")
    limit: int = setting(0, "learn from so many examples only, which the seed draws; 0 for all")
    held_out: int = setting(1000, "examples kept for validation when no --valid is given (at most one in ten)")
    batch_tokens: int = setting(4096, "a batch holds at most this many tokens of the longer side, padding counted")
    seed: int = setting(1, "decides the order of batches, the first weights and dropout")

    def __post_init__(self) -> None:
        if self.grow < 0 or self.limit < 0:
            raise ValueError(f"grow={self.grow} and limit={self.limit} must be numbers, 0 for none and for no limit")
        if self.batch_tokens < 1 or not 1 <= self.held_out <= 10_000:
            raise ValueError("batch_tokens must be at least 1, held_out from 1 to 10,000")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a number from 0, not {self.seed}")
