"""What a user hands in as a batch, a loss and a model, checked once at the edge."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn, strided
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from bathyscope.core.errors import BatchMisfit, BathyscopeError, UsageError, in_a_line, shorten
from bathyscope.core.fetch import near
from bathyscope.core.global_state import users_autocast
from bathyscope.core.hints import check_class_targets, forward_hint, label_range_sentence, loss_hint
from bathyscope.core.nested import class_axis, forward, tensors_in
from bathyscope.core.walks import once

Batch = tuple[Any, Any]
"""Inputs and targets. Inputs are a tensor, a tuple of positional or a mapping of named inputs."""

LossFn = Callable[[Any, Any], Tensor]
"""A scalar from the model's output and the targets."""


def check_batch(model: nn.Module, batch: object) -> Batch:
    """The batch as (inputs, targets), after the checks that need no forward pass.

    Raises:
        UsageError: the batch is not a pair, is empty, holds NaN or Inf, or lies on another device.
    """
    if isinstance(batch, Mapping):
        batch = (batch, None)
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise UsageError(
            f"A batch is a pair (inputs, targets), but a {type(batch).__name__}"
            f"{f' of {len(batch)}' if isinstance(batch, (tuple, list)) else ''} was given; "
            f"{_how_to_pass(batch)}."
        )
    inputs, targets = batch
    tensors = list(tensors_in(inputs))
    if not tensors:
        convertible = hasattr(inputs, "__array__") or isinstance(inputs, list)
        how = "a tensor (torch.as_tensor makes one)" if convertible else "a tensor"
        raise UsageError(
            f"The inputs hold no tensor, but {type(inputs).__name__}; pass {how}, a tuple or a "
            "mapping of tensors."
        )
    if any(t.ndim == 0 or t.shape[0] == 0 for t in tensors[:1]):
        raise UsageError(
            f"The batch is empty (inputs of shape {tuple(tensors[0].shape)}); pass at least one sample."
        )
    _check_devices(model, [*tensors, *tensors_in(targets)])
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise UsageError(
                f"An input of shape {tuple(tensor.shape)} is not dense ({tensor.layout}); make it a buffer "
                "of the model, or dense with to_dense()."
            )
        if tensor.is_floating_point() and not bool(torch.isfinite(near(tensor)).all()):
            bad = int((~torch.isfinite(tensor)).sum())
            raise UsageError(
                f"Of the {tensor.numel()} values of the inputs {bad} are NaN or infinite; "
                "clean the data before measuring."
            )
    return inputs, targets


def _how_to_pass(batch: object) -> str:
    """What to give in place of something that is not a pair."""
    if isinstance(batch, (tuple, list)):
        return "pass several inputs as ((a, b), targets)"
    if isinstance(batch, Iterable) and not isinstance(batch, (Tensor, str)):
        return "pass one batch: next(iter(loader))"
    return "pass (inputs, targets)"


def check_batches(model: nn.Module, batches: object, *, most: int | None = None) -> list[Batch]:
    """The first batches of a list, a loader or a generator, each checked.

    Raises:
        UsageError: there is none, or one of them cannot be used.
    """
    if not isinstance(batches, Iterable):
        raise UsageError(
            f"The batches are a list or a loader of pairs (inputs, targets), but a "
            f"{type(batches).__name__} was given."
        )
    if isinstance(batches, (tuple, list)) and any(isinstance(b, Tensor) for b in batches):
        raise UsageError(
            "The batches are a list or a loader of pairs (inputs, targets), but tensors stand in it; "
            "a single batch is given as [(inputs, targets)]."
        )
    result = [check_batch(model, batch) for batch in islice(read_all(batches), most)]
    if not result:
        raise UsageError("No batch was given: the list or loader is empty; give at least one.")
    return result


def read_all(loader: Iterable[object]) -> Iterator[object]:
    """The batches of a user's loader, or one sentence where it fails midway.

    Raises:
        UsageError: the loader raised.
    """
    try:
        yield from loader
    except BathyscopeError:
        raise
    except Exception as error:  # a user's own code may raise anything
        raise UsageError(
            f"The data could not be read: {in_a_line(error)}; mend the loader, or pass a batch."
        ) from error


