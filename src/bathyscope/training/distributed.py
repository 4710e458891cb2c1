"""The processes that share a run: each takes its part of every batch, gradients are summed.

The gradient of the mean loss over a batch of n samples, of which process r holds n_r, is
Σ_r (n_r / n) ∇ mean_r: parts of unequal size are weighted, so that the result is that of one process
with the whole batch. Gradients travel as one flat tensor a dtype after the backward pass.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bathyscope.core.errors import UsageError, shorten
from bathyscope.core.processes import describe_lost_peer

# What torch's `env://` reads beside WORLD_SIZE.
_OF_LAUNCHER = ("RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Group:
    """The processes of a run; one alone by default, where every method is free of cost."""

    rank: int = 0
    size: int = 1

    def part(self, num_samples: int) -> slice:
        """The rows of a batch that belong to this process; the parts differ by one at most.

        Examples:
            >>> [Group(rank, 3).part(8) for rank in range(3)]
            [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
        """
        bounds = [num_samples * r // self.size for r in (self.rank, self.rank + 1)]
        return slice(*bounds)

    def sum_(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over the processes."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def largest(self, value: int) -> int:
        """The largest of the processes' values: what one wants, all do."""
        if self.size == 1:
            return value
        tensor = torch.tensor(value, device=_device())
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return int(tensor)

    def sum_gradients_(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes; an absent one counts as zero."""
        if self.size == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._exchange([p.grad for p in trained if p.grad is not None], dist.all_reduce)

    def copy_from_first_(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's values, as for the running statistics of BatchNorm."""
        if self.size > 1:
            self._exchange(list(tensors), lambda flat: dist.broadcast(flat, src=0))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensor of every process, which has the same shape everywhere."""
        if self.size == 1:
            return [tensor]
        mine = tensor.to(_device())
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(parts, mine)
        return [part.to(tensor.device) for part in parts]

    def wait(self) -> None:
        """Until every process has come here."""
        if self.size > 1:
            dist.barrier()

    @staticmethod
    def _exchange(tensors: list[Tensor], exchange: Callable[[Tensor], object]) -> None:
        with torch.no_grad():
            for dtype in sorted({t.dtype for t in tensors}, key=str):
                alike = [t for t in tensors if t.dtype == dtype]
                flat = torch.cat([t.reshape(-1) for t in alike])
                exchange(flat)
                for tensor, values in zip(
                    alike, flat.split([t.numel() for t in alike]), strict=True
                ):
                    tensor.copy_(values.view_as(tensor))


def _device() -> str:
    """Where the backend can exchange: nccl knows GPUs only."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def launched_size() -> int:
    """How many processes a launcher such as torchrun says that there are; 1 without one.

    Raises:
        UsageError: `WORLD_SIZE` is not a number of processes, or stands there without the other
            variables by which the processes find each other, for which torch would wait forever.
    """
    given = os.environ.get("WORLD_SIZE", "1")
    if not (given.isascii() and given.isdecimal() and int(given) > 0):
        raise UsageError(
            f"The environment variable WORLD_SIZE is {shorten(given)}, not a number of processes; unset "
            "it, or start the processes with torchrun."
        )
    missing = [name for name in _OF_LAUNCHER if name not in os.environ]
    if int(given) > 1 and missing and not dist.is_initialized():
        raise UsageError(
            f"The environment variable WORLD_SIZE is {given}, but {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set, so the processes cannot find each other; "
            "unset WORLD_SIZE, or start the processes with torchrun."
        )
    return int(given)


@contextmanager
def launched_group() -> Iterator[Group]:
    """The group that a launcher such as torchrun started this process in; alone without one.

    A group that is there already, as after `lightning.fabric.Fabric(...).launch()`, is used and left
    open. Otherwise nccl where every process has a GPU of its own, gloo
    elsewhere.
    """
    size = launched_size()
    if size == 1 or dist.is_initialized():
        rank = dist.get_rank() if dist.is_initialized() else 0
        yield Group(rank, dist.get_world_size() if dist.is_initialized() else 1)
        return
    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= size
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        with describe_lost_peer("the work"):
            yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
