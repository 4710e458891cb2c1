"""The one policy for precision: what is computed in which type, and where.

- Where double precision is needed and a device has none (MPS), the work goes to the CPU, on copies.
- TF32 and reductions in half precision are off wherever an error is claimed, as of an eigenvalue.
- Values of half precision (float16, bfloat16) are measured in float32 at least.
- Weights that are packed into integers (4 bits each) are left out of what is said of weights; a note says so.
- cuDNN's recurrent kernels have a backward pass in train mode only, and no second derivative.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.devices import on_device

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
    """Whether a parameter is no array of numbers, but bytes that a layer unpacks (4-bit weights).

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
    return not all(map(has_double, {p.device for p in model.parameters()}))


def on_cpu(data: object) -> Any:
    """A batch, a list of batches or a loader, with every tensor copied to the CPU as it comes."""
    return on_device(data, torch.device("cpu"))


ON_A_COPY = (
    "The device has no double precision: this was measured on a copy of the model on the CPU."
)


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
