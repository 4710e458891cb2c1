"""The processes that hold one model together: they agree on what is asked, and share their batches.

A model that `DistributedDataParallel` or `fully_shard` has prepared is measured by all processes at
once, each with its own part of the batch. The inputs are small beside what a pass makes of them, so
they are put together, and every process measures the whole batch: statistics of BatchNorm, Gram
matrices over pairs of samples and losses of any form are then those of one process, to the last bit.
"""

import base64
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from bathyscope.core.batch import Batch
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.global_state import preserve_random_state
from bathyscope.core.json_values import JsonObject
from bathyscope.core.nested import map_tensors, tensors_in
from bathyscope.core.walks import is_sharded

PATIENCE = 45.0
"""Seconds that a process waits for the others to ask for the same."""

_LOST = ("closed by peer", "reset by peer", "Broken pipe", "Socket Timeout", "recvValue failed")
_asked = itertools.count()
_joined = itertools.count()


@dataclass(frozen=True, slots=True)
class Processes:
    """The group of processes that measure one model; `rank` is this one's place in it."""

    rank: int
    size: int
    group: dist.ProcessGroup | None = None

    def gather_rows(self, tensor: Tensor) -> Tensor:
        """The rows of every process in the order of the ranks; parts may differ in length."""
        counts = [torch.zeros(1, dtype=torch.long, device=tensor.device) for _ in range(self.size)]
        mine = torch.tensor([len(tensor)], device=tensor.device)
        dist.all_gather(counts, mine, group=self.group)
        longest = max(int(count) for count in counts)
        padded = tensor.new_zeros(longest, *tensor.shape[1:])
        padded[: len(tensor)] = tensor.detach()
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        # gloo knows no bool
        as_bytes = padded.dtype == torch.bool
        sent = padded.to(torch.uint8) if as_bytes else padded
        parts = [part.to(torch.uint8) if as_bytes else part for part in parts]
        dist.all_gather(parts, sent.contiguous(), group=self.group)
        rows = torch.cat([p[: int(count)] for p, count in zip(parts, counts, strict=True)])
        return rows.to(padded.dtype)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over the processes, as a new tensor."""
        total = tensor.detach().clone().contiguous()
        dist.all_reduce(total, group=self.group)
        return total

    def minimum(self, value: int) -> int:
        """The smallest of the processes' values."""
        tensor = torch.tensor(value, device="cpu")
        if dist.get_backend() == "nccl":
            tensor = tensor.cuda()
        dist.all_reduce(tensor, op=dist.ReduceOp.MIN, group=self.group)
        return int(tensor)


def is_distributed() -> bool:
    """Whether this process belongs to a group of several."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_first_process() -> bool:
    """Whether this is the one that writes: the only one, or that of rank 0."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def waits_for_others(model: nn.Module) -> bool:
    """Whether a pass of this process alone would wait for the others."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    return is_sharded(model) or any(isinstance(m, nn.SyncBatchNorm) for m in model.modules())


def processes_of(model: nn.Module) -> Processes | None:
    """The group that holds a model together; None for a model that is this process's own."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    inner = getattr(model, "_orig_mod", model)
    wrapped = any(isinstance(m, nn.parallel.DistributedDataParallel) for m in (model, inner))
    # pieces are put together even where one process has all of them: they are not plain tensors
    if not (wrapped and is_distributed()) and not is_sharded(unwrap(model)):
        return None
    return Processes(dist.get_rank(), dist.get_world_size())


@contextmanager
def share_batches(model: nn.Module, batches: list[Batch], *, what: str) -> Iterator[list[Batch]]:
    """Within, every process has the whole batches and the random numbers of the first.

    Batches that are the same everywhere are left as they are. A model of this process alone, too.

    Args:
        model: as the user gave it; wrapped or sharded, it is measured by all processes.
        batches: checked, of this process.
        what: the function that was called, for messages.

    Raises:
        UsageError: the processes ask for different things, or have different models.
        BathyscopeError: a process has ended or does not answer.
    """
    group = processes_of(model)
    if group is None:
        yield batches
        return
    with describe_lost_peer(what), preserve_random_state():
        result = _meet(group, _own_text(model, batches, what))
        torch.set_rng_state(_rng_in(result[0]["rng"]))
        alike = all(text["batches"] == result[0]["batches"] for text in result)
        yield batches if alike else [_whole(group, batch) for batch in batches]


def agree(model: nn.Module, *, what: str) -> None:
    """Wait until every process asks for the same of the same model; a model of one's own is free.

    Raises:
        UsageError: the processes ask for different things, or have different models.
        BathyscopeError: a process has ended or does not answer.
    """
    with share_batches(model, [], what=what):
        pass


def join_if_all_come(model: nn.Module, *, seconds: float = 20.0) -> Processes | None:
    """A group of its own for the processes of a model, if all of them come here in time.

    Where one does not, all continue alone: one word in the store, written by whoever is first, decides.
    What waits in the group for a process that has left ends after a minute with an error.
    """
    result = processes_of(model)
    if result is None:
        return None
    store = dist.distributed_c10d._get_default_store()
    location = f"bathyscope/join/{next(_joined)}"
    store.set(f"{location}/{result.rank}", "here")
    awaited = (
        [f"{location}/{rank}" for rank in range(result.size)] if result.rank == 0 else [location]
    )
    try:
        store.wait(awaited, timedelta(seconds=seconds + 5 * (result.rank > 0)))
        word = "together"
    except RuntimeError:
        word = "alone"
    if result.rank == 0 or word == "alone":
        store.compare_set(location, "", word)
    if store.get(location) != b"together":
        return None
    group = dist.new_group(timeout=timedelta(minutes=1))
    return Processes(result.rank, result.size, group)


