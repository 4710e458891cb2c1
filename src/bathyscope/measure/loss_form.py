"""What a loss asks of an output, found by how it behaves: logits or probabilities, one class or many.

A loss is known by the operations that lead to it and by its values on outputs made for the purpose,
so that modules, functions, partials and lambdas are all seen alike."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from bathyscope.core.batch import Batch, LossFn, loss_value, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import class_axis, copy_tensors, first_samples, main_tensor, tensors_in
from bathyscope.core.preserve import preserve_model
from bathyscope.measure.graph import operation

Asks = Literal["one class", "each class", "distance", "unknown"]
Takes = Literal["logits", "probabilities", "log-probabilities", "values"]

_SURE = 30.0
"""A logit whose softmax or sigmoid is 1 to rounding."""

_TRIED_SAMPLES = 256
"""Samples on which a loss is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class LossTrial:
    """A loss with its targets, to be tried on outputs of one's own."""

    loss: LossFn
    targets: Tensor
    shape: tuple[int, ...]

    def value(self, output: Tensor) -> float | None:
        """The loss of an output; None where it raises or is not a single number."""
        try:
            with torch.no_grad():
                result = self.loss(output, self.targets)
        except Exception:  # a user's own loss may raise anything on an output it did not expect
            return None
        return float(result) if isinstance(result, Tensor) and result.numel() == 1 else None

    @property
    def has_indices(self) -> bool:
        """Whether targets are class indices: whole numbers in the output's shape but for one axis.

        An axis of length one has no classes: its labels are numbers, 0 and 1 for instance.
        """
        if self.targets.is_floating_point() or len(self.shape) != self.targets.ndim + 1:
            return False
        shape = tuple(self.targets.shape)
        axes = ((self.shape[:1] + self.shape[2:], 1), (self.shape[:-1], -1))
        return any(shape == rest and self.shape[axis] > 1 for rest, axis in axes)

    @property
    def axis(self) -> int:
        """The output's axis of classes: 1, or the last where there is a label per token."""
        if not self.has_indices or len(self.shape) < 3:
            return 1
        return class_axis(torch.empty(self.shape, device="meta"), self.targets) % len(self.shape)

    @property
    def num_classes(self) -> int:
        """Length of the output's axis of classes."""
        return self.shape[self.axis] if len(self.shape) > 1 else 1

    def one_hot(self) -> Tensor | None:
        """Targets in the output's shape, one where the class is; None where they do not fit it.

        Targets below zero count in no loss: they have no class.
        """
        if not self.has_indices:
            same = self.targets.numel() == math.prod(self.shape)
            return self.targets.double().reshape(self.shape) if same else None
        known = self.targets.clamp(0, self.num_classes - 1)
        hot = F.one_hot(known.long(), self.num_classes).double()
        return (hot * (self.targets >= 0).unsqueeze(-1)).movedim(-1, self.axis)

    def binary(self) -> bool:
        """Whether every target is 0 or 1, or an index."""
        return self.has_indices or bool(((self.targets == 0) | (self.targets == 1)).all())


def trial_of(loss: LossFn, output: Tensor, targets: object) -> LossTrial | None:
    """A loss and targets to try outputs on, of at most 256 samples; None where there is no tensor."""
    if not isinstance(targets, Tensor) or not targets.numel() or output.ndim == 0:
        return None
    if targets.ndim and output.shape[0] == targets.shape[0]:
        output, targets = output[:_TRIED_SAMPLES], targets[:_TRIED_SAMPLES]
    return LossTrial(loss, targets.detach(), tuple(output.shape))


@dataclass(frozen=True, slots=True)
class LossForm:
    """What a loss asks of the output and in what form it takes it."""

    asks: Asks
    takes: Takes


