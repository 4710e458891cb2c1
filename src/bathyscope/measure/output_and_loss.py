"""The end of a network and the loss on it as one thing: what can be reached, what is clipped."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope.core.batch import LossFn
from bathyscope.core.fetch import OnHost
from bathyscope.core.hooks import on_gradient
from bathyscope.core.losses import keeps_no_tensor
from bathyscope.core.nested import map_tensors, tensors_in
from bathyscope.core.records import Measurement, Number
from bathyscope.core.walks import named_parameters
from bathyscope.measure.graph import (
    AdjacentMaps,
    OutputActivation,
    adjacent_maps,
    is_linear,
    operations_between,
    output_activation,
)
from bathyscope.measure.loss_form import (
    LossForm,
    LossTrial,
    constant_baseline,
    loss_form,
    perfect_output,
    trial_of,
)

_MOST_PAIRS = 3


class OutputAndLoss:
    """Reads the end of a pass: called with the output and the loss while their graph is there."""

    def __init__(
        self, model: nn.Module, loss: LossFn, targets: object, on_host: OnHost | None = None
    ) -> None:
        self.model, self.loss = model, loss
        self.on_host = on_host or OnHost()
        self.targets = targets
        self.numbers: dict[str, Number] = {}

    def __call__(self, output: object, value: Tensor) -> None:
        """Take the numbers; the gradient at the last pre-activation follows in the backward pass."""
        tensor = output_tensor(output, value)
        if tensor is None:
            self.numbers["loss"] = float(value.detach())
            return
        activation = output_activation(tensor)
        operations = operations_between(value, tensor)
        in_a_row = adjacent_maps(tensor)
        self.on_host.of((value, tensor))  # in one transfer
        self.numbers |= {
            "loss": float(self.on_host.tensor(value).detach()),
            "activation": activation.name,
            "num_outputs": tensor.shape[1] if tensor.ndim > 1 else 1,
            "activation_in_loss": _squashing(operations),
            "constant_slope": bool({"Abs", "L1Loss"} & operations),
            "linear": is_linear(tensor),
            "adjacent_maps": in_a_row.pairs,
            "adjacent_fraction": in_a_row.fraction,
            "adjacent_names": self._layer_names(in_a_row),
        }
        if activation.node is not None:
            on_gradient(activation.node, self._count_clipped)
        near, targets = tensor.detach(), self.targets
        if self.on_host.can_hold(tensor, targets) and keeps_no_tensor(self.loss):
            near, targets = self.on_host.tensor(tensor).detach(), self.on_host.of(targets)
        self.numbers |= _spread(near)
        trial = trial_of(_loss_of_one(self.loss, output, tensor), near, targets)
        if trial is not None:
            with torch.no_grad():
                self.numbers |= _of_loss(trial, near, activation, operations)

    def _layer_names(self, in_a_row: AdjacentMaps) -> str:
        """The layers of the first pairs, by the names of their weights."""
        names = {
            id(p): name.removesuffix(".weight") for name, p in named_parameters(self.model).items()
        }
        pairs = [[names.get(id(one)) for one in pair] for pair in in_a_row.weights]
        named = [f"{first} and {second}" for first, second in pairs if first and second]
        more = f" and {len(named) - _MOST_PAIRS} more" if len(named) > _MOST_PAIRS else ""
        return f"{', '.join(named[:_MOST_PAIRS])}{more}"

    def _count_clipped(self, gradients: tuple[Tensor | None, ...], _: object) -> None:
        """Fraction of samples whose gradient before the last activation is zero in every entry."""
        gradient = gradients[0]
        if isinstance(gradient, Tensor) and gradient.ndim:
            rows = gradient.reshape(len(gradient), -1)
            self.numbers["clipped_samples"] = float((rows == 0).all(1).float().mean())

    def measurement(self) -> Measurement:
        """The measurement `output`, once the pass is over."""
        return Measurement(name="output", blocks=(), columns={}, settings=dict(self.numbers))


def _loss_of_one(loss: LossFn, output: object, tensor: Tensor) -> LossFn:
    """The loss as a function of one of several outputs; the others stay as they are."""
    if not isinstance(output, tuple | list) or sum(1 for _ in tensors_in(output)) < 2:
        return loss

    def of_one(y: Tensor, targets: object) -> Tensor:
        def put(t: Tensor) -> Tensor:
            if t is tensor:
                return y
            is_by_sample = t.ndim > 0 and len(t) == len(tensor)
            return t.detach()[: len(y)] if is_by_sample else t.detach()

        return loss(map_tensors(output, put), targets)

    return of_one


def output_tensor(output: object, loss: Tensor) -> Tensor | None:
    """The tensor that the loss is made from: the first floating one that is not a single number."""
    return next(
        (
            t
            for t in tensors_in(output)
            if t.is_floating_point() and t.ndim and t is not loss and t.grad_fn is not None
        ),
        None,
    )


def _squashing(operations: frozenset[str]) -> str | None:
    """A softmax or sigmoid that the loss itself applies before a log-softmax or sigmoid of its own."""
    second = {"LogSoftmax", "BinaryCrossEntropyWithLogits"} & operations
    first = [name for name in ("Softmax", "Sigmoid") if name in operations]
    return first[0].lower() if second and first else None


def _spread(output: Tensor) -> dict[str, Number]:
    """How far apart the outputs of different samples lie, in units of their size."""
    rows = output.detach().reshape(len(output), -1).double()
    if len(rows) < 2 or not bool(torch.isfinite(rows).all()):
        return {}
    size = float(rows.abs().max())
    apart = float((rows - rows.mean(0)).abs().max())
    return {"largest_output": size, "output_spread": apart / size if size else 0.0}


def _of_loss(
    trial: LossTrial, output: Tensor, activation: OutputActivation, operations: frozenset[str]
) -> Mapping[str, Number]:
    form = loss_form(trial, output, operations)
    rows = output[: trial.shape[0]]
    targets = trial.targets
    constant = constant_baseline(trial, form)
    perfect = perfect_output(trial, form)
    floor = None if perfect is None else trial.value(perfect)
    numbers: dict[str, Number] = {
        "loss_asks": form.asks,
        "loss_takes": form.takes,
        "best_constant": constant,
        "smallest_loss": floor,
        "broadcast": _broadcast(trial),
        "ignores_targets": _ignores_targets(trial, rows),
        "summed": _is_summed(trial, rows) and not _is_scaled_to_a_mean(trial, form, rows),
        "binary_targets": trial.binary(),
        "index_targets": trial.has_indices,
        "num_labels": _num_labels(targets),
    }
    if trial.has_indices:  # the classes stand last where there is a label per token
        numbers["num_outputs"] = trial.num_classes
    else:
        low, high = (float(bound) for bound in targets.double().aminmax())
        numbers |= {"smallest_target": low, "largest_target": high}
        numbers["target_size"] = math.sqrt(float(targets.double().square().mean()))
        numbers["target_deviation"] = float(targets.double().std(correction=0))
        if trial.num_classes > 1 and targets.shape == trial.shape:
            numbers["target_rows_sum"] = float((targets.sum(1) - 1).abs().max())
    if perfect is not None and floor is not None:
        numbers["smallest_reachable_loss"] = _reachable(trial, form, activation, floor)
        # with as many tokens as classes nothing distinguishes their axes: no answer is the wrong one
        if output.ndim < 3 or output.shape[1] != output.shape[-1] or not trial.has_indices:
            numbers["negated"] = _is_negated(trial, form, perfect, floor)
    return numbers


def _reachable(
    trial: LossTrial, form: LossForm, activation: OutputActivation, floor: float
) -> float | None:
    """The smallest loss that outputs of this activation can have, by the output nearest to the perfect."""
    low, high = activation.range
    hot = trial.one_hot()
    if hot is None or not (math.isfinite(low) or math.isfinite(high)):
        return floor
    if form.takes == "log-probabilities" and activation.name != "log-softmax":
        return trial.value(hot.float().clamp(low, high))
    if form.takes == "logits":
        if not math.isfinite(high):
            return floor
        return trial.value((low + (high - low) * hot).float())
    nearest = hot.float().clamp(low, high)
    if activation.name == "softmax" and trial.num_classes > 1:
        nearest = nearest / nearest.sum(1, keepdim=True).clamp_min(1e-6)
    if activation.name == "softmax" and trial.num_classes == 1:
        nearest = torch.ones_like(nearest)
    return trial.value(nearest)


_SMALL = 0.01


def _is_negated(trial: LossTrial, form: LossForm, perfect: Tensor, floor: float) -> bool:
    """Whether the wrong answer costs less than the right one.

    Of logits also where they are small: labels that are smoothed ask for no large one. Of numbers on both
    sides: a margin asks for ever more on one.
    """
    wrong = -perfect if form.takes == "logits" else perfect + 1.0
    if form.takes == "logits":
        near, far = trial.value(_SMALL * perfect), trial.value(_SMALL * wrong)
        if near is None or far is None or far >= near:
            return False
    if form.takes == "values":
        below = trial.value(perfect - 1.0)
        if below is None or below >= floor:
            return False
    if form.takes in ("probabilities", "log-probabilities"):
        wrong = perfect.roll(1, 0) if len(perfect) > 1 else wrong
        if form.takes == "probabilities":
            wrong, perfect = 0.9 * wrong + 0.05, 0.9 * perfect + 0.05
            floor = trial.value(perfect) or floor
    value = trial.value(wrong)
    return value is not None and value < floor - 1e-6 and not _weighs_samples(trial)


def _weighs_samples(trial: LossTrial) -> bool:
    """Whether samples of one label count by factors of their own, as the advantages of a policy gradient.

    Such a loss is rightly of either sign: an action that was bad is to become rarer. At logits of zero
    the gradient of a sample is its factor times a vector that depends on the label alone.
    """
    if not trial.has_indices or len(trial.shape) != 2:
        return False
    logits = torch.zeros(trial.shape, device=trial.targets.device, requires_grad=True)
    try:
        with torch.enable_grad():
            (pull,) = torch.autograd.grad(trial.loss(logits, trial.targets), logits)
    except Exception:  # a user's own loss may raise anything on an output it did not expect
        return False
    factors = pull.gather(1, trial.targets.clamp_min(0).unsqueeze(1)).squeeze(1)
    for label in trial.targets.unique():
        own = factors[trial.targets == label]
        if float(own.max() - own.min()) > 0.01 * float(own.abs().max()):
            return True
    return False


def _ignores_targets(trial: LossTrial, rows: Tensor) -> bool:
    """Whether other targets give the same loss, as that of a generator, which another network judges."""
    here = trial.value(rows)
    if trial.has_indices:
        other = (trial.targets + 1) % max(2, trial.num_classes)
    else:
        other = (trial.targets == 0) if trial.binary() else 2 * trial.targets + 1
    there = LossTrial(trial.loss, other.to(trial.targets.dtype), trial.shape).value(rows)
    return here is not None and here == there


def _broadcast(trial: LossTrial) -> bool:
    """Whether output and targets have unlike shapes that the loss stretches over one another."""
    if trial.has_indices or trial.targets.shape == trial.shape:
        return False
    try:
        stretched = torch.broadcast_shapes(trial.shape, trial.targets.shape)
    except RuntimeError:
        return False
    if math.prod(stretched) <= max(math.prod(trial.shape), trial.targets.numel()):
        return False
    return _mixes_targets(trial)


def _mixes_targets(trial: LossTrial) -> bool:
    """Whether the first target changes what the loss asks of other samples: one that squeezes does not."""
    targets = trial.targets.clone()
    if not targets.ndim or len(targets) < 2 or trial.shape[0] < 2:
        return True
    targets[0] = targets[0] == 0 if trial.binary() else targets[0] + 1
    gradients = []
    for asked in (trial.targets, targets):
        output = torch.linspace(0.1, 0.9, math.prod(trial.shape), device=targets.device)
        output = output.reshape(trial.shape).requires_grad_()
        try:
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(trial.loss(output, asked), output)
        except Exception:  # a user's own loss may raise anything on an output it did not expect
            return False
        gradients.append(gradient[1:])
    return not torch.allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-9)


def _is_summed(trial: LossTrial, rows: Tensor) -> bool:
    """Whether the loss of the batch is the sum, not the mean, of the losses of its halves."""
    half = len(rows) // 2
    if half < 1 or not trial.targets.ndim or len(trial.targets) != len(rows):
        return False
    parts = []
    for part in (slice(0, half), slice(half, 2 * half)):
        of_half = LossTrial(trial.loss, trial.targets[part], (half, *trial.shape[1:]))
        parts.append(of_half.value(rows[part]))
    whole = LossTrial(trial.loss, trial.targets[: 2 * half], (2 * half, *trial.shape[1:]))
    total = whole.value(rows[: 2 * half])
    if total is None or parts[0] is None or parts[1] is None or not math.isfinite(total):
        return False
    return abs(total) > 1e-9 and math.isclose(total, parts[0] + parts[1], rel_tol=1e-4)


def _is_scaled_to_a_mean(trial: LossTrial, form: LossForm, rows: Tensor) -> bool:
    """Whether a sum was divided by a number, so that it is no larger than the mean over the samples."""
    total = trial.value(rows)
    if total is None or not trial.targets.ndim or form.asks not in ("one class", "distance"):
        return False
    mean: Tensor | None = None
    if form.asks == "distance" and trial.targets.shape == rows.shape:
        mean = F.mse_loss(rows.double(), trial.targets.double())
    elif form == LossForm("one class", "logits") and trial.has_indices:
        logits = rows.movedim(trial.axis, 1).double()
        mean = F.cross_entropy(logits, trial.targets.clamp(0, trial.num_classes - 1).long())
    return mean is not None and abs(total) < 1.5 * float(mean)


def _num_labels(targets: Tensor) -> int:
    """How many different values the targets take, counted up to 1,000."""
    return len(torch.unique(targets.flatten()[:100_000])) if targets.numel() else 0
