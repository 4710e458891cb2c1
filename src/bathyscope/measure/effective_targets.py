"""The loss read backwards: what its gradient at the output asks for, whatever the targets say.

A step against ∂E/∂y raises most the class with the smallest derivative: for cross-entropy that is the target
that the loss has used, after every shift, mask and broadcast on the way.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, loss_value, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.nested import class_axis, copy_tensors, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.loss_on_output import (
    ClassWeights,
    LossFloor,
    LossOnOutput,
    class_weights,
    loss_floor,
    loss_on_output,
)

_MOST_ENTRIES = 1 << 24
"""Of an output on which a loss is computed again: 64 MB in float32."""
_MOST_CLASSES = 1000
_FEWEST_IGNORED = 4
_MOST_PLACES = 4
"""At which a loss asks for one label, of samples that are mixed."""
_SHIFTS = range(-3, 5)
_SAME = 0.9
"""Fraction of asked tokens that equal the input's at one shift, from which that shift is the task."""
_OTHERS = 0.7
"""The same at any other shift, above which the sequences repeat themselves and nothing can be said."""


@dataclass(frozen=True, slots=True, eq=False)
class EffectiveTargets:
    """What the gradient of the loss asks of the output.

    Attributes:
        asked: (samples, *positions), the class whose output per step raises most, −1 where the loss asks for
            nothing; None where the output has no classes.
        axis: the output's axis of classes.
        num_classes: its length.
        silent: fraction of positions at which the loss asks for nothing.
        offset: the shift k for which asked[t] = token[t + k]: 0 copies the input, 1 is the next token; None
            where the asked classes are not tokens of the input.
        offset_fraction: of asked positions for which that holds.
        ignored: classes among the targets that the loss never asks for, though they are not only padding at
            the ends of sequences.
        ignored_fraction: of the targets that are of such classes.
        agreement: fraction of targets that are asked for where they stand, up to a renaming of the classes;
            None where the loss has not one class to ask for at each of them.
        values: what the loss asks for where outputs are numbers: y − (∂E/∂y)/(∂²E/∂y²), the target itself for
            a squared error; None for classes and for losses without curvature.
        values_spread: their standard deviation over the targets'; 0 where one answer is asked of all.
        weights: of the classes against their frequency; None without classes.
        floor: what outputs cannot pass; None where nothing bounds them.
        across_samples: whether the samples share a softmax for each class, in place of the classes for each
            sample.
        not_checked: what was left out, and why.
    """

    asked: Tensor | None
    axis: int = -1
    num_classes: int = 0
    silent: float = 0.0
    offset: int | None = None
    offset_fraction: float = 0.0
    ignored: tuple[int, ...] = ()
    ignored_fraction: float = 0.0
    agreement: float | None = None
    values: Tensor | None = None
    values_spread: float | None = None
    weights: ClassWeights | None = None
    floor: LossFloor | None = None
    across_samples: bool = False
    not_checked: tuple[str, ...] = ()


def effective_targets(model: nn.Module, batch: Batch, *, loss: LossFn) -> EffectiveTargets:
    """What a loss asks of a model's output, from its gradient there.

    Args:
        model: any module, left as it was and run in the mode in which it is.
        batch: inputs and targets.
        loss: a scalar from output and targets.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.

    Examples:
        >>> model = nn.Linear(4, 3)
        >>> labels = torch.tensor([0, 2, 1, 0])
        >>> found = effective_targets(model, (torch.randn(4, 4), labels), loss=nn.functional.cross_entropy)
        >>> found.asked
        tensor([0, 2, 1, 0])
    """
    model = unwrap(model)
    inputs, targets = batch
    with preserve_model(model, copy_parameters=False), torch.enable_grad():
        output = run_forward(model, copy_tensors(inputs))
        value = loss_value(loss, output, targets)
        return targets_of_loss(output, value, batch, loss=loss)


