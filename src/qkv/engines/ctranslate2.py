"""CTranslate2 as an engine: the same searches in C++, on a CTranslate2 folder inside the model folder."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from qkv.convert import digest, exporting, mark, need
from qkv.decoding.draws import RowNumber
from qkv.decoding.engine import Search
from qkv.decoding.hypothesis import CONSTANT, Hypothesis, length_penalty
from qkv.decoding.plain import Plain
from qkv.engines.native.kept import threads
from qkv.errors import InputError
from qkv.folder import Loaded
from qkv.models import Model
from qkv.text.tokenizer import Tokenizer

POWER = 1e-6  # of length^POWER, CTranslate2's penalty: log p alone decides; with 0 it would stop by another rule
BATCH = 32  # sentences at a time: more of them leave the cache


class CTranslate2:
    """Klein et al. 2020, OpenNMT's engine: beam search and greedy as ours, in C++.

    Beams are cut and stopped as ours are, so the hypotheses are the same; they are ranked by our length penalty here.
    If more than `beam` of them have ended, CTranslate2 drops the last by log p, so that the last of the n best may be
    another. The best never is: fewer than `beam` had ended before the last step, so whatever was dropped is worse than
    one as long or longer, whose log p is higher. Our own search does what CTranslate2 does otherwise: it forces the
    end of a sentence that reaches its limit, rewards short ones (alpha < 0), blocks repetitions (CTranslate2 takes
    blocked tokens out of the softmax, so that beams rank otherwise) and samples (CTranslate2 takes a seed only once).
    """

    def __init__(
        self, folder: Path, model: Model, tokenizer: Tokenizer, device: str = "cpu", compute: str = "default",
        workers: int = 0,
    ) -> None:  # fmt: skip
        """`folder` is what `qkv export --to ctranslate2` wrote of this model; it is read whole.

        `compute` is how CTranslate2 computes: "int8", for example; by default as the folder was written. `workers` are
        threads, each of which takes some sentences; 0 stands for as many as torch takes.
        """
        self.library, kind = need("ctranslate2", "qkv[ctranslate2]"), "cuda" if device.startswith("cuda") else "cpu"
        try:
            self.translator = self.library.Translator(
                str(folder), device=kind, compute_type=compute, inter_threads=workers or threads(), intra_threads=1
            )
        except ValueError:
            raise InputError(f"CTranslate2 cannot compute in {compute} on this {kind}; use ctranslate2") from None
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"CTranslate2 cannot open {folder} ({reason}); delete it, and it is made anew") from None
        self.name = "ctranslate2" if compute == "default" else f"ctranslate2-{compute}"
        self.plain = Plain(model)
        self.words = tokenizer.vocabulary()
        self.ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def open(cls, loaded: Loaded, compute: str = "default", workers: int = 0) -> "CTranslate2":
        """The engine of a model folder, whose CTranslate2 folder is written first if there is none of these weights."""
        with tempfile.TemporaryDirectory() as elsewhere:
            folder = prepared(loaded.folder or Path(), loaded, Path(elsewhere))
            return cls(folder, loaded.model, loaded.tokenizer, loaded.device, compute, workers)

    def decode(
        self, sources: list[list[int]], limits: list[int], how: Search, rows: Sequence[RowNumber] | None = None
    ) -> list[list[Hypothesis]]:
        ours = how.no_repeat or how.at_least or how.prefix or how.sampling or how.repetition_penalty != 1
        if ours or how.alpha < 0 or how.ends != "forced":
            return self.plain.decode(sources, limits, how, rows)
        found = self.searched(sources, how, max(limits))
        late = [i for i, some in enumerate(found) if max(len(h.tokens) for h in some) + 1 >= limits[i]]
        again = self.plain.decode([sources[i] for i in late], [limits[i] for i in late], how) if late else []
        for i, some in zip(late, again, strict=True):
            found[i] = some
        return [sorted(some, key=lambda h: -h.score)[: how.n_best] for some in found]

    def searched(self, sources: list[list[int]], how: Search, limit: int) -> list[list[Hypothesis]]:
        """The best `beam` that ended, by log p."""
        results = self.translator.translate_batch(
            [[self.words[number] for number in ids] for ids in sources], beam_size=how.beam, num_hypotheses=how.beam,
            length_penalty=POWER, return_scores=True, max_input_length=0, min_decoding_length=0,
            max_decoding_length=limit, max_batch_size=BATCH,
        )  # fmt: skip
        (alpha, constant), found = (how.alpha if how.beam > 1 else 0.0, how.constant), []
        for result in results:
            rows = [[self.ids[word] for word in words] for words in result.hypotheses]
            both = zip(rows, result.scores, strict=True)
            found.append([scored(ids, score * (len(ids) + 1) ** POWER, alpha, constant) for ids, score in both])
        return found


def scored(ids: list[int], log_probability: float, alpha: float, constant: float = CONSTANT) -> Hypothesis:
    return Hypothesis(ids, log_probability / length_penalty(len(ids) + 1, alpha, constant), log_probability, True)


def prepared(path: Path, loaded: Loaded, elsewhere: Path) -> Path:
    """The CTranslate2 folder of a model folder: inside it, or elsewhere if it cannot be written to."""
    kept = path / "ctranslate2"
    noted = mark(kept) or {}
    if noted.get("weights") == digest(path):
        return kept

    def export(folder: Path) -> Path:
        parts = (loaded.model, loaded.tokenizer, loaded.about, str(noted.get("quantization", "")))
        with exporting("ctranslate2", path, folder, *parts):
            return folder

    try:
        return export(kept)
    except OSError:  # no permission, no space
        return export(elsewhere / "ctranslate2")
