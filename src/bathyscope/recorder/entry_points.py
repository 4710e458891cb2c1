"""The functions of torch that a training loop calls, observed: wrapped for listeners and put back.

With the first listener each entry point is replaced by a wrapper that calls the original with the same
arguments and returns what it returns; with the last one all are put back. A wrapper that somebody else
has wrapped meanwhile stays where it is and does nothing but call the original.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, dataloader

from bathyscope.core.caller import user_line
from bathyscope.core.global_state import is_measuring

Wrapper = Callable[..., Any]


EVENTS = {
    "optimizer_made": "an optimizer was constructed: optimizer, line",
    "gradients_cleared": "`zero_grad` of an optimizer or a module was called: it, line",
    "before_backward": "a backward pass from some tensors is to begin: they, line",
    "after_backward": "it has ended: the tensors",
    "clipped": "gradients are to be clipped: parameters, limit, norm (None: by value), line",
    "loss_scaled": "a loss was multiplied by the scale: scaler, loss, scaled loss",
    "code_compiled": "`torch.compile` was called: module or function (None: as a decorator)",
    "unscaled": "gradients of an optimizer were divided by the scale: optimizer",
    "scaler_stepped": "the scaler has stepped an optimizer, or left the step out: optimizer",
    "scheduler_made": "a learning-rate scheduler was constructed: scheduler, line",
    "scheduler_stepped": "`step` of one that is in no other has returned: scheduler, arguments, line",
    "set_to_eval": "`module.eval()` was called: module, line",
    "before_load": "a state dict is to be loaded into a module: module, state dict, line",
    "after_load": "it was loaded: module, state dict, what `load_state_dict` has returned",
    "loader_made": "a data loader was constructed: loader, line",
    "loader_iterated": "a pass over a loader began: loader, iterator, line",
    "batch_loaded": "a loader has handed out a batch: iterator, batch",
    "optimizer_loaded": "a state dict was loaded into an optimizer: optimizer",
    "scheduler_loaded": "a state dict was loaded into a schedule: scheduler",
    "file_loaded": "`torch.load` has returned: contents, line",
    "seeded": "`torch.manual_seed` was called: seed, line",
    "random_state_set": "`torch.set_rng_state` was called",
    "reduced": "`torch.distributed.all_reduce` was called",
}
"""What may be reported of a loop: what has happened, and with what a handler is called.

The line is that of the user's code; at calls that come at every step None where nobody wants it.
"""


@runtime_checkable
class Listener(Protocol):
    """Who hears of a loop.

    Attributes:
        handlers: what is called, by names of `EVENTS`.
    """

    handlers: Mapping[str, Callable[..., None]]

    @property
    def wants_lines(self) -> bool:
        """Whether the line of a call that comes at every step is wanted now."""

    @property
    def awaits_backward(self) -> bool:
        """Whether the end of the backward pass under way is to be reported."""

    def failed(self, error: Exception) -> None:
        """A handler has raised; none of this listener is called again."""


_listeners: list[Listener] = []
_lock = threading.RLock()
_installed: list[tuple[Any, str, Any, bool, Wrapper]] = []
_depth = threading.local()


def listen(listener: Listener) -> Callable[[], None]:
    """Report a listener of every call of the entry points.

    Returns:
        What ends it; a second call does nothing.
    """
    assert listener.handlers.keys() <= EVENTS.keys()
    with _lock:
        if not _listeners:
            _install()
        _listeners.append(listener)

    def stop() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)
                if not _listeners:
                    _put_back()

    return stop


def _notify(event: str, *args: object) -> None:
    """Call the handlers of an event; where one raises, its listener learns of it and hears no more."""
    if torch.compiler.is_compiling() or is_measuring():
        return
    for listener in tuple(_listeners):
        try:
            if (handle := listener.handlers.get(event)) is not None:
                handle(*args)
        except Exception as error:
            with _lock:
                if listener in _listeners and len(_listeners) > 1:
                    _listeners.remove(listener)
            listener.failed(error)


def _line() -> str | None:
    """The line of the user's code, if any listener wants to know it; dynamo can trace no frames."""
    if torch.compiler.is_compiling():
        return None
    for listener in _listeners:
        if listener.wants_lines:
            return user_line()
    return None


