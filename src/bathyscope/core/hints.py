"""What a newcomer most likely meant, said beside what went wrong: the common slips of shapes and types."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bathyscope.core.errors import UsageError
from bathyscope.core.nested import tensors_in

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_CHANNELS = (1, 3, 4)  # of images


def forward_hint(inputs: object, error: Exception) -> str:
    """What to change about the inputs, or the model, after the model has refused them; or nothing."""
    text = str(error)
    first = next(tensors_in(inputs), None)
    if "more than 1 value per channel" in text:
        return "BatchNorm in train mode needs more than one sample: pass a larger batch."
    if first is None:
        return ""
    if "indices" in text and "Long" in text and first.is_floating_point():
        return "Token ids are whole numbers: pass x.long()."
    if first.dtype == torch.uint8:
        return "The inputs are bytes: pass x.float() / 255."
    if first.dtype == torch.float64:
        return (
            "The inputs are float64: pass x.float(), or make the model double with model.double()."
        )
    if ("double" in text or "Double" in text) and first.is_floating_point():
        return "The model is float64: make it model.float(), or pass x.double()."
    if not first.is_floating_point() and "same dtype" in text:
        return "The inputs are whole numbers: pass x.float()."
    if "channels" in text and first.ndim == 4 and first.shape[-1] in _CHANNELS:
        return "The channels stand last: pass x.permute(0, 3, 1, 2)."
    if "mat1 and mat2" in text and first.ndim > 2:
        return "A linear layer reads the last axis alone: pass x.flatten(1), or begin with nn.Flatten()."
    return ""


def check_class_targets(output: object, targets: object) -> None:
    """Raise where targets cannot be what cross-entropy and its like take, though torch may compute a number.

    Raises:
        UsageError: what to do stands in it.
    """
    if isinstance(output, (tuple, list)) or hasattr(output, "logits"):
        part = "output.logits" if hasattr(output, "logits") else "output[0]"
        raise UsageError(
            f"The model puts out a {type(output).__name__}, from which the loss cannot be computed; "
            f"say where the logits are: loss=lambda output, y: F.cross_entropy({part}, y)."
        )
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return
    if output.ndim == 2 and output.shape[1] == 1:
        _check_one_output(targets)
    elif output.ndim == 1 and targets.ndim == 1 and targets.is_floating_point():
        _check_flat_output(targets)
    elif targets.is_floating_point() and output.ndim == targets.ndim + 1:
        _check_float_labels(targets)
    elif targets.ndim == output.ndim and targets.dtype not in _FLOATS:
        _check_extra_axis(output, targets)


def _check_one_output(targets: Tensor) -> None:
    if targets.is_floating_point():
        raise UsageError(
            "Cross-entropy of a single output is always 0, and the targets are numbers, not classes; "
            'did you mean loss="mse" (F.mse_loss)?'
        )
    if targets.numel() and int(targets.max()) == 1:
        raise UsageError(
            "Cross-entropy of a single output is always 0; for two classes give the model two outputs, "
            'or pass float targets of shape (n, 1) with loss="bce".'
        )


def _check_flat_output(targets: Tensor) -> None:
    """Cross-entropy takes both for the logits and the class probabilities of one sample."""
    if bool((targets >= 0).all()) and abs(float(targets.sum()) - 1) < 1e-3:
        return
    meant = "bce" if bool(((targets == 0) | (targets == 1)).all()) else "mse"
    raise UsageError(
        "The model puts out one number for each sample, which cross-entropy would take for the logits of "
        f'one sample; did you mean loss="{meant}"?'
    )


def _check_float_labels(targets: Tensor) -> None:
    if bool((targets == targets.round()).all()):
        raise UsageError(
            f"Class labels are whole numbers, but the targets are {targets.dtype}; pass y.long()."
        )
    raise UsageError(
        "The targets are numbers, not classes, and cross-entropy cannot take them; "
        'did you mean loss="mse" (F.mse_loss)?'
    )


def _check_extra_axis(output: Tensor, targets: Tensor) -> None:
    if targets.shape[1:] == (1,) and output.ndim == 2:
        raise UsageError(
            f"Class labels have one axis less than the output, but the targets have shape "
            f"{tuple(targets.shape)}; pass y.squeeze(1)."
        )
    if targets.shape == output.shape:
        raise UsageError(
            "The targets are one-hot whole numbers; pass the classes, y.argmax(1), or y.float() for "
            "probabilities."
        )


def label_range_sentence(known: Tensor, classes: int) -> str:
    """What is wrong with class labels outside of the output's classes, and what to do."""
    low, high = int(known.min()), int(known.max())
    one_based = " (they seem to begin at 1: subtract 1)" if (low, high) == (1, classes) else ""
    return (
        f"Labels run from {low} to {high}, but the model has {classes} outputs; labels must lie "
        f"in 0 to {classes - 1}{one_based}."
    )


def loss_hint(
    output: object, targets: object, error: Exception, loss: Callable[..., object]
) -> str:
    """What to change about the targets after a loss could not be computed; or nothing."""
    if _works_swapped(loss, output, targets):
        return "a loss takes the output first and the targets second: loss=lambda output, y: …"
    if not isinstance(error, (RuntimeError, ValueError, TypeError, AttributeError)):
        return ""  # a fault in the user's own function, not in what it was given
    return next(_loss_hints(output, targets), "")


def _works_swapped(loss: Callable[..., object], output: object, targets: object) -> bool:
    try:
        return isinstance(loss(targets, output), Tensor)
    except Exception:  # a user's own code may raise anything
        return False


def _loss_hints(output: object, targets: object) -> Iterator[str]:
    if hasattr(targets, "__array__") and not isinstance(targets, Tensor):
        yield "make the targets a tensor with torch.as_tensor(y)"
    if isinstance(targets, (list, tuple)) and any(isinstance(each, str) for each in targets):
        yield "number the classes, and pass the numbers as torch.tensor(y)"
    elif isinstance(targets, list):
        yield "make the targets a tensor with torch.tensor(y)"
    if hasattr(output, "logits"):
        yield "say where the logits are: loss=lambda output, y: …(output.logits, y)"
    if isinstance(output, (tuple, list)):
        yield "say where the predictions are: loss=lambda output, y: …(output[0], y)"
    if not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return
    if output.ndim and targets.ndim and len(output) != len(targets):
        yield (
            f"the output is of {len(output)} samples and there are {len(targets)} targets; pass the "
            "targets of the same samples"
        )
    if output.shape == targets.shape and not targets.is_floating_point():
        yield "this loss takes float targets: pass y.float()"
    if output.ndim == targets.ndim + 1 and output.shape[-1] == 1:
        yield "the output has one more axis than the targets: pass y.unsqueeze(1)"
