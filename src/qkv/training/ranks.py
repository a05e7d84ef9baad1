"""Several processes that train one model, on one machine or many: each computes its share of every step.

torchrun starts them and says so in the environment; each gets the same weights after each step. A step is a fixed group
of batches of one stream, whoever computes them, so that a run of any number of ranks reads every row once an epoch in
the same order, and goes on with another number.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from qkv.attention.hard import Hard
from qkv.data import Stream
from qkv.errors import InputError
from qkv.layers.heads import BatchNorm

PATIENCE = timedelta(days=1)  # while the first prepares a corpus or validates, the others wait


@dataclass(frozen=True)
class Ranks:
    """The processes of a run, of which this is one; alone, it asks nobody."""

    number: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Only the first prepares, writes and shows."""
        return self.number == 0

    def sum(self, *numbers: float) -> list[float]:
        """Of each number, the sum over all ranks."""
        return list(numbers) if self.count == 1 else self._numbers(numbers, dist.ReduceOp.SUM)

    def first(self, number: float) -> float:
        """What the first rank says: of the clock, of a validation."""
        return self.sum(number if self.is_first else 0.0)[0]

    def map(self, compute: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        """What `compute` makes of each item, in their order, on all ranks; each item is computed by one of them."""
        if self.count == 1:
            return map(compute, items)
        own = [compute(item) for number, item in enumerate(items) if number % self.count == self.number]
        every = self.gather(own)
        return [every[i % self.count][i // self.count] for i in range(sum(map(len, every)))]

    def gather(self, own: Any) -> list[Any]:
        """What each rank has, as far as JSON can hold it: collectives of objects would read pickles."""
        if self.count == 1:
            return [own]
        data = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
        sizes = [*map(int, self.sum(*((len(data) if i == self.number else 0) for i in range(self.count))))]
        padded = torch.cat([data, data.new_zeros(max(sizes) - len(data))])
        found = [torch.empty_like(padded) for _ in sizes]
        with self.together():
            dist.all_gather(found, padded)
        return [json.loads(one[:size].numpy().tobytes()) for one, size in zip(found, sizes, strict=True)]

    def wait(self) -> None:
        """Until all are here."""
        self.sum(0.0)

    def check_alike(self, what: str, digest: str) -> None:
        """Refuse ranks that do not hold the same; `digest` is in hexadecimal digits."""
        if self.count > 1:
            number = float(int(digest[:12], 16))  # 48 bits, whole in a double
            most, least = self._numbers([number, -number], dist.ReduceOp.MAX)
            if most != -least:
                self.refuse(f"{what} not the same on all ranks; give each the same files and the same command")

    def sum_gradients(self, model: nn.Module) -> None:
        """Each parameter's gradient becomes the sum over all ranks, in one message; None where no rank has one.

        Two ranks give the very bits of one process that computes both shares, since a + b = b + a; more ranks add in
        another order.
        """
        if self.count == 1:
            return
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in learned]
        has_one = learned[0].new_tensor([parameter.grad is not None for parameter in learned])
        flat = self._reduced(torch.cat([*parts, has_one]))
        *sums, has_one = flat.split([*(parameter.numel() for parameter in learned), len(learned)])
        for parameter, total, ranks in zip(learned, sums, has_one.tolist(), strict=True):
            parameter.grad = total.view_as(parameter) if ranks else None

    def shared_out(self, compute: Callable[[Tensor], Tensor], several: Tensor) -> Tensor:
        """What `compute` makes of each of several tensors (N, ..), each as large as before; each rank has its share."""
        if self.count == 1:
            return compute(several)
        own = several[self.number :: self.count]
        shape = -(-len(several) // self.count), *several.shape[1:]
        found = several.new_zeros(shape)
        if len(own):
            found[: len(own)] = compute(own)
        every = several.new_empty(self.count, *shape)
        with self.together():
            dist.all_gather([*every], found)
        return every.transpose(0, 1).flatten(0, 1)[: len(several)]  # number i was that of rank i % count

    def refuse(self, sentence: str) -> NoReturn:
        """What all ranks find is said by the first of them."""
        if not self.is_first:
            raise SystemExit(1)
        raise InputError(sentence)

    def refuse_if_any(self, sentence: str) -> None:
        """What a rank alone finds, if anything, is said by the first of them too."""
        for number, other in enumerate(self.gather(sentence)):
            if other:
                self.refuse(f"rank {number} cannot take part: {other}")

    def check(self, model: nn.Module, batches: Stream, accumulate: int, shard: bool = False) -> None:
        """Refuse what several ranks cannot share out, and to share a model out to one."""
        if self.count == 1:
            if shard:
                self.refuse(
                    "training.shard shares a model out over several ranks, and this is one process; start more, with "
                    "--ranks or torchrun, or set --training.shard false"
                )
            return
        if accumulate % self.count:
            self.refuse(
                f"{self.count} ranks share the batches of a step, and training.accumulate is {accumulate}; make it "
                f"{self.count} or a multiple of it, and data.batch_tokens smaller if a step should read no more"
            )
        if any(isinstance(module, Hard) for module in model.modules()):
            self.refuse(
                "hard attention keeps a moving baseline of the batches in their order, which ranks do not share; "
                "train it in one process, or choose another attention"
            )
        if any(isinstance(module, BatchNorm) for module in model.modules()):
            self.refuse(
                "a head with batch norm (concat_classes) keeps moving means of the batches that it reads, which ranks "
                "do not share; train it in one process, or choose another --data.head"
            )
        if batches.carry:
            self.refuse(
                "this model goes on from window to window, so that no rank can read a window before another has read "
                "the one before it; train it in one process"
            )

    def _numbers(self, numbers: Sequence[float], how: dist.ReduceOp.RedOpType) -> list[float]:
        found: list[float] = self._reduced(torch.tensor(numbers, dtype=torch.float64), how).tolist()
        return found

    def _reduced(self, shared: Tensor, how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> Tensor:
        with self.together():
            dist.all_reduce(shared, how)
        return shared

    @contextmanager
    def together(self) -> Iterator[None]:
        """All ranks do this at once; it is said if one of them is no more."""
        try:
            yield
        except RuntimeError as error:
            if "gloo/" not in str(error) and not isinstance(error, dist.DistError):  # no connection was closed
                raise
            self.refuse("another rank of this run has ended; the same command goes on from the newest checkpoint")


ALONE = Ranks()


@contextmanager
def joined() -> Iterator[Ranks]:
    """The ranks that torchrun has started, if it has; a group that the caller has made is taken as it is."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size())
    elif count == 1:
        yield ALONE
    else:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        kinds = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        store, number, count = next(dist.rendezvous("env://", timeout=PATIENCE))
        if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
            # torchrun's own store outlives a rank that has died: what an earlier attempt has left in it is not read.
            # But several hosts count attempts differently: they need TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
            store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        dist.init_process_group(kinds, store=store, rank=number, world_size=count, timeout=PATIENCE)
        try:
            yield Ranks(dist.get_rank(), dist.get_world_size())
        finally:
            dist.destroy_process_group()
