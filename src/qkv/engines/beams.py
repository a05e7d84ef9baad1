"""What the lean Transformer remembers: all hypotheses of a sentence share one cache, so that beams move for nothing."""

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 8  # steps that a cache has room for at first; when they are used up, what nobody needs any more makes room
FEW = 64  # queries (sentences x heads x hypotheses) up to which one call of the fused kernel is faster than three


class Beams:
    """Keys and values of n sentences with W hypotheses each, and which of them each hypothesis has written.

    A step adds W entries to each sentence, one for each hypothesis. When hypotheses change places, no key and no value
    does: `own` (n, W, entries), 0 or -inf, says which entries are a hypothesis's past, and it alone is reordered. From
    time to time the entries that no hypothesis has in its past are dropped: most beams differ in their last words only.
    When sentences leave, those at the end of the cache move into the gaps.
    """

    def __init__(self, memory: Tensor, memory_mask: Tensor | None) -> None:
        """memory (L, 2, n, H, S, K): keys and values of the source for each layer; memory_mask (n, 1, S), 0 or -inf."""
        self.memory, self.memory_mask = memory, memory_mask
        self.n, self.heads, self.width, self.steps, self.used = memory.size(2), memory.size(3), 1, 0, 0
        self.place = torch.arange(self.n)  # where in the cache the search's sentence i is
        self.is_moved, self.is_full = False, True
        self.cache = memory.new_empty(*memory.shape[:4], ROOM, memory.size(-1))
        self.own = memory.new_full((self.n, 1, ROOM), -torch.inf)
        self.arrange()

    def arrange(self) -> None:
        """Find the views that steps use; anew whenever the sentences or the tensors are others."""
        self.is_few = self.n * self.heads * self.width <= FEW
        self.now, self.sources = self.cache[:, :, : self.n], self.memory[:, :, : self.n]
        self.source_mask = None
        if self.memory_mask is not None:
            self.source_mask = self.for_heads(self.memory_mask[: self.n].expand(-1, self.width, -1))

    def for_heads(self, mask: Tensor) -> Tensor:
        """(n, W, S) -> (n, 1, W, S), or for many (n * H, W, S)."""
        if self.is_few:
            return mask[:, None]
        return mask[:, None].expand(-1, self.heads, -1, -1).reshape(self.n * self.heads, *mask.shape[1:])

    # -- one step ------------------------------------------------------------------------------------------------

    def begin(self) -> tuple[Tensor, int, int, Tensor | None, Tensor, Tensor | None, bool]:
        """Make room for one entry of each hypothesis, which sees its own: what `lean.LeanBlock` is given."""
        if self.used + self.width > self.cache.size(4):
            self.make_room(self.width)
        before, self.used, self.steps = self.used, self.used + self.width, self.steps + 1
        self.own.narrow(2, before, self.width).diagonal(dim1=1, dim2=2).zero_()
        # One hypothesis a sentence has written every entry.
        mask = None if self.width == 1 and self.is_full else self.for_heads(self.own[:, :, : self.used])
        return self.now, before, self.width, mask, self.sources, self.source_mask, self.is_few

    # -- between steps -------------------------------------------------------------------------------------------

    def arranged(self, rows: Tensor) -> Tensor:
        """What belongs to the search's hypotheses (n * W, ..), in the order of the cache."""
        return self.by(self.place.argsort(), rows) if self.is_moved else rows

    def restored(self, rows: Tensor) -> Tensor:
        """... and back."""
        return self.by(self.place, rows) if self.is_moved else rows

    def by(self, order: Tensor, rows: Tensor) -> Tensor:
        return rows.view(self.n, self.width, *rows.shape[1:])[order].flatten(0, 1)

    def reorder(self, rows: Tensor) -> None:
        """Hypothesis i becomes what hypothesis rows[i] was; sentences that no row is of leave."""
        kept = (rows // self.width).unique_consecutive() if self.n > 1 or not len(rows) else self.place
        is_same = len(kept) == self.n and len(rows) == self.n * self.width
        if len(kept) < self.n:
            self.leave(kept)
        if not len(kept):
            return
        width = len(rows) // self.n
        if width > 1 or self.width > 1:
            parent = (rows % self.width).view(self.n, width)  # in the order of the search
            self.inherit(parent[self.place.argsort()] if self.is_moved else parent)
        if not is_same:
            self.arrange()

    def inherit(self, parent: Tensor) -> None:
        """Each hypothesis (n, W) gets its parent's past."""
        self.own = self.own.gather(1, parent[:, :, None].expand(-1, -1, self.own.size(2)))
        if self.width < parent.size(1):
            self.make_room(parent.size(1))
        self.width = parent.size(1)

    def make_room(self, width: int) -> None:
        """Keep what somebody has in their past, with room for some steps of `width` hypotheses and as much again."""
        alive = (self.own[:, :, : self.used] == 0).any(dim=1)  # (n, entries)
        most = int(alive.sum(dim=1).max())
        kept = alive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]  # (n, most): alive first
        L, _, _, H, entries, K = self.cache.shape
        heads = torch.arange(self.n * H).view(self.n, H, 1) * entries
        rows = self.cache[:, :, : self.n].reshape(2 * L, -1, K).index_select(1, (heads + kept[:, None]).flatten())
        room = most + max(ROOM * width, most)
        self.cache = self.cache.new_empty(L, 2, self.n, H, room, K)
        self.cache[..., :most, :] = rows.view(L, 2, self.n, H, most, K)
        own = self.own.gather(2, kept[:, None].expand(-1, self.own.size(1), -1))
        self.own = own.new_full((self.n, own.size(1), room), -torch.inf)
        self.own[:, :, :most], self.used = own, most
        self.arrange()

    def leave(self, kept: Tensor) -> None:
        """Close the gaps of the sentences that have left with the last ones of the cache."""
        taken, n = self.place[kept], len(kept)
        free = torch.ones(self.n, dtype=torch.bool)
        free[taken] = False
        gaps, moved = free[:n].nonzero()[:, 0], taken >= n
        last = taken[moved]
        if len(gaps):
            self.cache[:, :, gaps, :, : self.used] = self.cache[:, :, last, :, : self.used]
            self.memory[:, :, gaps] = self.memory[:, :, last]
            self.own[gaps] = self.own[last]
            if self.memory_mask is not None:
                self.memory_mask[gaps] = self.memory_mask[last]
        self.place = taken.clone()
        self.place[moved] = gaps
        self.n, self.own = n, self.own[:n]
        self.is_moved = bool((self.place != torch.arange(n)).any())


