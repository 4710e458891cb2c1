"""Threads: one measures at a time, and those that torch starts itself belong to the one that does.

The backward pass on an accelerator runs on one for each device.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from bathyscope.core.forward import autocast_in_passes_alone


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
    that CUDA captures for a graph is no training either: nothing may be read from it.
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
