"""What is everyone's in a process while something is measured: threads, autocast and random numbers.

One thread measures at a time, and those that torch starts itself belong to the one that does: the backward
pass on an accelerator runs on one for each device. Autocast is on in the passes of the user's model, and off
where something is computed of them. Random numbers are put back, seeded, and drawn the same on every device.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.snapshot import GENERATORS, Restore, snapshot


def on_device_thread() -> bool:
    """Whether Python did not start the thread that runs: hooks of a device's backward pass then run on it."""
    return isinstance(threading.current_thread(), threading._DummyThread)


_lock = threading.RLock()
_inside = threading.local()
_threads_inside: list[int] = []
_is_initialized: Callable[[], bool] = torch.cuda.is_initialized


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Inside, other threads that measure wait; also a decorator.

    Hooks, modes, `.grad` and the random numbers are everyone's: a second thread would take what the
    first has changed for the user's own, and put that back. A backward pass on an accelerator runs on
    threads of torch's own, for which the first one waits: a hook there does not wait for it in turn.
    """
    others = _threads_inside and threading.get_ident() not in _threads_inside
    if others and on_device_thread():
        yield
        return
    with _lock:
        yield


def is_measuring() -> bool:
    """Whether this thread is inside `measuring`: a pass then belongs to a measurement, no training.

    So does the backward pass that torch runs on a device's thread while any thread is inside. A pass
    that CUDA captures for a graph is not training either: nothing may be read from it.
    """
    if _is_initialized() and torch.cuda.is_current_stream_capturing():
        return True
    if not _threads_inside:  # asked a dozen times in every step that is watched: this comes first
        return False
    return getattr(_inside, "depth", 0) > 0 or on_device_thread()


@contextmanager
def measuring() -> Iterator[None]:
    """Mark the passes inside as a measurement's, for whoever watches the training of the same model."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    _threads_inside.append(threading.get_ident())
    try:
        with autocast_in_passes_alone():
            yield
    finally:
        _inside.depth -= 1
        _threads_inside.remove(threading.get_ident())


_in_passes: ContextVar[tuple[tuple[str, torch.dtype], ...]] = ContextVar("autocast", default=())

no_autocast = torch._C._DisableAutocast
"""Within, nothing is cast: what hooks compute in the middle of a pass that is."""


@contextmanager
def autocast_in_passes_alone() -> Iterator[None]:
    """Within, autocast that was on is on in `users_autocast` alone; also a decorator.

    Norms, Gram matrices and eigenvalues would otherwise be computed in half precision.

    Examples:
        >>> x = torch.ones(2, 2)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16), autocast_in_passes_alone():
        ...     alone = (x @ x).dtype
        ...     with users_autocast():
        ...         print(alone, (x @ x).dtype)
        torch.float32 torch.bfloat16
    """
    enabled = _enabled()
    if not enabled:
        yield
        return
    token = _in_passes.set(enabled)
    try:
        with no_autocast():
            yield
    finally:
        _in_passes.reset(token)


@contextmanager
def autocast_nowhere() -> Iterator[None]:
    """Within, passes are not cast either: an error is claimed for what is computed of them."""
    token = _in_passes.set(())
    try:
        with no_autocast():
            yield
    finally:
        _in_passes.reset(token)


def users_autocast() -> AbstractContextManager[object]:
    """Around a pass of the user's model, or their loss: autocast as it was when they called."""
    enabled = _in_passes.get()
    if not enabled:
        return nullcontext()
    stack = ExitStack()
    for device, dtype in enabled:
        stack.enter_context(torch.autocast(device, dtype=dtype))
    return stack


def _enabled() -> tuple[tuple[str, torch.dtype], ...]:
    if not torch._C._is_any_autocast_enabled():
        return ()
    accelerator = torch.accelerator.current_accelerator()
    devices = {"cpu", "cuda", "cpu" if accelerator is None else accelerator.type}
    return tuple((d, torch.get_autocast_dtype(d)) for d in devices if torch.is_autocast_enabled(d))


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