def targets_of_loss(
    output: object, value: Tensor | None, batch: Batch, *, loss: LossFn
) -> EffectiveTargets:
    """As `effective_targets`, from an output.

    The loss is computed again from the output alone. Where that cannot be done, as for a model that computes
    its own, the gradient is taken in the graph of `value`, which stays; hooks at the output would be called.

    Args:
        output: of the model.
        value: the loss, with its graph; None where hooks at the output must not be called.
        batch: inputs and targets.
        loss: a scalar from output and targets.
    """
    inputs, given = batch
    labels = inputs.get("labels") if given is None and isinstance(inputs, Mapping) else given
    targets = labels.detach() if isinstance(labels, Tensor) else None
    result = _gradient_alone(output, given, loss)
    if result is None and value is not None:
        result = _gradient_in_graph(output, value)
    if result is None:
        why = "effective targets: the loss does not go through a tensor of the output"
        return EffectiveTargets(None, not_checked=(why,))
    y, gradient, on_output = result
    floor = loss_floor(on_output, y.detach(), gradient, targets) if on_output is not None else None
    if not _has_classes(y, targets):
        return _of_numbers(y.detach(), gradient, targets, on_output, floor)
    axis = _class_axis(y, targets, gradient)
    is_alone = sum(1 for t in tensors_in(output) if t.is_floating_point()) == 1
    asked = asked_classes(gradient, axis)
    silent = float((asked < 0).float().mean()) if asked.numel() else 0.0
    grid = _sequences(asked, inputs)
    offset, fraction = _offset(
        asked.reshape(grid), inputs, y.shape[axis], has_targets=given is not None
    )
    rows = y.detach().movedim(axis, -1)
    ignored, ignored_fraction = _ignored(asked, targets, rows, grid)
    return EffectiveTargets(
        asked,
        axis=axis,
        num_classes=y.shape[axis],
        silent=silent,
        offset=offset,
        offset_fraction=fraction,
        ignored=ignored,
        ignored_fraction=ignored_fraction,
        # of several outputs each may have labels of its own
        agreement=_agreement(asked, y.detach(), gradient, targets, axis, on_output)
        if is_alone
        else None,
        weights=class_weights(on_output, y.detach(), targets, axis) if on_output else None,
        floor=floor,
        across_samples=_shares_softmax(gradient, targets),
    )


def _shares_softmax(gradient: Tensor, targets: Tensor | None) -> bool:
    """Whether the gradient of each class, and not of each sample, adds up to zero over the batch."""
    if targets is None or targets.is_floating_point() or gradient.ndim != 2:
        return False
    if targets.shape != gradient.shape[:1] or gradient.shape[0] == gradient.shape[1]:
        return False
    size = float(gradient.abs().sum()) / gradient.shape[1]
    by_class, by_sample = (gradient.double().sum(a).abs() for a in (0, 1))
    is_shared = float(by_class.max()) < 1e-4 * size
    return size > 0 and is_shared and float(by_sample.max()) > 1e-2 * float(gradient.abs().max())


def asked_classes(gradient: Tensor, axis: int) -> Tensor:
    """argmin of the gradient along the classes; −1 where it is zero throughout.

    Examples:
        >>> asked_classes(torch.tensor([[0.2, -0.5, 0.3], [0.0, 0.0, 0.0]]), 1)
        tensor([ 1, -1])
    """
    rows = gradient.movedim(axis, -1)
    return torch.where(rows.any(-1), rows.argmin(-1), -1)


def _gradient_alone(
    output: object, targets: object, loss: LossFn
) -> tuple[Tensor, Tensor, LossOnOutput | None] | None:
    """The first tensor of the output that the loss goes through, and the gradient of the loss on it alone."""
    for tensor in tensors_in(output):
        if not (tensor.is_floating_point() and tensor.ndim and tensor.numel() <= _MOST_ENTRIES):
            continue
        on_output = loss_on_output(loss, output, tensor, targets)
        gradient = None if on_output is None else on_output.gradient(tensor)
        if on_output is not None and gradient is not None:
            return tensor, gradient, on_output
    return None


def _gradient_in_graph(
    output: object, value: Tensor
) -> tuple[Tensor, Tensor, LossOnOutput | None] | None:
    for tensor in tensors_in(output):
        if not (tensor.is_floating_point() and tensor.ndim and tensor.requires_grad):
            continue
        (gradient,) = torch.autograd.grad(value, [tensor], retain_graph=True, allow_unused=True)
        if gradient is not None:
            return tensor, gradient.detach(), None
    return None


def _has_classes(y: Tensor, targets: Tensor | None) -> bool:
    """Whether an axis of the output counts classes: targets are indices, or distributions over it."""
    if targets is None:
        return y.ndim >= 2 and y.shape[-1] > 1
    if targets.is_floating_point():
        if targets.shape != y.shape or y.ndim < 2 or y.shape[1] < 2:
            return False
        sums = targets.double().sum(1)
        return bool((targets >= 0).all()) and bool((sums - 1).abs().max() < 1e-3)
    return y.ndim >= 2 and (targets.ndim != y.ndim or targets.dtype != torch.bool)


