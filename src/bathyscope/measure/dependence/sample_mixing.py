"""Whether a sample's output depends on the other samples of its batch, or on its place among them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, run_forward
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.fetch import fetch, to_host
from bathyscope.core.global_state import preserve_random_state, seed_generators
from bathyscope.core.nested import copy_tensors, predictions
from bathyscope.core.preserve import preserve_model
from bathyscope.core.walks import named_modules
from bathyscope.measure.dependence.eval_pass import (
    EvalPass,
    NotMeasurable,
    few_in_eval_pass,
    few_of,
    select_samples,
)
from bathyscope.measure.dependence.input_roles import named_inputs, relates_samples


def random_weights(like: Tensor, *, seed: int = 0) -> Tensor:
    """Weights ±(0.5 to 1.5), the same for every call with that shape and seed.

    Pure signs would cancel in pairs of equal entries; magnitudes that differ do not.
    """
    generator = torch.Generator().manual_seed(seed)
    either = torch.rand(like.shape, generator=generator, device="cpu").mul_(2.0).sub_(1.0)
    return either.add_(either.sign(), alpha=0.5).to(device=like.device, dtype=like.dtype)


def seed_samples(ran: EvalPass, chosen: Tensor, *, at: Tensor | None = None) -> Tensor:
    """Weights at all outputs of the chosen samples, zero at the others.

    Args:
        ran: the pass.
        chosen: (samples,), true for those that are asked.
        at: (samples, positions), true at the output's positions that are asked, which are on axis 1 of
            the output with the samples first; all by default.
    """
    output = ran.by_sample
    weights = random_weights(output)
    keep = chosen.to(output.device).reshape(-1, *([1] * (output.ndim - 1)))
    weights = weights * keep
    if at is not None:
        weights = weights * at.to(output.device).reshape(*at.shape, *([1] * (output.ndim - 2)))
    return weights


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
    if main.is_floating_point() or main.shape != targets.shape:
        return 0
    main, targets = to_host([main, targets])
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
    return bool(keeps) and takes_time_first and bool(torch.tensor(main.shape[1] > 1, device="cpu"))


@dataclass(frozen=True, slots=True)
class SampleDependence:
    """How far outputs in eval mode depend on what is beside a sample.

    Attributes:
        gradient: largest gradient of a sample's output at another sample's input over that at its own;
            None where it was not measured.
        company: relative change of the outputs when other samples are beside them.
        location: relative change when the samples are in reversed order.
        repeat: relative change when nothing changes: randomness in eval mode, or state of earlier passes.
        state: the same with equal random numbers, which leaves state; None where `repeat` is small.
        tolerance: relative change that rounding alone can make, √ε of the output's dtype.
        samples: how many were run.
        axis: the samples' axis of the inputs.
        batch_statistics: names of norms that use the batch's statistics in eval mode too.
        dropout: largest probability of a dropout that is on in eval mode.
        not_checked: what was left out, and why.
    """

    gradient: float | None
    company: float | None
    location: float | None
    repeat: float | None
    tolerance: float
    samples: int
    axis: int = 0
    batch_statistics: tuple[str, ...] = ()
    dropout: float = 0.0
    state: float | None = None
    not_checked: tuple[str, ...] = ()

    @property
    def mixes(self) -> bool:
        """Whether other samples are read."""
        by_value = self.company is not None and self.company > self.tolerance and not self.is_random
        moves = by_value and (self.location or 0.0) <= self.tolerance
        return (self.gradient or 0.0) > MIXING or moves

    @property
    def depends_on_place(self) -> bool:
        """Whether the place in the batch matters though no other sample is read."""
        return not self.mixes and not self.is_random and (self.location or 0.0) > self.tolerance

    @property
    def carries_state(self) -> bool:
        """Whether a pass depends on the passes before it."""
        return (self.state or 0.0) > self.tolerance

    @property
    def is_random(self) -> bool:
        """Whether two equal passes in eval mode differ."""
        return (self.repeat or 0.0) > self.tolerance


MIXING = 1e-7
"""Of the gradient at the own sample. Where no path leads to another sample the gradient is exactly 0."""


def sample_dependence(model: nn.Module, batch: Batch, *, axis: int = 0) -> SampleDependence:
    """Whether a sample's output, in eval mode, depends on other samples or on its place in the batch.

    One backward pass from the outputs of half of the samples: the other half must have no gradient. One
    more pass, of a sample from the middle alone, sees what has no gradient. Only where that differs further
    passes show place, company and randomness apart.

    Args:
        model: any module, left as it was.
        batch: inputs and targets; few of its samples are run.
        axis: the samples' axis of the inputs.

    Examples:
        >>> lstm = nn.LSTM(3, 4)  # takes (time, samples, features): batch_first is False
        >>> sample_dependence(lstm, (torch.randn(8, 5, 3), None)).mixes
        True
        >>> sample_dependence(nn.LSTM(3, 4, batch_first=True), (torch.randn(8, 5, 3), None)).mixes
        False
    """
    model = unwrap(model)
    _, chosen = few_of(batch[0], axis=axis)
    if (why := _unsuited(model, batch[0], len(chosen))) is not None:
        return _nothing(why, axis)
    with preserve_model(model, copy_parameters=False):
        try:
            ran, _ = few_in_eval_pass(model, batch[0], axis=axis)
        except NotMeasurable as error:
            return _nothing(f"samples: {error}", axis)
        return samples_of_pass(model, ran)


def _unsuited(model: nn.Module, inputs: object, count: int) -> str | None:
    if count < 2:
        return "samples: the batch holds one"
    if (name := relates_samples(model, inputs)) is not None:
        return f"samples: {name} relates them to each other"
    return None


def _nothing(why: str, axis: int) -> SampleDependence:
    return SampleDependence(None, None, None, None, 0.0, 0, axis, not_checked=(why,))


def samples_of_pass(
    model: nn.Module,
    ran: EvalPass,
    *,
    gradients: list[Tensor | None] | None = None,
    are_apart: bool = False,
) -> SampleDependence:
    """As `sample_dependence`, from a pass that was run; the caller protects the model.

    Args:
        model: in eval mode.
        ran: the pass.
        gradients: from the outputs of every second sample, where they are known.
        are_apart: whether no gradient leads from one to another, where that is known.
    """
    left_out: list[str] = []
    gradient = None
    if are_apart:
        gradient = 0.0
    elif ran.sources and ran.samples > 1:
        try:
            if gradients is None:
                gradients = ran.gradients(seed_samples(ran, every_second(ran.samples)))
            gradient = _mixing(ran, gradients)
        except NotMeasurable as error:
            left_out.append(f"samples by gradient: {error}")
    elif not ran.sources:
        left_out.append("samples by gradient: no input that can be differentiated was found")
    company, location, repeat = _changes(model, ran, left_out)
    return SampleDependence(
        gradient=gradient,
        company=company,
        location=location,
        repeat=repeat,
        tolerance=tolerance_of(ran.output),
        samples=ran.samples,
        axis=ran.input_axis,
        batch_statistics=_batch_statistics(model),
        dropout=ran.dropout,
        state=_state(model, ran) if (repeat or 0.0) > tolerance_of(ran.output) else None,
        not_checked=tuple(left_out),
    )


def every_second(samples: int) -> Tensor:
    """True for samples 0, 2, 4, …"""
    return torch.arange(samples, device="cpu") % 2 == 0


def tolerance_of(output: Tensor) -> float:
    """√ε of a dtype: kernels for other batch sizes add up in another order."""
    return math.sqrt(torch.finfo(output.dtype).eps)


def _mixing(ran: EvalPass, gradients: list[Tensor | None]) -> float | None:
    asked = every_second(ran.samples)
    own, others = 0.0, 0.0
    for source, gradient in zip(ran.sources, gradients, strict=True):
        by_sample = source.strengths(gradient).amax(1).cpu()
        own = max(own, float(by_sample[asked].max()))
        others = max(others, float(by_sample[~asked].max()))
    if own == 0.0:
        return None if others == 0.0 else float("inf")
    return others / own


def _changes(
    model: nn.Module, ran: EvalPass, left_out: list[str]
) -> tuple[float | None, float | None, float | None]:
    """Relative changes by other company, by reversed order, by nothing."""
    if ran.samples < 2:
        left_out.append("place in the batch: it holds one sample")
        return None, None, None
    n = ran.samples
    # alone and in the first place: it has lost the samples before and behind it, and its own place
    first = _change(model, ran, [n // 2])
    if first is not None and first <= tolerance_of(ran.output):
        return first, first, first
    repeat = _change(model, ran, list(range(n)))
    location = _change(model, ran, list(range(n - 1, -1, -1)))
    same_places = _change(model, ran, [*range(n - 1)])  # the last one is gone, the others stay
    if repeat is None:
        left_out.append("samples by value: the output changes its shape from pass to pass")
    return same_places, location, repeat


def _state(model: nn.Module, ran: EvalPass) -> float | None:
    """Relative change between two passes that draw the same random numbers."""
    everyone = list(range(ran.samples))
    outputs = []
    for _ in range(2):
        with preserve_random_state():
            seed_generators(0)
            outputs.append(_output(model, ran, everyone))
    first, second = outputs
    if first is None or second is None or first.shape != second.shape:
        return None
    return _relative(first, second)


def _change(model: nn.Module, ran: EvalPass, chosen: list[int]) -> float | None:
    """‖f(x)_chosen − f(x_chosen)‖∞ over ‖f(x)‖∞; None where the model cannot take these samples."""
    after = _output(model, ran, chosen)
    before = ran.by_sample.detach()[chosen]
    return None if after is None or before.shape != after.shape else _relative(before, after)


def _output(model: nn.Module, ran: EvalPass, chosen: list[int]) -> Tensor | None:
    """The output of these samples in this order, samples first; None where the model cannot take them."""
    some = select_samples(ran.inputs, chosen, axis=ran.input_axis)
    try:
        with torch.no_grad():
            result = predictions(run_forward(model, copy_tensors(some)))
    except BathyscopeError:
        return None
    if result is not None and result.ndim + 1 == ran.output.ndim and not ran.output_axis:
        fits = result.shape[0] == len(chosen) * ran.output.shape[1]  # samples and positions in one
        result = result.unflatten(0, (len(chosen), -1)) if fits else None
    if result is None or result.ndim != ran.output.ndim:
        return None
    if result.shape[ran.output_axis] != len(chosen):
        return None
    return result.movedim(ran.output_axis, 0)


def _relative(before: Tensor, after: Tensor) -> float:
    if not before.numel():
        return 0.0
    apart = (before.double() - after.double()).abs()
    (size,), (largest,) = fetch([before.abs().max(), apart.nan_to_num(0.0).max()])
    return largest / size if size else largest


def _batch_statistics(model: nn.Module) -> tuple[str, ...]:
    return tuple(
        name
        for name, module in named_modules(model).items()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None
    )
