"""BigBird: blocks of tokens that see their neighbours, a few blocks that all see, and a few that are drawn."""

from functools import lru_cache
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from qkv.attention.flexible import Rule
from qkv.attention.masks import bigbird_table
from qkv.attention.soft import Soft
from qkv.attention.sparse import Sparse, gathered
from qkv.block_kernel import Blocks
from qkv.errors import InputError
from qkv.positions import Places, Position, Sizes

Kind = Literal["itc", "etc"]
Plan = Literal["drawn", "transformers"]


@lru_cache(maxsize=256)
def drawn(blocks: int, heads: int, window: int, first: int, last: int, random: int, seed: int) -> Tensor:
    """The table of a text of so many blocks: (H, blocks, n). It depends on nothing else, so no batch changes it."""
    rng = torch.Generator().manual_seed(seed)
    return bigbird_table(blocks, heads=heads, window=window, first=first, last=last, random=random, rng=rng)


class BigBird(Sparse):
    """Zaheer et al. 2020, section 2: a block of `block` tokens sees `window` blocks around it, `global_blocks` that all
    see and that see all, and `random` blocks that each head draws once for a text of that many blocks.

    `kind` says which are global: "itc", the first and the last blocks of the text; "etc", tokens of their own, learned,
    which a stack puts in front. The last block is that of each row, wherever its padding begins.

    With plan="transformers" it is what transformers' BigBirdModel computes when it is not training: the drawn blocks
    are all the first one, which so counts 1 + random times; the last block is that of the whole batch; and up to
    (5 + 2 random) blocks are read by full attention.
    """

    uses: ClassVar[tuple[str, ...]] = ("encoder",)

    def __init__(
        self, sizes: Sizes, *, block: int = 64, window: int = 3, global_blocks: int = 2, random: int = 3,
        kind: Kind = "itc", plan: Plan = "drawn", seed: int = 0, score: str = "scaled_dot", dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(sizes, score=score, dropout=dropout)
        if min(block, global_blocks) < 1 or random < 0:
            raise InputError(
                f"bigbird with block={block}, global_blocks={global_blocks} and random={random} is no pattern; give a "
                "block and global_blocks of at least 1, and random of 0 or more"
            )
        if window < 1 or not window % 2:
            raise InputError(f"window={window} has no block in its middle; give an odd number, such as 3")
        if kind not in get_args(Kind) or plan not in get_args(Plan):
            raise InputError(
                f"bigbird has no kind={kind!r} or no plan={plan!r}; give kind 'itc' or 'etc', and plan 'drawn' or "
                "'transformers'"
            )
        if plan == "transformers" and (kind, window, global_blocks) != ("itc", 3, 2):
            raise InputError("plan='transformers' has kind='itc', window=3 and global_blocks=2 only; leave them out")
        self.block, self.window, self.random, self.plan = block, window, random, plan
        self.first = global_blocks if kind == "etc" else (global_blocks + 1) // 2
        self.last = global_blocks - self.first
        self.extra = global_blocks * block if kind == "etc" else 0
        self.n_heads, self.seed = sizes.n_heads, seed

    def settle(self, layer: int, first: Soft) -> None:
        self.seed += layer  # each layer draws its own

    # -- who sees whom, in blocks --------------------------------------------------------------------------------------

    def table(self, blocks: int) -> Tensor:
        """The blocks that each block of a text sees, beside global ones: (H or 1, blocks, n), -1 for none."""
        if self.plan == "drawn":
            return drawn(blocks, self.n_heads, self.window, self.first, self.last, self.random, self.seed)
        again = torch.zeros(1, blocks, self.random, dtype=torch.long)
        return torch.cat((drawn(blocks, 1, self.window, self.first, self.last, 0, 0), again), dim=-1)

    def is_whole(self, length: int) -> bool:
        """Whether transformers would read so short a text by full attention."""
        return self.plan == "transformers" and length <= (5 + 2 * self.random) * self.block

    def counts(self, lengths: Tensor, longest: int) -> list[int]:
        """The blocks of each row, or of all."""
        if self.plan == "transformers":
            return [-(-longest // self.block)]
        return [-(-int(length) // self.block) for length in lengths]

    def times(self, at: Places, mask: Tensor | None) -> Tensor:
        """How often each query sees each key: (B or 1, H or 1, T, S)."""
        query, key = at.pairs  # (T, 1) and (S,), or (B, 1, T, 1) and (B, 1, 1, S)
        longest = int(max(at.query.max(), at.key.max())) + 1
        if self.is_whole(longest):
            return torch.ones(1, 1, 1, 1, device=at.key.device)
        lengths = (at.key + 1)[None] if at.key.dim() == 1 else at.key + 1  # (B or 1, S)
        if mask is not None:
            lengths = lengths * mask[(None,) * (4 - mask.dim())].any(dim=(1, 2))
        seen = self.among(lengths.amax(dim=-1), longest)
        row, head = (torch.arange(size, device=at.key.device) for size in seen.shape[:2])
        return seen[row[:, None, None, None], head[:, None, None], query // self.block, key // self.block]

    def among(self, lengths: Tensor, longest: int) -> Tensor:
        """How often each block of texts of these lengths, (B or 1,), sees each: (B or 1, H or 1, most, most)."""
        rows = [self.between(count, -(-longest // self.block)) for count in self.counts(lengths, longest)]
        return torch.stack(rows).to(lengths.device)

    def between(self, count: int, most: int) -> Tensor:
        """How often each block of a text of `count` blocks sees each: (H or 1, most, most); what is behind, none."""
        table = self.table(count)
        times = torch.zeros(len(table), count, count + 1)
        times.scatter_add_(2, table.where(table >= 0, count), torch.ones(1).expand(table.shape))
        times = times[..., :count]
        times[:, : self.first], times[:, max(self.first, count - self.last) :] = 1, 1
        return F.pad(times, (0, most - count, 0, most - count))

    def visible(self, at: Places, mask: Tensor | None) -> Tensor:
        region = self.times(at, mask) > 0
        return region if mask is None else mask & region

    def bias(self, q: Tensor, k: Tensor, at: Places, mask: Tensor | None, position: Position) -> Tensor | None:
        """With transformers' plan, a key that is seen n times counts n times in the softmax: its score is + log n."""
        bias = super().bias(q, k, at, mask, position)
        if self.plan == "drawn":
            return bias
        more = self.times(at, mask).to(q.dtype).clamp(min=1).log()
        return more if bias is None else bias + more

    def rule(self, at: Places, real: Tensor | None) -> tuple[Rule, bool, bool] | None:
        if self.plan != "drawn":
            return None  # how often a block counts is not for a rule
        seen = self.among(self.lengths(at, real), at.key.size(-1)) > 0  # (B or 1, H or 1, blocks, blocks)
        shape, reals = seen.shape[:2], (1, 1) if real is None else real.shape[:2]

        def rule(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            may = seen[row % shape[0], head % shape[1], query // self.block, key // self.block]
            return may if real is None else may & real[row % reals[0], head % reals[1], key]

        return rule, max(shape[0], reals[0]) > 1, max(shape[1], reals[1]) > 1

    # -- the fast form -------------------------------------------------------------------------------------------------

    def blocks(self, at: Places, real: Tensor | None, first: int, count: int) -> Blocks | None:
        length = at.key.size(-1)
        n = self.first + self.last + self.window + self.random
        if n * self.block >= length or int(at.key[0]) or self.is_whole(length):
            return None
        counts = self.counts(self.lengths(at, real), length)
        tables = [F.pad(self.table(one), (0, 0, 0, count - one), value=-1) for one in counts]
        table = torch.stack([F.pad(one, (0, n - one.size(-1)), value=-1) for one in tables]).to(at.key.device)
        return Blocks(table.clamp(min=0), gathered(real, table, self.block), None)

    def wide(self, at: Places, real: Tensor | None) -> tuple[Tensor, bool] | None:
        """The first tokens and the last of each row, among them all that are in global blocks."""
        device, length, front, behind = at.key.device, at.key.size(-1), self.first * self.block, self.last * self.block
        counts = torch.tensor(self.counts(self.lengths(at, real), length), device=device)
        if is_even := bool((counts * self.block >= length).all()):  # no row ends before the others: these tokens alone
            behind -= -length % self.block if self.last else 0
        ends = (counts * self.block).clamp(max=length).sub(behind).clamp(min=front)  # (B or 1,)
        first = torch.arange(front, device=device).expand(len(ends), -1)
        return torch.cat((first, ends[:, None] + torch.arange(behind, device=device)), dim=1), is_even

    def lengths(self, at: Places, real: Tensor | None) -> Tensor:
        """Of each row, (B,), or of all, (1,): up to its last real token."""
        if real is None:
            return torch.tensor([at.key.size(-1)], device=at.key.device)
        return (real.any(dim=1) * torch.arange(1, real.size(-1) + 1, device=real.device)).amax(dim=-1)