def _class_axis(y: Tensor, targets: Tensor | None, gradient: Tensor) -> int:
    """The axis that the targets lack; else the one along which the gradient adds up to zero, or the last."""
    if targets is not None and targets.shape == y.shape:
        return 1
    if targets is not None and targets.ndim + 1 == y.ndim:
        axis = class_axis(y, targets) % y.ndim
        if targets.shape == (*y.shape[:axis], *y.shape[axis + 1 :]):
            return axis if y.shape[1] != y.shape[-1] else _softmax_axis(gradient, axis)
    return _softmax_axis(gradient, y.ndim - 1)


def _softmax_axis(gradient: Tensor, otherwise: int) -> int:
    """The axis along which the gradient adds up to zero, as that of a softmax does."""
    sums = {a: float(gradient.double().sum(a).abs().max()) for a in range(1, gradient.ndim)}
    minimum = min(sums, key=sums.__getitem__)
    is_softmax = sums[minimum] < 1e-4 * float(gradient.abs().max())
    return minimum if is_softmax else otherwise


def _sequences(asked: Tensor, inputs: object) -> tuple[int, ...]:
    """(samples, positions), where a model or a loss has put them on one axis."""
    first = next((t for t in tensors_in(inputs) if t.ndim > 1), None)
    if first is None or asked.ndim != 1 or asked.numel() != first.shape[0] * first.shape[1]:
        return tuple(asked.shape)
    return tuple(first.shape[:2])


_NOT_READ = ("labels", "label", "targets", "target")


def _offset(
    asked: Tensor, inputs: object, num_classes: int, *, has_targets: bool
) -> tuple[int | None, float]:
    """The shift at which the asked classes are the input's tokens, and how often they are.

    Beside targets of its own, an input called `target` is what a decoder reads.
    """
    if isinstance(inputs, Mapping) and not has_targets:
        inputs = {key: value for key, value in inputs.items() if key not in _NOT_READ}
    for tokens in tensors_in(inputs):
        if (
            tokens.dtype in (torch.int64, torch.int32)
            and tokens.ndim == 2
            and tokens.shape == asked.shape
        ):
            shift, fraction = _offset_of(asked, tokens, num_classes)
            if shift is not None:
                return shift, fraction
    return None, 0.0


def _offset_of(asked: Tensor, tokens: Tensor, num_classes: int) -> tuple[int | None, float]:
    if int(tokens.max()) >= num_classes or tokens.shape[1] < 4:
        return None, 0.0
    length = tokens.shape[1]
    fractions: dict[int, float] = {}
    for shift in _SHIFTS:
        if abs(shift) >= length - 1:
            continue
        first, last = max(0, -shift), min(length, length - shift)
        here, there = asked[:, first:last], tokens[:, first + shift : last + shift]
        known = here >= 0
        if int(known.sum()) >= 4:
            fractions[shift] = float((here == there)[known].float().mean())
    best = max(fractions, key=fractions.__getitem__, default=None)
    if best is None or fractions[best] < _SAME:
        return None, 0.0
    others = [f for shift, f in fractions.items() if shift != best]
    return (best, fractions[best]) if max(others, default=0.0) < _OTHERS else (None, 0.0)


def _ignored(
    asked: Tensor,
    targets: Tensor | None,
    rows: Tensor,
    grid: tuple[int, ...],
) -> tuple[tuple[int, ...], float]:
    """Classes of the targets for which no position is asked, but for padding at the ends of sequences.

    A class that is predicted with certainty wherever it is the target is asked for no more, and not ignored.
    The rows are the output with the classes last.
    """
    if targets is None or targets.is_floating_point() or targets.shape != asked.shape:
        return (), 0.0
    known = targets[(targets >= 0) & (targets < rows.shape[-1])]
    wanted = set(known.unique().tolist()) - set(asked.unique().tolist())
    if not wanted:
        return (), 0.0
    predicted = rows.argmax(-1)
    result = [
        c
        for c in sorted(wanted)
        if bool((asked[targets == c] < 0).all())
        and bool((predicted[targets == c] != c).any())
        and not _only_at_ends((targets == c).reshape(grid))
    ]
    count = sum(int((targets == c).sum()) for c in result)
    return tuple(result), count / max(1, targets.numel())


