"""A model in shards, put together: a copy of plain tensors, for what shards cannot answer."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import available_bytes, readable_size
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.module_state import HOOK_TABLES
from bathyscope.core.processes import agree, share_batches
from bathyscope.core.walks import FSDP, is_sharded, own_class, reshard, sharded_modules


def plain_tensor(tensor: Tensor) -> Tensor:
    """A tensor in shards as a whole one, had from all processes; any other as it is."""
    if not hasattr(tensor, "full_tensor"):
        return tensor
    whole: Tensor = tensor.full_tensor()
    return whole.detach()


@contextmanager
def put_together(
    model: nn.Module,
    batches: list[Batch],
    optimizer: torch.optim.Optimizer | None,
    *,
    what: str,
) -> Iterator[tuple[nn.Module, list[Batch], torch.optim.Optimizer | None]]:
    """Within, a model of several processes as one that each has whole, with the whole batches.

    A copy is made only of a model in shards: what DistributedDataParallel wraps is whole already.

    Raises:
        UsageError: the processes disagree on the model or on what is asked.
        BathyscopeError: a process has ended or does not answer, or the whole model does not fit.
    """
    with share_batches(model, batches, what=what) as whole:
        inner, stepper = gather_model(unwrap(model), optimizer)
        yield inner, whole, stepper


def gather_agreed(model: nn.Module, *, what: str) -> nn.Module:
    """A model of several processes as one that each has whole, once they agree on it."""
    agree(model, what=what)
    return gather_model(unwrap(model))[0]


def gather_model(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> tuple[nn.Module, torch.optim.Optimizer | None]:
    """A sharded model and its optimizer as copies that every process has whole; others as they are.

    `autograd.grad` and `deepcopy` do not know shards. Parameters come one after the other, so that
    beside the copy no more than one of them is held twice.

    Raises:
        BathyscopeError: the whole model does not fit in what memory is free.
    """
    inner = unwrap(model)
    if not is_sharded(inner):
        return model, optimizer
    _check_fits(inner)
    # the root stays whole after a pass without a way back
    reshard(sharded_modules(inner.modules()))
    memo: dict[int, object] = {}
    for parameter in inner.parameters():
        whole = nn.Parameter(plain_tensor(parameter), requires_grad=parameter.requires_grad)
        memo[id(parameter)] = whole
    for buffer in inner.buffers():
        if hasattr(buffer, "placements"):
            memo[id(buffer)] = plain_tensor(buffer)
    for module in inner.modules():
        for name, value in vars(module).items():
            if name.startswith("__composable_api"):  # where fully_shard keeps its own state
                memo[id(value)] = type(value)()
        for name in HOOK_TABLES:
            table = getattr(module, name, None)
            if isinstance(table, dict):
                kept = {k: hook for k, hook in table.items() if not _is_of_shards(hook)}
                memo[id(table)] = type(table)((k, copy.deepcopy(h, memo)) for k, h in kept.items())
    with _plain_classes(inner):
        whole_model = copy.deepcopy(inner, memo)
    if optimizer is None:
        return whole_model, None
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor) and hasattr(value, "placements"):
                memo[id(value)] = plain_tensor(value)
    return whole_model, copy.deepcopy(optimizer, memo)


_TENSOR_PARALLEL = "torch.distributed.tensor"
"""The package of `parallelize_module`, whose hooks cut inputs and outputs in pieces."""


def _is_of_shards(hook: object) -> bool:
    owner = getattr(hook, "__self__", None)
    home = type(owner).__module__ if owner is not None else getattr(hook, "__module__", "") or ""
    return home.startswith((FSDP, _TENSOR_PARALLEL))


@contextmanager
def _plain_classes(model: nn.Module) -> Iterator[None]:
    """Within, modules are of their own classes: those that `fully_shard` makes refuse to be copied."""
    changed = [(m, type(m)) for m in sharded_modules(model.modules())]
    try:
        for module, _ in changed:
            module.__class__ = own_class(module)
        yield
    finally:
        for module, kind in changed:
            module.__class__ = kind


def _check_fits(model: nn.Module) -> None:
    device = next(model.parameters()).device
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    free = available_bytes(device)
    if whole > free:
        raise BathyscopeError(
            f"Whole, the sharded model takes {readable_size(whole)} in every process, and "
            f"{readable_size(free)} are free: measure a smaller one, or on larger machines."
        )