@contextmanager
def describe_lost_peer(what: str) -> Iterator[None]:
    """Within, the error of a connection that breaks becomes a sentence.

    Raises:
        BathyscopeError: another process of the group has ended.
    """
    try:
        yield
    except Exception as error:
        if not _is_lost_peer(error):
            raise
        raise BathyscopeError(
            f"Another process of the group ended while {what} was running (its connection broke): "
            "look at what that process said, and start all of them again."
        ) from error


def _is_lost_peer(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, RuntimeError) and any(word in str(error) for word in _LOST):
            return True
        error = error.__cause__ or error.__context__
    return False


def _own_text(model: nn.Module, batches: list[Batch], what: str) -> JsonObject:
    """What this process asks for, in plain values that the others can compare with theirs."""
    inner = unwrap(model)
    return {
        "what": what,
        "mode": [module.training for module in inner.modules()],
        "model": {n: _digest_of(p) for n, p in inner.named_parameters()},
        "number": len(batches),
        "shapes": [[list(t.shape[1:]) for t in tensors_in(batch)] for batch in batches],
        "batches": [[_bytes_digest(t) for t in tensors_in(batch)] for batch in batches],
        "rng": base64.b64encode(torch.get_rng_state().numpy().tobytes()).decode(),
    }


def _digest_of(parameter: Tensor) -> str:
    """Shape, dtype and, of a parameter that every process has whole, the sum of its values."""
    shape = f"{tuple(parameter.shape)} {str(parameter.dtype).removeprefix('torch.')}"
    if hasattr(parameter, "placements"):
        return shape
    return f"{shape} {float(parameter.detach().double().sum()):.12g}"


def _bytes_digest(tensor: Tensor) -> str:
    plain = tensor.detach().cpu().contiguous()
    plain = plain.flatten().view(torch.uint8) if plain.numel() else plain
    return hashlib.sha1(plain.numpy().tobytes(), usedforsecurity=False).hexdigest()


def _rng_in(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype=np.uint8).copy())


def _meet(group: Processes, text: JsonObject) -> list[JsonObject]:
    """The words of every process, once all have come here; compared with those of the first."""
    store = dist.distributed_c10d._get_default_store()
    number = next(_asked)
    keys = [f"bathyscope/{number}/{rank}" for rank in range(group.size)]
    store.set(keys[group.rank], json.dumps(text))
    for rank, key in enumerate(keys):
        try:
            store.wait([key], timedelta(seconds=PATIENCE))
        except RuntimeError as error:
            raise BathyscopeError(
                f"Process {rank} has not called {text['what']} within {PATIENCE:.0f} seconds of "
                f"process {group.rank}: call it in every process of the group, or pass the module "
                "inside the wrapper to measure in one process alone."
            ) from error
    result = [json.loads(store.get(key)) for key in keys]
    if number > 1:  # everyone has read what was said two meetings ago
        store.delete_key(f"bathyscope/{number - 2}/{group.rank}")
    for rank, theirs in enumerate(result):
        _check_alike(result[0], theirs, rank)
    return result


def _check_alike(first: JsonObject, other: JsonObject, rank: int) -> None:
    def differs(what: str) -> UsageError:
        return UsageError(f"The processes disagree: {what}. All must ask for the same.")

    if other["what"] != first["what"]:
        raise differs(f"process 0 calls {first['what']}, process {rank} {other['what']}")
    names = [n for n in {**first["model"], **other["model"]}
             if first["model"].get(n) != other["model"].get(n)]  # fmt: skip
    if names:
        mine, theirs = (_describe_parameter(w["model"].get(names[0])) for w in (first, other))
        more = f" ({len(names)} parameters differ)" if len(names) > 1 else ""
        raise differs(
            f"{names[0]} of the model is {mine} in process 0 and {theirs} in process {rank}{more}"
        )
    if other["mode"] != first["mode"]:
        raise differs(f"the model's modules are not in the same mode in processes 0 and {rank}")
    if other["number"] != first["number"]:
        raise differs(f"process 0 gave {first['number']} batches, process {rank} {other['number']}")
    if other["shapes"] != first["shapes"]:
        raise differs(f"samples have other shapes in process {rank} than in process 0")


def _describe_parameter(digest: str | None) -> str:
    if digest is None:
        return "absent"
    shape, _, rest = digest.partition(")")
    dtype, _, total = rest.strip().partition(" ")
    return f"{dtype} of shape {shape})" + (f" with sum {total}" if total else "")


def _whole(group: Processes, batch: Batch) -> Batch:
    """The samples of all processes; tensors without samples stay as they are."""
    samples = next(len(t) for t in tensors_in(batch[0]))

    def gather(tensor: Tensor) -> Tensor:
        if tensor.ndim and len(tensor) == samples:
            return group.gather_rows(tensor)
        return tensor

    inputs, targets = (map_tensors(part, gather) for part in batch)
    return inputs, targets


def common_batches(group: Processes, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The whole batches of a stream, one after the other, as long as every process has one."""
    own = iter(batches)
    while True:
        batch = next(own, None)
        if not group.minimum(int(batch is not None)):
            return
        assert batch is not None
        yield _whole(group, batch)
