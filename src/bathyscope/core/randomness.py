"""Random numbers that are everyone's: put back, seeded, and drawn the same on every device."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.snapshot import GENERATORS, Restore, snapshot


@dataclass(frozen=True, slots=True)
class RngState:
    """The state of torch's, numpy's and Python's global random numbers."""

    cpu: Tensor
    devices: list[Tensor]
    numpy: Any
    python: Any

    @classmethod
    def now(cls) -> "RngState":
        """As it is."""
        numpy = np.random.get_state()  # noqa: NPY002
        return cls(torch.get_rng_state(), _device_states(), numpy, random.getstate())

    def restore(self) -> None:
        """Put it back."""
        torch.set_rng_state(self.cpu)
        module = _accelerator()
        if module is not None:
            for index, state in enumerate(self.devices):
                module.set_rng_state(state, *_place(module, index))
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)


def _accelerator() -> Any:
    """The module of torch for the accelerator that is in use, as `torch.cuda`; None without one."""
    device = torch.accelerator.current_accelerator()
    if device is None:
        return None
    module = torch.get_device_module(device)
    # before its first use CUDA has no state, and asking for one would start it
    is_ready = getattr(module, "is_initialized", None) or getattr(module, "is_available", None)
    return module if is_ready is None or is_ready() else None


def _device_states() -> list[Tensor]:
    module = _accelerator()
    if module is None:
        return []
    return [module.get_rng_state(*_place(module, i)) for i in range(module.device_count())]


def _place(module: Any, index: int) -> tuple[int, ...]:
    """Which device; Apple's has no number."""
    return () if module.__name__ == "torch.mps" else (index,)


def seed_generators(seed: int) -> None:
    """Seed torch's global random numbers, as `torch.manual_seed` does.

    Where no accelerator is in use, that spends most of its time on noting down a call for one that may
    come.
    """
    torch.default_generator.manual_seed(seed)
    module = _accelerator()
    if module is not None:
        getattr(module, "manual_seed_all", module.manual_seed)(seed)


def fill_normal_(tensor: Tensor, std: float, generator: torch.Generator | None) -> None:
    """Draw a tensor from N(0, std²), on the generator's device: a seed means the same on every other."""
    if generator is None or generator.device == tensor.device:
        tensor.normal_(0, std, generator=generator)
        return
    drawn = torch.empty(tensor.shape, dtype=tensor.dtype, device=generator.device)
    tensor.copy_(drawn.normal_(0, std, generator=generator))


@contextmanager
def preserve_random_state(*holders: object) -> Iterator[None]:
    """Put the global random numbers back on the way out; also a decorator.

    Args:
        holders: objects whose own generators are put back too, as those of a loader and its samplers.
    """
    states: list[Restore] = [RngState.now().restore]
    for holder in holders:
        states += _generators_of(holder, depth=3)
    try:
        yield
    finally:
        for restore in reversed(states):
            restore()


def _generators_of(holder: object, *, depth: int) -> Iterator[Restore]:
    """The random generators that an object holds, or that what it samples from holds."""
    own = getattr(holder, "__dict__", {})
    for name, value in own.items():
        if isinstance(value, GENERATORS):
            restore = snapshot(value, set())
            if restore is not None:
                yield restore
        elif depth and name in ("sampler", "batch_sampler", "dataset"):
            yield from _generators_of(value, depth=depth - 1)