class Prompted(Beams):
    """The cache of a model without a memory: it begins with the keys and values of prompts, padded on the left."""

    def __init__(self, cache: Tensor, real: Tensor) -> None:
        """cache (L, 2, n, H, T, K) and real (n, T): True where a token is no padding."""
        super().__init__(cache[..., :0, :], None)
        self.used = cache.size(4)
        self.lengths = real.sum(dim=1)  # (n,), in the order of the search
        self.is_full = bool(real.all())
        self.cache = F.pad(cache, (0, 0, 0, ROOM))
        self.own = cache.new_full((self.n, 1, self.used + ROOM), -torch.inf)
        self.own[:, 0, : self.used].masked_fill_(real, 0)
        self.arrange()

    def places(self) -> Tensor:
        """Where the last token of each hypothesis stands in its own text, (n * W,)."""
        return (self.lengths + self.steps).repeat_interleave(self.width)

    def reorder(self, rows: Tensor) -> None:
        """In groups as ever; but hypotheses of a text that has slid have caches of their own, in any order."""
        group = rows // self.width
        kept = group.unique_consecutive()
        is_grouped = not len(rows) % max(1, len(kept)) and bool((kept[1:] > kept[:-1]).all())
        if is_grouped and torch.equal(group, kept.repeat_interleave(len(rows) // max(1, len(kept)))):
            super().reorder(rows)
            return
        place = self.place[group]
        self.cache, self.own = self.cache[:, :, place], self.own[place, rows % self.width][:, None]
        self.lengths, self.n, self.width = self.lengths[group], len(rows), 1
        self.place, self.is_moved, self.is_full = torch.arange(self.n), False, False
        self.memory = self.memory[:, :, place]
        self.arrange()

    def leave(self, kept: Tensor) -> None:
        self.lengths = self.lengths[kept]
        super().leave(kept)


def look(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_few: bool) -> Tensor:
    """softmax(q k^T + mask) v (n * W, H * K), for q (n, W, H, K), which is scaled already, and k, v (n, H, S, K)."""
    n, W, H, _ = q.shape
    q = q.transpose(1, 2)  # (n, H, W, K)
    if is_few:
        context = F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)
    else:
        q, k, v = q.reshape(n * H, W, -1), k.flatten(0, 1).transpose(1, 2), v.flatten(0, 1)
        scores = torch.bmm(q, k) if mask is None else torch.baddbmm(mask, q, k)
        context = torch.bmm(scores.softmax(dim=-1), v).view(n, H, W, -1)
    return context.transpose(1, 2).reshape(n * W, -1)
