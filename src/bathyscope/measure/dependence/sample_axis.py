"""Which axis of the inputs counts the samples: the first, unless targets or shifted tokens say otherwise."""

import torch
from torch import Tensor, nn

from bathyscope.measure.dependence.input_roles import named_inputs

_SHIFTED = 0.9
"""Fraction of targets that equal the next token along an axis, from which that axis is the time."""


def sample_axis(inputs: object, targets: object) -> int:
    """0, or 1 where the inputs are (time, samples, …): one target for each entry of the second axis.

    Examples:
        >>> sample_axis(torch.zeros(20, 8, 3), torch.zeros(8))
        1
    """
    known = named_inputs(inputs)
    main = next((one.tensor for one in known if one.role in ("tokens", "values")), None)
    if main is None or main.ndim < 2 or not isinstance(targets, Tensor) or not targets.ndim:
        return 0
    if len(targets) != main.shape[0] and len(targets) == main.shape[1] and targets.ndim < main.ndim:
        return 1
    along_first, along_second = (next_along(main, targets, axis) for axis in (0, 1))
    return 1 if along_first > _SHIFTED and along_second < _SHIFTED / 2 else 0


def next_along(tokens: Tensor, targets: Tensor, axis: int) -> float:
    """Fraction of targets that equal the token after theirs along an axis."""
    if tokens.is_floating_point() or tokens.shape != targets.shape or tokens.shape[axis] < 2:
        return 0.0
    later = tokens.narrow(axis, 1, tokens.shape[axis] - 1)
    asked = targets.narrow(axis, 0, tokens.shape[axis] - 1)
    return float((later == asked).float().mean())


def may_be_time_first(model: nn.Module, inputs: object, targets: object, output: Tensor) -> bool:
    """Whether samples that read one another may be the steps of sequences with the time first.

    That is so where output and targets keep both axes, a layer takes the time first, and no name, mask or
    shift of the targets says that the samples come first.
    """
    known = named_inputs(inputs)
    main = next((one.tensor for one in known if one.role in ("tokens", "values")), None)
    if main is None or main.ndim < 2 or any(one.role in ("mask", "documents") for one in known):
        return False
    if any(one.name in ("input_ids", "inputs_embeds") for one in known):
        return False
    if isinstance(targets, Tensor):
        if targets.ndim < 2 or next_along(main, targets, 1) > _SHIFTED:
            return False
    elif output.ndim < 3 and not isinstance(targets, type(None)):
        return False
    keeps = output.ndim >= 3 and output.shape[1] == main.shape[1]
    takes_time_first = any(getattr(m, "batch_first", True) is False for m in model.modules())
    return bool(keeps) and takes_time_first and bool(torch.tensor(main.shape[1] > 1))