def _is_outermost(name: str) -> bool:
    return int(getattr(_depth, name, 0)) == 0


class _Nested:
    """Counts calls of one kind that are inside of one another."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        setattr(_depth, self.name, getattr(_depth, self.name, 0) + 1)

    def __exit__(self, *exception: object) -> None:
        setattr(_depth, self.name, getattr(_depth, self.name) - 1)


def _install() -> None:
    for owner, name, make in _entry_points():
        own = vars(owner)
        is_own, original = name in own, getattr(owner, name)
        wrapper = functools.wraps(original)(make(original))
        setattr(owner, name, wrapper)
        _installed.append((owner, name, original, is_own, wrapper))


def _put_back() -> None:
    for owner, name, original, is_own, wrapper in reversed(_installed):
        if vars(owner).get(name) is not wrapper:
            continue  # somebody has wrapped it again: it calls the original, and shows nobody
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
    _installed.clear()


def _entry_points() -> Iterator[tuple[Any, str, Callable[[Wrapper], Wrapper]]]:
    yield torch.optim.Optimizer, "__init__", _constructor("optimizer_made")
    yield torch.optim.Optimizer, "zero_grad", _clearing
    yield nn.Module, "zero_grad", _clearing
    yield torch.autograd, "backward", _backward
    # what `clip_grad_norm_` calls: found also by code that has imported the function by name
    yield clip_grad, "_clip_grads_with_norm_", _clip_by_norm
    yield nn.utils, "clip_grad_value_", _clip_by_value
    yield torch.amp.GradScaler, "scale", _scale
    yield torch.amp.GradScaler, "unscale_", _unscale
    yield torch.amp.GradScaler, "step", _scaler_step
    for kind in _schedulers(LRScheduler):
        if "step" in vars(kind):
            yield kind, "step", _scheduler_step
        if "__init__" in vars(kind):
            yield kind, "__init__", _constructor("scheduler_made", outermost="scheduler")
        if "load_state_dict" in vars(kind):
            yield kind, "load_state_dict", _load_state("scheduler_loaded")
    yield torch, "compile", _compile
    yield nn.Module, "eval", _set_to_eval
    yield nn.Module, "load_state_dict", _load
    yield torch.optim.Optimizer, "load_state_dict", _load_state("optimizer_loaded")
    yield torch, "load", _load_file
    yield torch, "manual_seed", _seed
    yield torch, "set_rng_state", _set_rng_state
    if torch.distributed.is_available():
        yield torch.distributed, "all_reduce", _all_reduce
    yield DataLoader, "__init__", _constructor("loader_made")
    yield DataLoader, "__iter__", _iterate
    yield dataloader._BaseDataLoaderIter, "__next__", _next_batch


def _schedulers(kind: type) -> Iterator[type]:
    """A class and all that are derived from it, each once."""
    seen: set[type] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += one.__subclasses__()
            yield one


def _constructor(event: str, *, outermost: str = "") -> Callable[[Wrapper], Wrapper]:
    def make(original: Wrapper) -> Wrapper:
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            is_outermost = not outermost or _is_outermost(outermost)
            with _Nested(outermost or event):
                original(self, *args, **kwargs)
            if is_outermost:
                _notify(event, self, user_line())

        return construct

    return make


def _clearing(original: Wrapper) -> Wrapper:
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _notify("gradients_cleared", self, _line())

    return zero_grad


def _backward(original: Wrapper) -> Wrapper:
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
        # a re-entrant checkpoint calls it from inside of another backward pass
        if getattr(_depth, "backward", 0):
            original(tensors, *args, **kwargs)
            return
        _notify("before_backward", tensors, _line())
        _depth.backward = 1
        try:
            original(tensors, *args, **kwargs)
        finally:
            _depth.backward = 0
        if any(listener.awaits_backward for listener in _listeners):
            _notify("after_backward", tensors)

    return backward


def _clip_by_norm(original: Wrapper) -> Wrapper:
    def clip(parameters: Any, max_norm: float, total_norm: Any, *args: Any, **kwargs: Any) -> None:
        several = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        _notify("clipped", several, float(max_norm), total_norm, user_line())
        original(several, max_norm, total_norm, *args, **kwargs)

    return clip


def _clip_by_value(original: Wrapper) -> Wrapper:
    def clip_grad_value_(parameters: Any, clip_value: float, *args: Any, **kwargs: Any) -> None:
        several = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        _notify("clipped", several, float(clip_value), None, user_line())
        original(several, clip_value, *args, **kwargs)

    return clip_grad_value_


def _scale(original: Wrapper) -> Wrapper:
    def scale(self: torch.amp.GradScaler, outputs: Any) -> Any:
        scaled = original(self, outputs)
        if self.is_enabled():
            _notify("loss_scaled", self, outputs, scaled)
        return scaled

    return scale


def _unscale(original: Wrapper) -> Wrapper:
    def unscale_(self: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
        original(self, optimizer)
        _notify("unscaled", optimizer)

    return unscale_


def _scaler_step(original: Wrapper) -> Wrapper:
    def step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        result = original(self, optimizer, *args, **kwargs)
        _notify("scaler_stepped", optimizer)
        return result

    return step


def _scheduler_step(original: Wrapper) -> Wrapper:
    def step(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        is_outermost = _is_outermost("scheduler")
        with _Nested("scheduler"):
            original(self, *args, **kwargs)
        if is_outermost:
            _notify("scheduler_stepped", self, (*args, *kwargs.values()), user_line())

    return step


def _compile(original: Wrapper) -> Wrapper:
    def compile(*args: Any, **kwargs: Any) -> Any:
        _notify("code_compiled", args[0] if args else kwargs.get("model"))
        return original(*args, **kwargs)

    return compile


def _set_to_eval(original: Wrapper) -> Wrapper:
    def set_to_eval(self: nn.Module) -> nn.Module:
        _notify("set_to_eval", self, user_line())
        module: nn.Module = original(self)
        return module

    return set_to_eval


def _load(original: Wrapper) -> Wrapper:
    def load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        _notify("before_load", self, state_dict, user_line())
        result = original(self, state_dict, *args, **kwargs)
        _notify("after_load", self, state_dict, result)
        return result

    return load_state_dict


def _load_state(event: str) -> Callable[[Wrapper], Wrapper]:
    def make(original: Wrapper) -> Wrapper:
        def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            _notify(event, self)
            return result

        return load_state_dict

    return make


def _load_file(original: Wrapper) -> Wrapper:
    def load(*args: Any, **kwargs: Any) -> Any:
        contents = original(*args, **kwargs)
        _notify("file_loaded", contents, user_line())
        return contents

    return load


def _seed(original: Wrapper) -> Wrapper:
    def manual_seed(seed: Any) -> Any:
        _notify("seeded", seed, user_line())
        return original(seed)

    return manual_seed


def _set_rng_state(original: Wrapper) -> Wrapper:
    def set_rng_state(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _notify("random_state_set")

    return set_rng_state


def _all_reduce(original: Wrapper) -> Wrapper:
    def all_reduce(*args: Any, **kwargs: Any) -> Any:
        _notify("reduced")
        return original(*args, **kwargs)

    return all_reduce


def _iterate(original: Wrapper) -> Wrapper:
    def __iter__(self: "DataLoader[Any]") -> Any:
        iterator = original(self)
        _notify("loader_iterated", self, iterator, user_line())
        return iterator

    return __iter__


def _next_batch(original: Wrapper) -> Wrapper:
    def __next__(self: Any) -> Any:
        batch = original(self)
        _notify("batch_loaded", self, batch)
        return batch

    return __next__
