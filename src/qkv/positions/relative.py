"""Relative positions: what is added to the scores goes by how far a key stands from a query."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from qkv.errors import InputError
from qkv.positions.absolute import Waves
from qkv.positions.position import Places, Position, Sizes


class Shaw(Position):
    """Shaw et al. 2018, Eq. 3 and 4: a learned vector for each distance j - i, added to the keys and the values.

    e_ij = q_i . (k_j + a^K_ij) / sqrt(d), z_i = sum_j weights_ij (v_j + a^V_ij), a_ij = w_clip(j - i, -clip, clip). The
    tables are shared by the heads of a layer. `values=False` leaves a^V out.

    The product with each of the 2 clip + 1 vectors comes first, and each pair (i, j) then picks one, so that no tensor
    of (T, S, K) is made. `plain_score` and `plain_value` are the equations as they stand.
    """

    per_layer: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, *, clip: int = 16, values: bool = True) -> None:
        super().__init__()
        if clip < 0:
            raise InputError(f"relative positions are clipped at a distance of 0 or more, not {clip}")
        self.clip, self.has_value = clip, values
        self.keys = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * clip + 1, sizes.head_width)))
        if values:
            self.values = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * clip + 1, sizes.head_width)))

    def distance(self, at: Places) -> Tensor:
        """Of each key from each query: broadcasts to (B, H, T, S)."""
        return -at.distance

    def row(self, at: Places) -> Tensor:
        """Which row of the tables belongs to each pair: broadcasts to (B, H, T, S)."""
        return self.distance(at).clamp(-self.clip, self.clip) + self.clip

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        products = q @ self.keys.T / math.sqrt(q.size(-1))  # (B, H, T, 2 clip + 1)
        return products.gather(-1, self.row(at).expand(*q.shape[:3], -1))  # (B, H, T, S)

    def value(self, weights: Tensor, at: Places) -> Tensor | None:
        if not self.has_value:
            return None
        sums = weights.new_zeros(*weights.shape[:3], len(self.values))  # (B, H, T, 2 clip + 1)
        return sums.scatter_add(-1, self.row(at).expand_as(weights), weights) @ self.values  # (B, H, T, K)

    def plain_score(self, q: Tensor, at: Places) -> Tensor:
        """The second term of Eq. 4, from a vector for each pair."""
        return (q[..., None, :] * self.keys[self.row(at)]).sum(-1) / math.sqrt(q.size(-1))  # (B, H, T, S)

    def plain_value(self, weights: Tensor, at: Places) -> Tensor:
        """The second term of Eq. 3, from a vector for each pair."""
        return (weights[..., None] * self.values[self.row(at)]).sum(-2)  # (B, H, T, K)


class TransformerXL(Waves):
    """Dai et al. 2019, section 3.3: to q_i . k_j come q_i . W_r R_{i-j} + u . k_j + v . W_r R_{i-j}, all / sqrt(d).

    R is the sinusoid of the distance, W_r projects it for each head; u and v are learned for each head. With `segments`
    (Yang et al. 2019, XLNet, section 2.5) comes (q_i + s) . e_ij, where e_ij is one of two vectors: for keys of the
    query's own segment, and for all others.

    The product with each distance comes first, and each pair (i, j) then picks one: by a shift of rows, where the
    queries stand one behind the other (appendix B), or by their indices (`gathered`).
    Differs: u and v belong to each layer, as in XLNet (untie_r); the paper's layers share them.
    """

    per_layer: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, *, segments: bool = False) -> None:
        super().__init__(sizes.d_model, 0)  # one table for each layer: no longer than the texts are
        self.project = nn.Linear(sizes.d_model, sizes.n_heads * sizes.head_width, bias=False)  # W_r
        shape = sizes.n_heads, 1, sizes.head_width
        self.u, self.v = (nn.Parameter(nn.init.normal_(torch.empty(shape), std=0.02)) for _ in "uv")  # as the authors
        self.has_segments = segments
        if segments:
            self.s = nn.Parameter(nn.init.normal_(torch.empty(shape), std=0.02))
            self.segments = nn.Parameter(nn.init.normal_(torch.empty(2, *shape), std=0.02))  # the same, another

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        last = int(at.query.max() - at.key.min()) + 1  # one more than there is, for the shift
        first = int(at.query.min() - at.key.max())
        r = self.sinusoids(torch.arange(last, first - 1, -1, device=q.device))  # (R, D), R = T + S at most
        r = self.project(r).view(len(r), q.size(1), -1).permute(1, 2, 0)  # (H, K, R)
        by_distance = (q + self.v) @ r  # (B, H, T, R)
        n, skip = at.run, 0
        if n:
            skip = last - int(at.query.flatten()[0] - at.key.flatten()[0])  # the column of the first pair
        if n and skip <= n:
            parts = [shifted(by_distance[:, :, :n], skip, k.size(-2))]
            parts += [gathered(by_distance[:, :, n:], last, at)] if n < q.size(-2) else []
            by_place = torch.cat(parts, dim=-2) if len(parts) > 1 else parts[0]  # (B, H, T, S)
        else:
            by_place = gathered(by_distance, last, at)
        found = by_place + self.u @ k.transpose(-1, -2)  # (B, H, T, S)
        if self.has_segments and at.same is not None:
            # What is added to all keys of a query changes no weight: it is left out.
            same, other = self.segments
            found = found + ((q + self.s) * (same - other)).sum(-1, keepdim=True) * at.same[:, None]
        return found / math.sqrt(q.size(-1))

    def sinusoids(self, distance: Tensor) -> Tensor:
        """R for any distance: sin(-x) = -sin(x), cos(-x) = cos(x)."""
        sin, cos = self.waves(distance.abs()).chunk(2, dim=-1)
        return torch.cat((sin * distance.sign()[:, None], cos), dim=-1)


def shifted(by_distance: Tensor, skip: int, keys: int) -> Tensor:
    """Of row i (.., T, R) the columns skip - i and `keys` more: (.., T, S), without a copy of any index.

    Dai et al. 2019, appendix B: where all rows are one, those columns are one number less apart than the rows are long.
    """
    *before, rows, width = by_distance.shape
    flat = by_distance.reshape(*before, -1)[..., skip : skip + rows * (width - 1)]
    return flat.view(*before, rows, width - 1)[..., :keys]


def gathered(by_distance: Tensor, last: int, at: Places) -> Tensor:
    """What stands at the distance of each pair: of the last queries (B, H, T, R), whose columns have the distances from
    `last` down, (B, H, T, S)."""
    distance = at.distance[..., -by_distance.size(-2) :, :]
    return by_distance.gather(-1, (last - distance).expand(*by_distance.shape[:3], -1))


class T5(Position):
    """Raffel et al. 2020, section 2.1: a learned bias of the scores for each head and each bucket of distances j - i.

    The first half of the buckets hold one distance each, the others grow geometrically up to `max_distance`, and the
    last holds all beyond. An encoder has half of the buckets for each direction, a decoder all of them for what stands
    before. One table serves all layers. T5 itself does not divide scores by sqrt(d_k): that is attention = "dot".
    """

    def __init__(self, sizes: Sizes, *, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        if buckets < 4 or buckets % 2 or max_distance <= buckets // 2:
            raise InputError(
                f"t5 positions with buckets={buckets} and max_distance={max_distance} cannot be; "
                "give an even number of buckets, 4 or more, and a max_distance above half of it"
            )
        self.buckets, self.max_distance = buckets, max_distance
        self.table = nn.Parameter(nn.init.normal_(torch.empty(buckets, sizes.n_heads), std=sizes.d_model**-0.5))

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        bucket = self.bucket(-at.distance, is_causal=at.causal)  # (T, S) or (B, 1, T, S)
        bias = self.table[bucket[:, 0] if bucket.dim() == 4 else bucket]
        return bias.movedim(-1, -3).to(q.dtype)  # (H, T, S) or (B, H, T, S)

    def bucket(self, distance: Tensor, *, is_causal: bool) -> Tensor:
        """The bucket of each distance j - i. In float32: weights were trained with its rounding."""
        away = -distance.clamp(max=0) if is_causal else distance.abs()
        buckets = self.buckets if is_causal else self.buckets // 2
        exact = buckets // 2
        ratio = (away.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        bucket = torch.where(away < exact, away, far)
        return bucket if is_causal else bucket + buckets * (distance > 0)


class ALiBi(Position):
    """Press et al. 2022, section 3: -m * |i - j| is added to the scores, with a fixed slope m for each head.

    A decoder sees no j > i, so there it is the paper's -m * (i - j); an encoder looks both ways alike.
    """

    slopes: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(slopes(sizes.n_heads))[:, None, None], persistent=False)

    def score(self, q: Tensor, k: Tensor, at: Places) -> Tensor:
        return (-self.slopes * at.distance.abs()).to(q.dtype)  # (H, T, S) or (B, H, T, S)


def slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n) .. 2^-8 for n heads, if n is a power of two.

    Other numbers take those of the power below, then every other one of the power above (the authors' code, Bloom).
    """
    power = 1 << (n_heads.bit_length() - 1)
    more = n_heads - power
    return [2 ** (-8 * h / power) for h in range(1, power + 1)] + [2 ** (-4 * h / power) for h in range(1, 2 * more, 2)]
