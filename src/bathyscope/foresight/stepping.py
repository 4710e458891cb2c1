"""Steps of training on a copy: the model and the optimizer that were given stay as they are."""

import copy
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from bathyscope.core.batch import Batch, LossFn, loss_value, run_forward
from bathyscope.core.calls import check_takes_hooks, unwrap
from bathyscope.core.errors import BathyscopeError, UsageError, in_a_line
from bathyscope.core.nested import copy_tensors
from bathyscope.core.one_pass import accumulate_gradients
from bathyscope.core.preserve import preserve_buffers
from bathyscope.core.progress import tell_progress
from bathyscope.measure.updates import check_optimizer, needs_closure

LEARNING_RATE = 0.1
"""Without an optimizer: SGD with momentum 0.9, as the papers train."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A copy after some steps of training.

    Attributes:
        step: how many it has taken; 0 is the model as it was given.
        model: the copy itself, which goes on after this stage: look at it now.
        optimizer: the copy's.
        losses: before each step taken.
    """

    step: int
    model: nn.Module
    optimizer: torch.optim.Optimizer
    losses: tuple[float, ...]


def copy_training(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, *, lr: float = LEARNING_RATE
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Copy a model and its optimizer, connected with one another as the originals are.

    Args:
        model: any module; of a wrapped one, what is inside.
        optimizer: whose kind, state and settings the copy's has; SGD for None.
        lr: of that SGD.

    Raises:
        UsageError: the model or the optimizer cannot be copied, nothing is trained, or the
            optimizer holds other parameters or steps only with a closure; or torch.jit has compiled
            a module.

    Examples:
        >>> model = nn.Linear(2, 1)
        >>> twin, stepper = copy_training(model, None)
        >>> stepper.param_groups[0]["params"][0] is twin.weight, twin.weight is model.weight
        (True, False)
    """
    original = unwrap(model)
    for name, module in original.named_modules():
        check_takes_hooks(module, name)
    _check_training(original, optimizer)
    try:
        if optimizer is None:
            twin = copy.deepcopy(original)
            trained = [p for p in twin.parameters() if p.requires_grad]
            return twin, torch.optim.SGD(trained, lr=lr, momentum=0.9)
        twin, stepper = copy.deepcopy((original, optimizer))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{type(original).__name__} cannot be copied for a look-ahead: {error}; "
            "use the standard probes."
        ) from error
    return twin, stepper


def _check_training(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    if not any(p.requires_grad for p in model.parameters()):
        raise UsageError(
            "No parameter of the model requires a gradient; unfreeze those that are to be trained."
        )
    if optimizer is None:
        return
    check_optimizer(optimizer)
    kind = type(optimizer).__name__
    if needs_closure(optimizer):
        raise UsageError(
            f"The optimizer ({kind}) steps only with a closure that computes the loss; give one that "
            "steps without."
        )
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if held.isdisjoint(map(id, model.parameters())):
        raise UsageError(
            f"The optimizer ({kind}) holds none of the model's parameters; build it from "
            "model.parameters()."
        )


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, loss: LossFn
) -> float:
    """Take one step of training on a batch; the loss before it."""
    value, _ = loss_and_gradients(model, optimizer, batch, loss)
    step_(optimizer)
    return value


def step_(optimizer: torch.optim.Optimizer) -> None:
    """The optimizer's own step.

    Raises:
        UsageError: it raises, as Adam does on a sparse gradient.
    """
    try:
        optimizer.step()
    except BathyscopeError:
        raise
    except Exception as error:  # a user's own optimizer and its hooks may raise anything
        raise UsageError(
            f"The optimizer ({type(optimizer).__name__}) cannot take a step: {in_a_line(error)}."
        ) from error


_FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def fuse_(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer step by torch's fused kernels, where it has them: the same to rounding, cheaper.

    Left as they are: other optimizers, those whose settings name a kernel or ask for more than a step,
    and parameters that the kernels do not take (not real, not on a CPU, with sparse gradients).

    Args:
        model: a copy's.
        optimizer: the copy's.
    """
    if type(optimizer) not in _FUSED or any(getattr(m, "sparse", False) for m in model.modules()):
        return
    groups = optimizer.param_groups
    asked = ("fused", "foreach", "capturable", "differentiable")
    if any(group.get(key) for group in groups for key in asked):
        return
    held = [p for group in groups for p in group["params"]]
    if all(p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64) for p in held):
        for group in groups:
            group["fused"] = not isinstance(group["lr"], torch.Tensor)


def loss_and_gradients(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, loss: LossFn
) -> tuple[float, object]:
    """A step up to its gradients, which are left where the optimizer looks: the loss and the output."""
    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    output = run_forward(model, copy_tensors(inputs))
    value = loss_value(loss, output, targets)
    accumulate_gradients(value)
    return float(value.detach()), output


def train_over(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    *,
    loss: LossFn,
) -> list[float]:
    """Take one step a batch; the loss before each. It ends where the loss is not finite."""
    losses: list[float] = []
    for batch in batches:
        losses.append(train_step(model, optimizer, batch, loss))
        if not math.isfinite(losses[-1]):
            break
    return losses


@runtime_checkable
class StepReader(Protocol):
    """Looks at every step of a copy; what it runs on the copy leaves no trace in the next step."""

    def before_step(self, step: int, batch: Batch, value: float, output: object) -> None:
        """The gradients are there, the step is not taken yet."""

    def after_step(self) -> None:
        """The step is taken."""


def look_ahead(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    *,
    loss: LossFn,
    at: Collection[int],
    reader: StepReader | None = None,
) -> Iterator[Stage]:
    """Train a copy, one step a batch, and stop at the stages that are asked for.

    The steps are taken only as the stages are asked for. A loss that is not finite ends it, with a
    stage at the step that showed it.

    Args:
        model: the copy (`copy_training`); it is trained.
        optimizer: the copy's.
        batches: as many as there are steps to take, or more.
        loss: a scalar from output and targets.
        at: the steps after which to stop; 0 is before the first.
        reader: told of every step.

    Examples:
        >>> import torch.nn.functional as F
        >>> twin, stepper = copy_training(nn.Linear(4, 3), None)
        >>> batch = torch.randn(8, 4), torch.randint(3, (8,))
        >>> [s.step for s in look_ahead(twin, stepper, [batch] * 9, loss=F.cross_entropy, at=(0, 1, 8))]
        [0, 1, 8]
    """
    losses: list[float] = []
    if 0 in at:
        yield Stage(0, model, optimizer, ())
    for step, batch in enumerate(batches, 1):
        if step > max(at, default=0):
            return
        tell_progress("step", step, max(at))
        value, output = loss_and_gradients(model, optimizer, batch, loss)
        losses.append(value)
        if reader is not None:
            reader.before_step(step, batch, value, output)
        del output
        step_(optimizer)
        if reader is not None:
            with preserve_buffers(model):
                reader.after_step()
        ended = not math.isfinite(losses[-1])
        if ended or step in at:
            yield Stage(step, model, optimizer, tuple(losses))
        if ended:
            return


def stage_label(step: int) -> str:
    """A stage in words.

    Examples:
        >>> stage_label(0), stage_label(1), stage_label(8)
        ('at the start', 'after 1 step', 'after 8 steps')
    """
    return "at the start" if step == 0 else f"after {step} step{'s' * (step > 1)}"