def loss_form(trial: LossTrial, output: Tensor, operations: frozenset[str]) -> LossForm:
    """The form of a loss, by its operations and its behavior around an output.

    A loss that does not change when one number is added to all outputs has a softmax of its own. One
    that is zero at the targets, and has no logarithm, is a distance.

    Examples:
        >>> logits = torch.randn(4, 3)
        >>> trial = trial_of(F.cross_entropy, logits, torch.tensor([0, 1, 2, 0]))
        >>> loss_form(trial, logits, frozenset())
        LossForm(asks='one class', takes='logits')
    """
    rows = output.detach()[: trial.shape[0]]
    here = trial.value(rows)
    if here is None:
        return LossForm("unknown", "values")
    if trial.num_classes > 1 and _ignores_shifts(trial, rows):
        return LossForm("one class", "logits")
    if "BinaryCrossEntropyWithLogits" in operations or "LogSigmoid" in operations:
        return LossForm("each class", "logits")
    if "BinaryCrossEntropy" in operations:
        return LossForm("each class", "probabilities")
    if "NllLoss" in operations or "NllLoss2D" in operations:
        return LossForm(
            "one class", "probabilities" if "Log" in operations else "log-probabilities"
        )
    is_distance = not trial.binary() and _is_distance(trial, rows)  # as log-cosh, with a logarithm
    if "Log" in operations and not is_distance:
        return LossForm(_one_or_each(trial, rows, here), "probabilities")
    if _is_distance(trial, rows):
        return LossForm("distance", "values")
    return LossForm("unknown", "values")


def _ignores_shifts(trial: LossTrial, like: Tensor) -> bool:
    """Whether one number added to all outputs changes nothing, and another factor does."""
    waves = torch.arange(like.numel(), device=like.device).double().sin().reshape(like.shape)
    # in the targets' own size: beside numbers of 10⁴ a shift by 3 changes no loss visibly
    size = 1.0 if trial.has_indices else max(1.0, float(trial.targets.abs().max()))
    waves = (size * waves).to(like.dtype)
    here, shifted, scaled = (trial.value(o) for o in (waves, waves + 3.0 * size, 2.0 * waves))
    if here is None or shifted is None or scaled is None:
        return False
    return math.isclose(here, shifted, rel_tol=1e-4, abs_tol=1e-6) and scaled != here


def _one_or_each(trial: LossTrial, rows: Tensor, here: float) -> Asks:
    """A loss of one class has no term in log(1 − p): where the target is 0 it asks nothing by itself."""
    hot = trial.one_hot()
    if trial.has_indices or hot is None:
        return "one class"
    if trial.num_classes < 2:
        return "each class"
    scaled = trial.value(rows * 0.5)  # invariant, where the loss divides by the sum itself
    other = trial.value(torch.where(hot.to(rows.device) > 0, rows, rows * 0.5))
    unmoved = (v is not None and math.isclose(v, here, rel_tol=1e-4) for v in (scaled, other))
    return "one class" if any(unmoved) else "each class"


def _is_distance(trial: LossTrial, rows: Tensor) -> bool:
    hot = None if trial.has_indices else trial.one_hot()
    if hot is None:
        return False
    at_targets = trial.value(hot.to(rows.dtype))
    away = trial.value(hot.to(rows.dtype) + 1.0)
    return at_targets is not None and abs(at_targets) < 1e-6 and away not in (None, at_targets)


def perfect_output(trial: LossTrial, form: LossForm, *, sure: float = _SURE) -> Tensor | None:
    """The output that says what the targets say, in the form that the loss takes."""
    hot = trial.one_hot()
    if hot is None:
        return None
    hot = hot.float()
    if form.takes == "logits":
        return sure * (2 * hot - 1)
    if form.takes == "log-probabilities":
        return torch.where(hot > 0, 0.0, -sure)
    return hot


