"""What `qkv.load` gives for a model that fills in: texts with holes in, words for each hole out."""

import heapq
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from qkv.config import Tree
from qkv.data import Buckets, RowsInMemory
from qkv.errors import InputError
from qkv.folder import Loaded, in_brief
from qkv.models import Headed, Outputs
from qkv.text.several import several

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

    def __init__(self, task: Any, loaded: Loaded) -> None:
        self.task, self.loaded = task, loaded
        model = loaded.model.eval()
        self.model, self.tokenizer, self.about = model, loaded.tokenizer, loaded.about
        self.folder = loaded.folder
        self.engine = "plain"
        self.mask, specials = self.tokenizer.special(MASK), set(self.tokenizer.specials.values())
        self.words = torch.tensor([number for number in range(len(self.tokenizer)) if number not in specials])
        self.backbone: Any = model.backbone if isinstance(model, Headed) else model

    def __repr__(self) -> str:
        return in_brief(self, self.engine)

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
        most = self.backbone.config.max_length
        framed, is_cut = self.backbone.frame.join(self.tokenizer, [ids], most)
        shown = repr(text if len(text) <= 60 else f"{text[:60]}…")
        if is_cut:
            raise InputError(f"{shown} has {len(ids)} tokens, but the model reads {most} at once; give a shorter text")
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

    @torch.inference_mode()
    def best(self, rows: list[list[int]], k: int, holes: int | None = None) -> list[list[list[Candidate]]]:
        """The k best words for each hole of each row, or for its first `holes`; the rows are read in batches of like
        length, and no answer depends on its neighbours."""
        found: list[list[list[Candidate]]] = [[] for _ in rows]
        if not rows:
            return found
        device = next(self.backbone.parameters()).device
        batches = Buckets(RowsInMemory([(row,) for row in rows]), tokens=self.task.data.batch_tokens, seed=0)
        for batch in batches.in_order():
            ids = batch.columns[0].to(device)
            is_hole = ids == self.mask
            wanted = is_hole & (is_hole.cumsum(dim=1) <= (holes or ids.size(1)))
            outputs: Outputs = self.backbone.at_holes(ids, is_hole)
            numbers = batch.rows[:, 1].tolist()
            owners = iter([numbers[row] for row in wanted.nonzero()[:, 0].tolist()])
            for hidden in outputs.hidden[wanted[is_hole]].split(AT_ONCE):
                log_p = outputs.projection(hidden).float().log_softmax(dim=-1)[:, self.words.to(device)]
                best = log_p.topk(min(k, len(self.words)))
                tokens = self.words[best.indices.cpu()].tolist()
                for words in zip(best.values.tolist(), tokens, strict=True):
                    found[next(owners)].append([Candidate(*word) for word in zip(*words, strict=True)])
        return found

    def answer(self, row: list[int], words: dict[int, int], log_p: float, *, jointly: bool) -> Tree:
        """The tokens at some places of a row, and the text with them; other holes stay."""
        tokens = [self.tokenizer.decode([token]).strip() for token in words.values()]
        text = self.tokenizer.decode([words.get(place, token) for place, token in enumerate(row)], specials=True)
        which: Tree = {"tokens": tokens} if jointly else {"token": tokens[0]}
        return {**which, "probability": math.exp(log_p), "text": text}
