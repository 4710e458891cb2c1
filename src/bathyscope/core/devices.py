"""A device by name, and what goes there: one sentence where there is no such device."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.nested import map_tensors


def check_device(name: Any) -> torch.device:
    """The device of that name.

    Raises:
        UsageError: there is no such device here, or tensors on it have no values.

    Examples:
        >>> check_device("cpu")
        device(type='cpu')
        >>> check_device("gpu")
        Traceback (most recent call last):
        ...
        bathyscope.core.errors.UsageError: There is no device 'gpu' here; there is cpu.
    """
    try:
        device: torch.device = torch.device(name)
        if device.type == "meta":
            raise UsageError("On the meta device tensors have no values; name one that computes.")
        torch.empty(0, device=device)
    except UsageError:
        raise
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        known = _known_devices()
        there = f"there is {known[0]}" if len(known) == 1 else f"there are {', '.join(known)}"
        reason = f" ({in_a_line(error)})" if len(known) > 1 else ""
        raise UsageError(f"There is no device {str(name)!r} here{reason}; {there}.") from error
    return device


def _known_devices() -> list[str]:
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or not torch.accelerator.is_available():
        return ["cpu"]
    count = torch.accelerator.device_count()
    return ["cpu", *(f"{accelerator.type}:{i}" for i in range(count))]


@contextmanager
def tensors_on_cpu() -> Iterator[None]:
    """Within, tensors are made on the CPU, whatever `torch.set_default_device` says; also a decorator.

    Where they are anyway there is no context: torch would ask it at every operation, which doubles the
    time of a small fit.
    """
    if torch.get_default_device().type == "cpu":
        yield
        return
    with torch.device("cpu"):
        yield


def on_device(data: object, device: torch.device) -> Any:
    """A batch, a list of batches or a loader, with every tensor copied to a device as it comes."""
    if isinstance(data, (Tensor, tuple, Mapping)):
        return map_tensors(data, lambda tensor: tensor.to(device))
    if isinstance(data, list):
        return [on_device(part, device) for part in data]
    return _MovedLoader(data, device) if isinstance(data, Iterable) else data


class _MovedLoader:
    def __init__(self, loader: Iterable[object], device: torch.device) -> None:
        self.loader, self.device = loader, device

    def __iter__(self) -> Iterator[object]:
        return (on_device(part, self.device) for part in self.loader)