def constant_baseline(trial: LossTrial, form: LossForm) -> float | None:
    """The loss of the constant baseline: the best output that is the same for every sample.

    For the forms known it follows from the targets: frequencies of the classes, the mean or the
    median of numbers. For another loss the best of these answers is an estimate from above.
    """
    hot = trial.one_hot()
    if hot is None:
        return None
    rest = tuple(axis for axis in range(hot.ndim) if axis != trial.axis)
    mean = hot.mean(rest if hot.ndim > 1 else 0, keepdim=True).float()
    if trial.has_indices:  # the frequencies of the classes among the targets that count
        mean = mean / mean.sum().clamp_min(torch.finfo(mean.dtype).tiny)
    middle = (hot.movedim(trial.axis, -1).flatten(0, -2) if hot.ndim > 2 else hot).float()
    median = middle.median(0, keepdim=True).values.reshape(mean.shape) if hot.ndim > 1 else (
        hot.float().median().reshape(1))  # fmt: skip
    bounded = mean.clamp(1e-6, 1 - 1e-6)
    answers = {
        "logits": [bounded.log() if form.asks == "one class" else bounded.logit()],
        "probabilities": [bounded],
        "log-probabilities": [bounded.log()],
        "values": [mean, median],
    }[form.takes]
    if form.asks == "unknown":
        answers = [mean, median, torch.zeros_like(mean)]
    values = [trial.value(answer.expand(trial.shape).contiguous()) for answer in answers]
    result = [v for v in values if v is not None and math.isfinite(v)]
    return min(result, default=None)


