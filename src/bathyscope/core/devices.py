"""What there is of devices: by which name, with how much memory, and how precisely they compute.

The one policy for precision, what is computed in which type, and where:

- Where double precision is needed and a device has none (MPS), the work goes to the CPU, on copies.
- TF32 and reductions in half precision are off wherever an error is claimed, as of an eigenvalue.
- Values of half precision (float16, bfloat16) are measured in float32 at least.
- Weights that are packed into integers (4 bits each) are left out of what is said of weights; a note says so.
- cuDNN's recurrent kernels have a backward pass in train mode only, and no second derivative.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError, in_a_line
from bathyscope.core.nested import map_tensors
from bathyscope.core.records import Measurement
from bathyscope.core.walks import named_parameters

Measure = TypeVar("Measure", bound=Callable[..., Any])


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


LARGE_VECTOR = 2**20
"""Bytes of a vector from which a basis of such lies on the host, not on a device: it takes dozens of them."""


def available_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device, what torch's allocator holds in reserve included."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + reserve
    if device.type == "mps":
        most, taken = torch.mps.recommended_max_memory(), torch.mps.current_allocated_memory()
        return int(most) - int(taken)
    accelerator: Any = torch.accelerator
    if device.type not in ("cpu", "meta") and hasattr(accelerator, "get_memory_info"):
        held = accelerator.memory_reserved(device) - accelerator.memory_allocated(device)
        return int(accelerator.get_memory_info(device)[0]) + int(held)
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            known = dict(line.split(":", 1) for line in lines)
        return int(known["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: count half of what the machine has
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def readable_size(num_bytes: int) -> str:
    """A size with a unit.

    Examples:
        >>> readable_size(3_500_000)
        '3.5 MB'
    """
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


_WITH_DOUBLE = ("cpu", "cuda", "xpu", "meta")


def has_double(device: torch.device) -> bool:
    """Whether a device can compute in double precision.

    Examples:
        >>> has_double(torch.device("cpu")), has_double(torch.device("mps"))
        (True, False)
    """
    if device.type in _WITH_DOUBLE:
        return True
    try:
        torch.empty(0, dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return False
    return True


def with_double(x: Tensor) -> Tensor:
    """The tensor, on the CPU where its own device has no double precision.

    Examples:
        >>> x = torch.ones(2)
        >>> with_double(x) is x
        True
    """
    return x if has_double(x.device) else x.cpu()


def is_packed(parameter: Tensor) -> bool:
    """Whether a parameter is not an array of numbers, but bytes that a layer unpacks (4-bit weights).

    Examples:
        >>> is_packed(torch.zeros(2, dtype=torch.uint8)), is_packed(torch.zeros(2))
        (True, False)
    """
    return not (parameter.is_floating_point() or parameter.is_complex())


def packed_note(names: Sequence[str]) -> str:
    """What is said of parameters that were left out, in one sentence."""
    named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"Packed weights, whose bytes only their layer can read, were left out ({named})."


def lacks_double(model: nn.Module) -> bool:
    """Whether the model lies on a device, or on one among several, without double precision."""
    return not all(map(has_double, {p.device for p in named_parameters(model).values()}))


def on_cpu(data: object) -> Any:
    """A batch, a list of batches or a loader, with every tensor copied to the CPU as it comes."""
    return on_device(data, torch.device("cpu"))


ON_A_COPY = (
    "The device has no double precision: this was measured on a copy of the model on the CPU."
)


def on_a_copy_without_double(measure: Measure) -> Measure:
    """A measurement of a model, mostly on a batch, made on the CPU where the model's device has no float64.

    The measurement that it returns, or each of several by name, says so in a note.
    """

    @functools.wraps(measure)
    def call(model: nn.Module, *args: object, **options: Any) -> object:
        if not isinstance(model, nn.Module) or not lacks_double(model):
            return measure(model, *args, **options)
        from bathyscope.core.stepping import copy_to_cpu  # which imports this file

        twin, stepper = copy_to_cpu(model, options.get("optimizer"))
        if stepper is not None:
            options["optimizer"] = stepper
        result = measure(twin, *map(on_cpu, args), **options)
        if isinstance(result, Mapping):
            return {name: _with_note(one) for name, one in result.items()}
        return _with_note(result)

    return cast(Measure, call)


def _with_note(one: object) -> object:
    if not isinstance(one, Measurement):
        return one
    return replace(one, notes=(*one.notes, ON_A_COPY))


@contextmanager
def exact_products() -> Iterator[None]:
    """Within, products of float32 matrices and convolutions keep all of their 24 bits.

    TF32 keeps 11, which moves an eigenvalue by far more than the residual that is reported with it.
    """
    backends: Any = torch.backends
    with ExitStack() as stack:
        for part in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn):
            if hasattr(part, "fp32_precision"):  # torch 2.9 and later
                stack.callback(_put_back, part, "fp32_precision", part.fp32_precision)
        half = "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"
        for name in half:
            stack.callback(
                _put_back, backends.cuda.matmul, name, getattr(backends.cuda.matmul, name)
            )
            setattr(backends.cuda.matmul, name, False)
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("highest")
        try:
            stack.callback(_put_back, backends.cudnn, "allow_tf32", backends.cudnn.allow_tf32)
            backends.cudnn.allow_tf32 = False
        except RuntimeError:  # set apart for convolutions and recurrent layers
            backends.cudnn.conv.fp32_precision = backends.cudnn.rnn.fp32_precision = "ieee"
        yield


def _put_back(owner: Any, name: str, value: object) -> None:
    setattr(owner, name, value)


def differentiable_rnns(model: nn.Module, *, twice: bool = False) -> AbstractContextManager[Any]:
    """Within, recurrent layers can be differentiated, in eval mode too; `twice` also a second time."""
    if not torch.backends.cudnn.is_available():  # asked in every step: the modules come after
        return nullcontext()
    rnns = [m for m in unwrap(model).modules() if isinstance(m, nn.RNNBase)]
    if not any(twice or not m.training for m in rnns):
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=False)