def _agreement(
    asked: Tensor,
    y: Tensor,
    gradient: Tensor,
    targets: Tensor | None,
    axis: int,
    on_output: LossOnOutput | None,
) -> float | None:
    """How often the asked class follows from the target at its place.

    A loss on one class for each target has one negative derivative for each, wherever it looks for it.
    """
    num_classes = y.shape[axis]
    if targets is None or targets.is_floating_point() or targets.shape != asked.shape:
        return None
    known = (asked >= 0) & (targets >= 0) & (targets < num_classes)
    negative, number = int((gradient < 0).sum()), int(known.sum())
    if (
        number < 8
        or not 3 <= num_classes <= _MOST_CLASSES
        or abs(negative - number) > 0.02 * number
    ):
        return None
    at = targets[known].cpu() * num_classes + asked[known].cpu()
    pairs = torch.bincount(at, minlength=num_classes**2).reshape(num_classes, num_classes)
    fraction = float(pairs.amax(1).sum()) / number
    is_mixed = fraction < _SAME and _asks_twice(on_output, y, gradient, targets, num_classes)
    return None if is_mixed else fraction


def _asks_twice(
    on_output: LossOnOutput | None, y: Tensor, gradient: Tensor, targets: Tensor, num_classes: int
) -> bool:
    """Whether one label is asked for at several places, as of samples that are mixed with each other.

    Another label changes two entries of a gradient wherever the loss looks for it: a softmax stays as it is.
    """
    if on_output is None:
        return False
    other = targets.clone()
    first = other.flatten()[:1]
    other.view(-1)[:1] = (first.clamp_min(0) + 1) % num_classes
    there = replace(on_output, targets=other).gradient(y)
    if there is None:
        return False
    change = (there - gradient).abs()
    return 2 < int((change > 1e-3 * change.max()).sum()) <= 2 * _MOST_PLACES


def _only_at_ends(where: Tensor) -> bool:
    """Whether a label stands only in runs at one end of every sequence, as padding does."""
    if where.ndim != 2 or where.shape[1] < 3:
        return False
    runs = [x.long().cumprod(1).bool() for x in (where, where.flip(1))]
    return bool((where == runs[0]).all()) or bool((where.flip(1) == runs[1]).all())


def _of_numbers(
    y: Tensor,
    gradient: Tensor,
    targets: Tensor | None,
    on_output: LossOnOutput | None,
    floor: LossFloor | None,
) -> EffectiveTargets:
    """What a loss on numbers asks for, by one Newton step at every output by itself."""
    silent = float((gradient == 0).float().mean()) if gradient.numel() else 0.0
    values = asked_values(on_output, y, gradient) if on_output is not None else None
    spread = None
    if values is not None and targets is not None and targets.numel() == values.numel():
        size = float(targets.double().std(correction=0)) if targets.numel() > 1 else 0.0
        by_row = values.double().std(correction=0)
        spread = float(by_row) / size if size > 0 else None
    ignored, fraction = _ignored_values(on_output, y, gradient, targets)
    return EffectiveTargets(
        None,
        silent=silent,
        ignored=ignored,
        ignored_fraction=fraction,
        values=values,
        values_spread=spread,
        weights=class_weights(on_output, y, targets, None) if on_output else None,
        floor=floor,
    )


def _ignored_values(
    on_output: LossOnOutput | None, y: Tensor, gradient: Tensor, targets: Tensor | None
) -> tuple[tuple[int, ...], float]:
    """Which of two values of the targets has no gradient, whatever the output: zeros where −1 is meant."""
    if on_output is None or targets is None or targets.numel() != y.numel():
        return (), 0.0
    flat = targets.reshape(y.shape)
    kinds = flat.unique().double()  # of labels that are bool, too
    if len(kinds) != 2 or not bool((kinds == kinds.round()).all()):
        return (), 0.0
    silent = [k for k in kinds.tolist() if not bool(gradient[flat == k].any())]
    if len(silent) != 1 or int((flat == silent[0]).sum()) < _FEWEST_IGNORED:
        return (), 0.0
    size = max(1.0, float(y.abs().max()))
    for there in (-y, y + 3 * size, y - 3 * size):
        other = on_output.gradient(there)
        if other is None or bool(other[flat == silent[0]].any()):
            return (), 0.0
    return (int(silent[0]),), float((flat == silent[0]).float().mean())


def asked_values(on_output: LossOnOutput, y: Tensor, gradient: Tensor) -> Tensor | None:
    """y − g/h with h the derivative of g along a common shift of all outputs; None where h is not positive.

    For a squared error this is the target; where output and target are broadcast over one another it is the
    mean of all targets at every output.
    """
    size = max(1.0, float(y.abs().max()))
    shift = 1e-2 * size
    there = on_output.gradient(y + shift)
    if there is None:
        return None
    curvature = (there.double() - gradient.double()) / shift
    typical = float(curvature.median())
    if not math.isfinite(typical) or typical <= 1e-9 * float(gradient.abs().max()):
        return None
    positive = curvature > 1e-6 * typical
    if not bool(positive.all()):
        return None
    return (y.double() - gradient.double() / curvature).to(y.dtype)