def loss_value(
    loss: LossFn, output: object, targets: object, *, differentiable: bool = True
) -> Tensor:
    """The loss as a differentiable scalar; outputs that carry `.loss` are used where targets are None.

    Raises:
        UsageError: the loss could not be computed, is not a scalar, or carries no graph.
    """
    if targets is None and _own_loss_in(output) is not None:
        value = _own_loss_in(output)
    else:
        _check_loss(loss)
        if _takes_indices(loss):
            if not _are_class_targets(output, targets):
                check_class_targets(output, targets)
            check_labels(output, targets)
        try:
            with users_autocast():
                value = loss(output, targets)
        except BathyscopeError:
            raise
        except Exception as error:  # a user's own code may raise anything
            check_labels(output, targets)
            hint = loss_hint(output, targets, error, loss)
            raise UsageError(
                f"The loss could not be computed from an output {_shape_of(output)} and targets "
                f"{_shape_of(targets)}: {in_a_line(error)}{hint and f'; {hint}'}."
            ) from error
    if isinstance(value, (int, float)):
        raise UsageError(
            "The loss must be a scalar tensor, but it is a number; return the tensor itself, without "
            ".item()."
        )
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UsageError(
            f"The loss must be a scalar tensor, but it is {_shape_of(value)}; "
            "average it over the batch (reduction='mean')."
        )
    if differentiable and not value.requires_grad:
        raise UsageError(
            "The loss does not depend on any parameter that requires a gradient (computed under "
            "no_grad, or everything is frozen?); nothing can be differentiated. "
            "model.requires_grad_(True) trains everything."
        )
    return value.reshape(())


def _check_loss(loss: object) -> None:
    if isinstance(loss, type):
        raise UsageError(
            f"The loss is a function of output and targets, but the class {loss.__name__} was given; "
            f"pass an object of it: {loss.__name__}()."
        )
    if not callable(loss):
        raise UsageError(
            f"The loss is a function of output and targets, but {shorten(loss)} was given; pass the "
            "function itself: loss=F.cross_entropy."
        )


def run_forward(model: nn.Module, inputs: object) -> Any:
    """The model's output, or one sentence on why the model cannot take this batch."""
    with explain_forward_errors(inputs), _run_as_written(), users_autocast():
        return forward(model, inputs)


@contextmanager
def explain_forward_errors(inputs: object) -> Iterator[None]:
    """Turn what a model raises on a batch into one sentence.

    Raises:
        BatchMisfit: the model raised.
    """
    try:
        yield
    except BathyscopeError:
        raise
    except Exception as error:  # a user's own code may raise anything
        hint = forward_hint(inputs, error)
        raise BatchMisfit(
            f"The model cannot take a batch with inputs {_shape_of(inputs)}: "
            f"{in_a_line(error)}.{hint and f' {hint}'}"
        ) from error


def _run_as_written() -> AbstractContextManager[object]:
    """Within, compiled parts of a model run as they were written: tracing would swallow our hooks.

    Where the compiler has not been loaded nothing is compiled, and loading it takes seconds.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    result: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return result


def check_parameters(model: object, *, with_values: bool = True) -> None:
    """Raise where there is nothing to measure.

    Args:
        model: what the user gave.
        with_values: also ask for parameters that hold values (see `check_values`).

    Raises:
        UsageError: the model is not a module, has no parameters, or has none with values.
    """
    if isinstance(model, type):
        raise UsageError(
            f"The model is a torch.nn.Module, but the class {model.__name__} was given; pass an "
            f"object of it: {model.__name__}()."
        )
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"The model is a torch.nn.Module, but a {type(model).__name__} was given; "
            + _how_to_get_a_model(model)
        )
    if next(model.parameters(), None) is None:
        raise UsageError(
            f"The model ({type(model).__name__}) has no parameters; there is nothing to measure."
        )
    if with_values:
        once(model, check_values)


def _how_to_get_a_model(given: object) -> str:
    """What to give in place of something that is not a module."""
    if isinstance(given, list | tuple) and all(isinstance(each, nn.Module) for each in given):
        return "give one of them; each other one takes a call of its own."
    if isinstance(getattr(given, "model", None), nn.Module):
        return "give its .model, with the batches and the loss."
    if isinstance(given, torch.optim.Optimizer):
        return "give the model whose parameters it steps, as in watch(model)."
    return "`bathyscope.nets.build(name)` makes one from a name."


def _check_devices(model: nn.Module, tensors: list[Tensor]) -> None:
    first = next(model.parameters(), None)
    if first is None:
        return
    device = first.device
    apart = next((t.device for t in tensors if t.device != device), None)
    # a model over several devices carries its tensors over itself
    if apart is not None and all(p.device == device for p in model.parameters()):
        raise UsageError(f"The model is on {device} and the batch on {apart}; move one of them.")


def own_loss(output: object, targets: object) -> Tensor:
    """The loss that a model's output is or carries: as `.loss`, under that key, or a scalar that comes first.

    Raises:
        UsageError: it carries none.

    Examples:
        >>> own_loss((torch.tensor(0.5), torch.zeros(8, 3)), None)
        tensor(0.5000)
    """
    first = output[0] if isinstance(output, tuple) and output else output
    is_scalar = isinstance(first, Tensor) and not first.ndim
    result = first if is_scalar else _own_loss_in(output)
    if not isinstance(result, Tensor):
        raise UsageError(
            f"No loss was given, and the model's output ({type(output).__name__}) carries none; "
            "pass loss=, or a batch that makes the model return one (labels=...)."
        )
    return result


def _own_loss_in(output: object) -> object:
    return output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)


_INDEX_LOSSES = ("cross_entropy", "nll_loss", "multi_margin_loss")
_INDEX_MODULES = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)


def _takes_indices(loss: LossFn) -> bool:
    """Whether it is one of torch's losses on class indices, or a partial of one."""
    inner = getattr(loss, "func", loss)
    if isinstance(inner, nn.Module):
        return isinstance(inner, _INDEX_MODULES) and getattr(inner, "ignore_index", -100) == -100
    options = getattr(loss, "keywords", {})
    known = getattr(inner, "__module__", "") == "torch.nn.functional"
    return known and inner.__name__ in _INDEX_LOSSES and "ignore_index" not in options