def fit_constant_baseline(output: object, targets: object, loss: LossFn) -> float | None:
    """The loss of the constant baseline, fitted by L-BFGS whatever the loss; None where it cannot be.

    `constant_baseline` knows it in closed form for the usual losses; the fit begins near there.

    Args:
        output: of the network, for its shape; several samples.
        targets: of these samples.
        loss: a scalar from output and targets.

    Examples:
        >>> import torch.nn.functional as F
        >>> labels = torch.tensor([0, 1, 2, 3])
        >>> round(fit_constant_baseline(torch.randn(4, 4), labels, F.cross_entropy), 3)
        1.386
    """
    given = main_tensor(output)
    if not isinstance(output, Tensor) or given is None or targets is None or given.ndim < 1:
        return None
    constant = _first_constant(given, targets).requires_grad_()
    fitter = torch.optim.LBFGS([constant], max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        fitter.zero_grad()
        value = loss(constant.expand_as(given), targets)
        value.backward()
        return value

    try:
        with torch.enable_grad():
            fitter.step(closure)
            value = float(closure().detach())
    except Exception:  # a user's own loss may raise anything
        return None
    return value if 0 < value < float("inf") else None


def _first_constant(given: Tensor, targets: object) -> Tensor:
    """The mean of targets shaped as the outputs, the logarithms of how frequent labels are, or zero.

    Outputs that are all probabilities begin at one half: a loss may not be defined at zero.
    """
    constant = torch.zeros((1, *given.shape[1:]), dtype=given.dtype, device=given.device)
    if bool(((given >= 0) & (given <= 1)).all()):
        return constant + 0.5
    if not isinstance(targets, Tensor) or targets.is_complex():
        return constant
    if targets.is_floating_point():
        mean = targets.to(constant).mean(0, keepdim=True)
        return mean if mean.shape == constant.shape and bool(mean.isfinite().all()) else constant
    if given.ndim == 2 and targets.shape == given.shape[:1] and targets.dtype is torch.int64:
        known = targets[(targets >= 0) & (targets < given.shape[1])]
        counts = torch.bincount(known, minlength=given.shape[1]).to(constant)
        return (counts.clamp_min(0.01).log() - math.log(max(1, len(known)))).unsqueeze(0)
    return constant


_TERM_SAMPLES = 16
_MOST_TERMS = 4


@dataclass(frozen=True, slots=True)
class LossTerms:
    """How a loss is put together.

    Attributes:
        number: of the terms that are added up.
        fits: for each term, whether it is made from the first tensor of the output.
        norms: for each term, the norm of its gradient over the parameters that all terms reach.
        not_checked: what was left out, and why.
    """

    number: int
    fits: tuple[bool, ...] = ()
    norms: tuple[float, ...] = ()
    not_checked: tuple[str, ...] = ()

    @property
    def outweighs(self) -> float | None:
        """Gradient of the terms that do not see the first output over that of those that do."""
        fit = [n for n, fits in zip(self.norms, self.fits, strict=True) if fits]
        rest = [n for n, fits in zip(self.norms, self.fits, strict=True) if not fits]
        return max(rest) / max(fit) if fit and rest and max(fit) > 0 else None


def term_edges(value: Tensor) -> list[tuple[GradientEdge, float]]:
    """The scalars that a loss is the sum of, as edges of the graph, each with its sign or factor.

    Examples:
        >>> w = torch.ones(3, requires_grad=True)
        >>> len(term_edges(w.sum() + 0.1 * w.square().sum() - w.prod()))
        3
    """
    return list(_terms(value.grad_fn, value.output_nr, 1.0))


def _terms(node: Node | None, number: int, factor: float) -> Iterator[tuple[GradientEdge, float]]:
    if node is None:
        return
    name = operation(node)
    following = [n for n, _ in node.next_functions]
    if name in ("View", "Alias", "Squeeze") and following[0] is not None:
        yield from _terms(following[0], node.next_functions[0][1], factor)
        return
    if name in ("Add", "Sub") and len(following) == 2 and all(following):
        alpha = float(getattr(node, "_saved_alpha", 1.0)) * (-1.0 if name == "Sub" else 1.0)
        for (after, location), own in zip(node.next_functions, (1.0, alpha), strict=True):
            yield from _terms(after, location, factor * own)
        return
    yield GradientEdge(node, number), factor


def loss_terms(model: nn.Module, batch: Batch, *, loss: LossFn) -> LossTerms:
    """Gradient norms of the terms of a loss over the parameters that they share, on few samples.

    Args:
        model: any module, left as it was and run in the mode in which it is.
        batch: inputs and targets.
        loss: a scalar from output and targets.

    Examples:
        >>> class Coder(nn.Sequential):
        ...     def forward(self, x):
        ...         code = self[0](x)
        ...         return self[1](code), code
        >>> loss = lambda y, x: (y[0] - x).square().mean() + 1000 * y[1].square().sum()
        >>> x = torch.randn(8, 6)
        >>> loss_terms(Coder(nn.Linear(6, 2), nn.Linear(2, 6)), (x, x), loss=loss).outweighs > 1000
        True
    """
    model = unwrap(model)
    few = first_samples((batch[0], batch[1]), _TERM_SAMPLES)
    with preserve_model(model, copy_parameters=False), torch.enable_grad():
        try:
            output = run_forward(model, copy_tensors(few[0]))
            value = loss_value(loss, output, few[1])
        except BathyscopeError as error:
            return LossTerms(0, not_checked=(f"loss terms: {error}",))
        return _norms(model, output, value)


def _norms(model: nn.Module, output: object, value: Tensor) -> LossTerms:
    terms = term_edges(value)
    if not 2 <= len(terms) <= _MOST_TERMS:
        return LossTerms(len(terms))
    main = next(
        (t for t in tensors_in(output) if t.is_floating_point() and t.ndim and t.grad_fn), None
    )
    if main is None:
        return LossTerms(len(terms))
    parameters = [p for p in model.parameters() if p.requires_grad]
    fits, gradients = [], []
    for edge, factor in terms:
        seed = torch.full((), factor, dtype=value.dtype, device=value.device)
        try:
            result = torch.autograd.grad(
                [edge], [main, *parameters], [seed], retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:  # a term that is not a scalar, or a node that cannot be asked
            return LossTerms(len(terms), not_checked=(f"loss terms: {error}",))
        fits.append(result[0] is not None)
        gradients.append(result[1:])
    shared = [i for i in range(len(parameters)) if all(g[i] is not None for g in gradients)]
    norms = [
        float(sum(float(g[i].double().square().sum()) for i in shared) ** 0.5) for g in gradients
    ]
    return LossTerms(len(terms), tuple(fits), tuple(norms))
