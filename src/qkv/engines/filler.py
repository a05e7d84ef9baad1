"""What `qkv.load` gives for a model that fills in: texts with holes in, words for each hole out; by a folder's own
file without torch."""

import heapq
import math
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qkv.config import Tree
from qkv.engines.native.kept import threads
from qkv.engines.native.prediction import NativePrediction
from qkv.engines.native.writer import NAMES
from qkv.errors import InputError
from qkv.folder import Loaded, in_brief
from qkv.text.frames import Frame
from qkv.text.several import several

if TYPE_CHECKING:
    from qkv.models import Model, Outputs

MASK = "<mask>"
BEAM = 10  # ways to fill all holes of a text that are followed, or as many as are asked for
AT_ONCE = 256  # holes whose probabilities of all words are in memory


class Candidate(NamedTuple):
    """What may stand in a hole."""

    log_p: float
    token: int


class Filler:
    """`qkv.load(folder).fill("A man in a red <mask>.")`: the most probable words, each with its probability.

    No special token is offered, and what the model gives those stays theirs: probabilities sum to less than 1.
    """

    def __init__(
        self, loaded: Loaded, *, frame: Frame, most: int, batch_tokens: int = 4096,
        prediction: NativePrediction | None = None,
    ) -> None:  # fmt: skip
        """`frame` stands around a text, of which at most `most` tokens are read. With a `prediction`, no model need be
        there; without one, it reads rows of `batch_tokens` together."""
        self.loaded, self.tokenizer, self.about, self.folder = loaded, loaded.tokenizer, loaded.about, loaded.folder
        self.frame, self.most, self.batch_tokens, self.prediction = frame, most, batch_tokens, prediction
        self.engine = "plain" if prediction is None else NAMES[prediction.native.bits]
        self.mask, specials = self.tokenizer.special(MASK), set(self.tokenizer.specials.values())
        self.words = np.array([number for number in range(len(self.tokenizer)) if number not in specials])
        if prediction is None:
            loaded.model.eval()

    def __repr__(self) -> str:
        return in_brief(self, self.engine)

    @property
    def model(self) -> "Model":
        return self.loaded.model

    @property
    def backbone(self) -> Any:
        return getattr(self.model, "backbone", self.model)

    def fill(self, texts: str | Iterable[str], k: int = 5, *, jointly: bool = False) -> Any:
        """For each <mask> of a text its k best words, {"token", "probability", "text"}; of a text with one, just these.

        Several are filled one at a time, while the others stay. `jointly` gives the k best ways to fill all of them,
        {"tokens", "probability", "text"}.
        """
        if k < 1:
            raise InputError(f"{k} words were asked for; ask for at least 1")
        rows = [self.framed(text) for text in several(texts)]
        answers = self.together(rows, k) if jointly else self.apart(rows, k)
        return answers[0] if isinstance(texts, str) else answers

    def framed(self, text: str) -> list[int]:
        """The ids of a text that can be filled in."""
        ids = self.tokenizer.encode(text, specials=True)
        framed, is_cut = self.frame.join(self.tokenizer, [ids], self.most)
        shown = repr(text if len(text) <= 60 else f"{text[:60]}…")
        if is_cut:
            raise InputError(
                f"{shown} has {len(ids)} tokens, but the model reads {self.most} at once; give a shorter text"
            )
        if self.mask not in ids:
            raise InputError(f"{shown} has no {MASK}; write it where a word is to be filled in")
        return framed

    def holes(self, text: str) -> int:
        return self.framed(text).count(self.mask)

    def apart(self, rows: list[list[int]], k: int) -> list[Any]:
        """Each hole by itself."""
        answers = list[Any]()
        for row, best in zip(rows, self.best(rows, k), strict=True):
            places = [place for place, number in enumerate(row) if number == self.mask]
            holes = [[self.answer(row, {place: word.token}, word.log_p, jointly=False) for word in words]
                     for place, words in zip(places, best, strict=True)]  # fmt: skip
            answers.append(holes[0] if len(holes) == 1 else holes)
        return answers

    def together(self, rows: list[list[int]], k: int) -> list[Any]:
        """By the chain rule from left to right, P(w1, w2) = P(w1 | <mask>) P(w2 | w1), searched with a beam.

        Wang & Cho 2019, section 2: what a masked model says of one hole after another. Another order of the holes may
        give other probabilities, since it was trained for none.
        """
        width = max(k, BEAM)
        beams = [[(0.0, row)] for row in rows]  # ways to fill each, the best first: log probability and ids
        while left := [(i, *way) for i, ways in enumerate(beams) for way in ways if self.mask in way[1]]:
            grown = dict[int, list[tuple[float, list[int]]]]()
            for (i, log_p, ids), (words,) in zip(left, self.best([ids for *_, ids in left], width, 1), strict=True):
                place = ids.index(self.mask)
                ways = grown.setdefault(i, [])
                ways += [(log_p + word.log_p, [*ids[:place], word.token, *ids[place + 1 :]]) for word in words]
            for i, ways in grown.items():
                beams[i] = heapq.nlargest(width, ways)
        answers = list[Any]()
        for row, ways in zip(rows, beams, strict=True):
            places = [place for place, number in enumerate(row) if number == self.mask]
            filled = [({place: ids[place] for place in places}, log_p) for log_p, ids in ways[:k]]
            answers.append([self.answer(row, *one, jointly=True) for one in filled])
        return answers

    def best(self, rows: list[list[int]], k: int, holes: int | None = None) -> list[list[list[Candidate]]]:
        """The k best words for each hole of each row, or for its first `holes`; no answer depends on its neighbours."""
        found: list[list[list[Candidate]]] = [[] for _ in rows]
        if not rows:
            return found
        if self.prediction is None:
            self.by_torch(rows, k, holes, found)
            return found
        states = self.prediction.native.read(
            np.array([*map(len, rows)]), np.array([*chain.from_iterable(rows)]), threads=threads()
        )
        wanted, owners, place = list[int](), list[int](), 0
        for number, row in enumerate(rows):
            some = [place + i for i, token in enumerate(row) if token == self.mask][:holes]
            wanted, owners, place = wanted + some, owners + [number] * len(some), place + len(row)
        for first in range(0, len(wanted), AT_ONCE):
            log_p = self.prediction.log_p(states[wanted[first : first + AT_ONCE]])[:, self.words]
            for owner, one in zip(owners[first : first + AT_ONCE], log_p, strict=True):
                order = np.argsort(-one, kind="stable")[:k]
                found[owner].append([Candidate(float(one[i]), int(self.words[i])) for i in order])
        return found

    def by_torch(self, rows: list[list[int]], k: int, holes: int | None, found: list[list[list[Candidate]]]) -> None:
        """In batches of like length."""
        import torch

        from qkv.data import Buckets, RowsInMemory

        device, words = next(self.backbone.parameters()).device, torch.from_numpy(self.words)
        batches = Buckets(RowsInMemory([(row,) for row in rows]), tokens=self.batch_tokens, seed=0)
        for batch in batches.in_order():
            ids = batch.columns[0].to(device)
            is_hole = ids == self.mask
            wanted = is_hole & (is_hole.cumsum(dim=1) <= (holes or ids.size(1)))
            numbers = batch.rows[:, 1].tolist()
            owners = iter([numbers[row] for row in wanted.nonzero()[:, 0].tolist()])
            with torch.inference_mode():
                outputs: Outputs = self.backbone.at_holes(ids, is_hole)
                for hidden in outputs.hidden[wanted[is_hole]].split(AT_ONCE):
                    log_p = outputs.projection(hidden).float().log_softmax(dim=-1)[:, words.to(device)]
                    best = log_p.topk(min(k, len(words)))
                    tokens = words[best.indices.cpu()].tolist()
                    for several in zip(best.values.tolist(), tokens, strict=True):
                        found[next(owners)].append([Candidate(*word) for word in zip(*several, strict=True)])

    def answer(self, row: list[int], words: dict[int, int], log_p: float, *, jointly: bool) -> Tree:
        """The tokens at some places of a row, and the text with them; other holes stay."""
        tokens = [self.tokenizer.decode([token]).strip() for token in words.values()]
        text = self.tokenizer.decode([words.get(place, token) for place, token in enumerate(row)], specials=True)
        which: Tree = {"tokens": tokens} if jointly else {"token": tokens[0]}
        return {**which, "probability": math.exp(log_p), "text": text}