def _are_class_targets(output: object, targets: object) -> bool:
    """Whether the targets are whole numbers with an axis less than an output of several classes."""
    return (
        isinstance(output, Tensor)
        and isinstance(targets, Tensor)
        and output.ndim == targets.ndim + 1
        and not targets.is_floating_point()
        and output.numel() > targets.numel()
    )


def check_labels(output: object, targets: object) -> None:
    """Class labels outside the output's classes crash deep inside a kernel: say it here.

    Raises:
        UsageError: there are such labels.
    """
    if (
        isinstance(output, Tensor)
        and isinstance(targets, Tensor)
        and not targets.is_floating_point()
        and not targets.is_complex()
        and targets.dtype != torch.bool
        and output.ndim == targets.ndim + 1
        and targets.numel()
    ):
        classes = output.shape[class_axis(output, targets)]
        # labels that training sees again and again are looked at once: an accelerator has to be waited for
        now = None if targets.is_inference() else (targets._version, classes)
        if now is not None and _checked_labels.get(targets) == now:
            return
        low, high = torch.stack(torch.where(targets == -100, 0, targets).aminmax()).tolist()
        if low < 0 or high >= classes:
            raise UsageError(label_range_sentence(targets[targets != -100], classes))
        if now is not None:
            _checked_labels[targets] = now


_checked_labels: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""The version of labels and the number of classes for which they were seen to fit."""


def _shape_of(value: object) -> str:
    if isinstance(value, Tensor):
        return f"of shape {tuple(value.shape)} ({value.dtype})"
    shapes = [str(tuple(t.shape)) for t in tensors_in(value)]
    return f"of type {type(value).__name__}" + (
        f" with shapes {', '.join(shapes)}" if shapes else ""
    )


def check_values(model: nn.Module) -> None:
    """Raise where a parameter or buffer has no values, or none that a graph can be built on.

    Raises:
        UsageError: a tensor that is lazy, on the meta device or made in inference mode, or a sparse
            parameter; a buffer may be sparse, as the edges of a graph are.
    """
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if why := _trouble(tensor):
            raise UsageError(f"{name} of the model {why}.")
    if not any(p.numel() for p in model.parameters()):
        raise UsageError(
            f"All parameters of the model ({type(model).__name__}) are empty; there is nothing to "
            "measure."
        )


def _trouble(tensor: Tensor) -> str:
    if is_lazy(tensor):
        return "has no values yet (a lazy layer); run one batch through the model first"
    if tensor.is_meta:
        return "has no values (it is on the meta device); move it with to_empty() and load weights"
    if tensor.is_inference():
        return (
            "was made in inference mode, where nothing can be differentiated; make the model outside "
            "of torch.inference_mode(), or clone its parameters there"
        )
    if tensor.layout is not strided and isinstance(tensor, nn.Parameter):
        return f"is sparse ({tensor.layout}); make it dense with to_dense()"
    return ""
