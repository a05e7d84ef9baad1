"""CTranslate2 as an engine: the same searches in C++, on a CTranslate2 folder inside the model folder."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from qkv.convert import digest, exporting, mark, need
from qkv.decoding.engine import Native, Search, longest_targets
from qkv.decoding.hypothesis import Hypothesis, length_penalty
from qkv.folder import Loaded
from qkv.models import Model
from qkv.text.tokenizer import Tokenizer


class CTranslate2:
    """Klein et al. 2020, OpenNMT's engine: beam search and greedy as ours, in C++.

    Beams are cut and stopped as ours are, so the best hypothesis is the same; hypotheses are ranked by our length
    penalty here. Of the n best, the last may be another, since CTranslate2 keeps no more than `beam` of those that
    ended. Our own search does what CTranslate2 does otherwise: it forces the end of a sentence that reaches its limit,
    blocks repetitions (CTranslate2 takes blocked tokens out of the softmax, so that beams rank otherwise) and samples
    (CTranslate2 takes a seed only once).
    """

    name = "ctranslate2"

    def __init__(self, folder: Path, model: Model, tokenizer: Tokenizer, device: str = "cpu") -> None:
        """`folder` is what `qkv export --to ctranslate2` wrote of this model; it is read whole."""
        self.library = need("ctranslate2", "qkv[ctranslate2]")
        kind, workers = "cuda" if device.startswith("cuda") else "cpu", torch.get_num_threads()
        self.translator = self.library.Translator(str(folder), device=kind, inter_threads=workers, intra_threads=1)
        self.native, self.max_length = Native(model), model.config.max_length
        self.words = tokenizer.vocabulary()
        self.ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def open(cls, path: Path, loaded: Loaded, device: str = "cpu") -> "CTranslate2":
        """The engine of a model folder, whose CTranslate2 folder is written first if there is none of these weights."""
        with prepared(path, loaded) as folder:
            return cls(folder, loaded.model, loaded.tokenizer, device)

    def decode(self, sources: list[list[int]], how: Search, no_repeat: int = 0) -> list[list[Hypothesis]]:
        if no_repeat or how.sampling:
            return self.native.decode(sources, how, no_repeat)
        limits = longest_targets(sources, self.max_length)
        options: dict[str, Any] = {"max_input_length": 0, "min_decoding_length": 0, "return_scores": True}
        options["max_decoding_length"] = max(limits)
        found = self.searched(sources, how, options)
        late = [i for i, some in enumerate(found) if max(len(h.tokens) for h in some) + 1 >= limits[i]]
        again = self.native.decode([sources[i] for i in late], how) if late else []
        for i, some in zip(late, again, strict=True):
            found[i] = some
        return [sorted(some, key=lambda h: -h.score)[: how.n_best] for some in found]

    def searched(self, sources: list[list[int]], how: Search, options: dict[str, Any]) -> list[list[Hypothesis]]:
        """Twice where it matters. CTranslate2 drops the last by log p / length^p if more than `beam` have ended.

        Our penalty grows slower than length^alpha and faster than length^0, so the best by ours is among the best by
        one of them. A hypothesis shorter than the others can only have been dropped where two have the last length.
        """
        found = self.ended(sources, how, how.alpha, options)
        lengths = [[len(h.tokens) for h in some] for some in found]
        doubtful = [i for i, some in enumerate(lengths) if some.count(max(some)) > 1 and how.alpha]
        again = self.ended([sources[i] for i in doubtful], how, 0.0, options) if doubtful else []
        for i, some in zip(doubtful, again, strict=True):
            known = [h.tokens for h in found[i]]
            found[i] += [h for h in some if h.tokens not in known]
        return found

    def ended(
        self, sources: list[list[int]], how: Search, power: float, options: dict[str, Any]
    ) -> list[list[Hypothesis]]:
        """The best `beam` that ended, by log p / length^power."""
        power, alpha = power or 1e-6, how.alpha if how.beam > 1 else 0.0  # with 0 it would stop by another rule
        results = self.translator.translate_batch(
            self.spell(sources), beam_size=how.beam, num_hypotheses=how.beam, length_penalty=power, **options
        )
        found = []
        for result in results:
            rows = [(self.read(words), score) for words, score in zip(result.hypotheses, result.scores, strict=True)]
            found.append([scored(ids, score * (len(ids) + 1) ** power, alpha) for ids, score in rows])
        return found

    def spell(self, rows: list[list[int]]) -> list[list[str]]:
        return [[self.words[number] for number in ids] for ids in rows]

    def read(self, words: list[str]) -> list[int]:
        return [self.ids[word] for word in words]


def scored(ids: list[int], log_probability: float, alpha: float) -> Hypothesis:
    return Hypothesis(ids, log_probability / length_penalty(len(ids) + 1, alpha), log_probability, True)


@contextmanager
def prepared(path: Path, loaded: Loaded) -> Iterator[Path]:
    """The CTranslate2 folder of a model folder: inside it, or for a moment elsewhere if it cannot be written to."""
    kept = path / "ctranslate2"
    noted = mark(kept) or {}
    if noted.get("weights") == digest(path):
        yield kept
        return
    quantization = str(noted.get("quantization", ""))
    with ExitStack() as stack:
        try:
            with exporting("ctranslate2", path, kept, loaded.model, loaded.tokenizer, loaded.about, quantization):
                pass
        except OSError:  # no permission, no space
            kept = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "ctranslate2"
            with exporting("ctranslate2", path, kept, loaded.model, loaded.tokenizer, loaded.about, quantization):
                pass
        yield kept
