"""The function whose second derivative is taken: a loss of a model on data, in a stated mode."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase

from bathyscope.core import preserve_model
from bathyscope.core.arguments import check_choice, check_names
from bathyscope.core.batch import Batch, LossFn, check_parameters, loss_value, run_forward
from bathyscope.core.devices import (
    ON_A_COPY,
    differentiable_rnns,
    exact_products,
    is_packed,
    lacks_double,
    on_cpu,
    packed_note,
)
from bathyscope.core.errors import BathyscopeError, UnknownName, UsageError
from bathyscope.core.global_state import autocast_nowhere
from bathyscope.core.losses import loss_named
from bathyscope.core.nested import copy_tensors
from bathyscope.core.processes import processes_of
from bathyscope.core.shards import gather_agreed
from bathyscope.core.stepping import copy_to_cpu
from bathyscope.curvature.batches import Batches
from bathyscope.curvature.batchnorm import lean_batchnorm

BatchNormMode = Literal["batch", "running"]


@dataclass(slots=True)
class Objective:
    """L(θ) = Σ_b (n_b/N) loss(model(x_b), y_b), the mean over samples for a mean-reduced loss.

    The model runs in eval mode, so that L is a function (no dropout), but for its BatchNorm layers:
    with `batchnorm="batch"` they normalize each batch by its own statistics, and L depends on how
    the samples are cut into batches. `shared` says that a group of processes holds the model together.
    """

    model: nn.Module
    loss: LossFn
    batches: Batches
    batchnorm: BatchNormMode
    parameters: Mapping[str, nn.Parameter]
    math_attention: bool = False
    shared: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def normalizes(self) -> bool:
        """Whether the model has layers for which `batchnorm` matters."""
        return any(isinstance(m, _NormBase) for m in self.model.modules())

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """The model in the stated mode, put back afterwards; graphs made inside stay valid.

        Layers read copies of their buffers: a graph kept beyond this context would otherwise find
        its saved statistics overwritten when the buffers are put back.
        """
        with ExitStack() as stack:
            stack.enter_context(preserve_model(self.model, copy_parameters=False))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            stack.enter_context(differentiable_rnns(self.model, twice=True))
            stack.enter_context(exact_products())
            stack.enter_context(autocast_nowhere())
            if self.math_attention:
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            self._set_modes()
            stack.enter_context(lean_batchnorm(self.model))
            yield

    @contextmanager
    def with_math_attention(self) -> Iterator[None]:
        """From now on compute attention by torch's math kernel, and say so.

        Raises:
            BathyscopeError: the model itself asks for a fused kernel.
        """
        if self.math_attention:
            raise BathyscopeError(
                "The model asks for a fused attention kernel, which has no second derivative; "
                "take its own `sdpa_kernel(...)` context away."
            )
        self.math_attention = True
        self.say(
            "A fused attention kernel has no second derivative: attention was computed with "
            "torch's math kernel instead (the same function, more memory)."
        )
        with sdpa_kernel(SDPBackend.MATH):
            yield

    def _set_modes(self) -> None:
        copies: dict[int, Tensor] = {}
        for module in self.model.modules():
            normalizes = isinstance(module, _NormBase)
            module.training = normalizes and self.batchnorm == "batch"
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    copy = copies.setdefault(id(buffer), buffer.detach().clone())
                    module._buffers[name] = copy

    def output(self, batch: Batch) -> object:
        """The model's output on a batch, with its graph."""
        return run_forward(self.model, copy_tensors(batch[0]))

    def value(self, batch: Batch) -> Tensor:
        """The loss on a batch, with its graph.

        Raises:
            UsageError: the loss carries no graph, is not a scalar, or is non-finite.
        """
        value = loss_value(self.loss, self.output(batch), batch[1])
        if not bool(torch.isfinite(value)):
            raise UsageError(
                f"The loss is {float(value.detach())} at these parameters; there is no curvature "
                "to measure. Look for the first block that is non-finite with `diagnose`."
            )
        return value

    def say(self, note: str) -> None:
        """Keep a note for the reader, once, and warn."""
        if note not in self.notes:
            self.notes.append(note)
            warnings.warn(note, stacklevel=4)


def objective_of(
    model: nn.Module,
    data: object,
    *,
    loss: LossFn | str,
    batchnorm: BatchNormMode,
    parameters: Iterable[str] | None,
) -> Objective:
    """The objective of a model as the user hands it in, checked.

    Raises:
        UsageError: no module, no parameters, parameters that are not there yet or are complex,
            nothing matches, or data that is neither batch nor loader.
    """
    check_parameters(model)
    shared = processes_of(model) is not None
    model = gather_agreed(model, what="hessian")
    is_copied = lacks_double(model)
    if is_copied:
        model, data = copy_to_cpu(model)[0], on_cpu(data)
    check_choice("batchnorm", batchnorm, get_args(BatchNormMode))
    chosen = _choose_parameters(model, parameters)
    packed = [name for name, p in chosen.items() if is_packed(p)]
    chosen = {name: p for name, p in chosen.items() if name not in packed}
    objective = Objective(
        model=model,
        loss=loss_named(loss) if isinstance(loss, str) else loss,
        batches=Batches(data, model),
        batchnorm=batchnorm,
        parameters=chosen,
        shared=shared,
    )
    if is_copied:
        objective.notes.append(ON_A_COPY)
    if packed:
        objective.notes.append(packed_note(packed))
    if objective.normalizes and batchnorm == "batch" and objective.batches.num_batches > 1:
        objective.notes.append(
            f"Each of the {objective.batches.num_batches} batches is normalized by its own "
            "statistics: the loss is the mean of theirs, weighted by samples."
        )
    return objective


def _choose_parameters(model: nn.Module, patterns: Iterable[str] | None) -> dict[str, nn.Parameter]:
    named = dict(model.named_parameters())
    chosen = named if patterns is None else _matching(named, patterns)
    for name, parameter in chosen.items():
        if parameter.is_complex():
            raise UsageError(
                f"The parameter {name} is complex; curvature is that of real parameters. Leave it "
                "out with parameters=[...], or hold its real and imaginary parts apart."
            )
    if not any(p.requires_grad and p.numel() for p in chosen.values()):
        raise UsageError(
            "All parameters asked for are frozen (requires_grad is False): their curvature is zero. "
            "Unfreeze some, or choose others with parameters=[...]."
        )
    return chosen


def _matching(
    named: Mapping[str, nn.Parameter], patterns: Iterable[str]
) -> dict[str, nn.Parameter]:
    wanted = check_names("parameters", patterns, minimum=1)
    for pattern in wanted:
        if not any(fnmatchcase(name, pattern) for name in named):
            raise UnknownName("parameter", pattern, named)
    return {n: p for n, p in named.items() if any(fnmatchcase(n, w) for w in wanted)}
