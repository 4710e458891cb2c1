"""Steps of training on a copy: the model and the optimizer that were given stay as they are."""

import copy
import inspect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from bathyscope.core.batch import Batch, LossFn, loss_value, run_forward
from bathyscope.core.calls import check_takes_hooks, unwrap
from bathyscope.core.devices import differentiable_rnns
from bathyscope.core.errors import BathyscopeError, UsageError, in_a_line
from bathyscope.core.fetch import fetch
from bathyscope.core.hook_copies import copy_gradient_hooks, copy_step_hooks, empty_copies
from bathyscope.core.nested import copy_tensors
from bathyscope.core.probe import accumulate_gradients

LEARNING_RATE = 0.1
"""Without an optimizer: SGD with momentum 0.9, as the papers train."""


@runtime_checkable
class TakesSteps(Protocol):
    """What takes the steps of a training: an optimizer, or several as one."""

    def step(self) -> object:
        """Take one."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""


@dataclass(slots=True)
class TrainingStep:
    """A step of a training up to its gradients, which are where the optimizer looks.

    Attributes:
        number: counted from 1.
        batch: what it is taken on.
        value: the loss before it, without its graph.
        output: of the model; None once the step is taken, so that no step holds the graph of another.
    """

    number: int
    batch: Batch
    value: Tensor
    output: object
    _optimizer: TakesSteps = field(repr=False)
    _is_taken: bool = False
    _loss: float | None = None

    @property
    def loss(self) -> float:
        """Before it, as a number; on an accelerator the host waits for it once."""
        return self.loss_and()[0] if self._loss is None else self._loss

    def loss_and(self, *others: Tensor) -> list[float]:
        """The loss and other numbers of its device, all in one transfer."""
        (self._loss,), *rest = fetch([self.value, *others])
        return [self._loss, *(number for (number,) in rest)]

    def take(self) -> None:
        """Let the optimizer take it; a second call does nothing.

        Raises:
            UsageError: the optimizer raises, as Adam does on a sparse gradient.
        """
        self.output = None
        if self._is_taken:
            return
        self._is_taken = True
        try:
            take_step(self._optimizer)
        except BathyscopeError:
            raise
        except Exception as error:  # a user's own optimizer and its hooks may raise anything
            kind = type(self._optimizer).__name__
            raise UsageError(
                f"The optimizer ({kind}) cannot take a step: {in_a_line(error)}."
            ) from error


# Of torch.optim, those in which no parameter's step depends on another parameter's gradient.
_ONE_BY_ONE = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam")
_PARTS = 16
_LEAST_PART = 2**20  # bytes: what is smaller is stepped at once


def steps_one_by_one(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it is one of torch's own that step each entry by itself."""
    kind = type(optimizer)
    return kind.__name__ in _ONE_BY_ONE and kind.__module__.startswith("torch.optim")


def parts_of(
    optimizer: torch.optim.Optimizer, stepped: Sequence[nn.Parameter]
) -> list[list[nn.Parameter]]:
    """The parameters that step together: all, or runs of about a sixteenth of the model."""
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if not steps_one_by_one(optimizer) or hooks:
        return [list(stepped)]
    largest = max(_LEAST_PART, sum(p.nbytes for p in stepped) // _PARTS)
    parts: list[list[nn.Parameter]] = [[]]
    size = 0
    for parameter in stepped:
        if parts[-1] and size + parameter.nbytes > largest:
            parts.append([])
            size = 0
        parts[-1].append(parameter)
        size += parameter.nbytes
    return parts


def take_step(optimizer: TakesSteps) -> None:
    """Let an optimizer step; on a device some of its parameters after the others, where that is the same.

    torch's kernels for many tensors at once take as much room for what lies between as the tensors have.
    """
    parts = _parts_on_device(optimizer)
    if not isinstance(optimizer, torch.optim.Optimizer) or len(parts) < 2:
        optimizer.step()
        return
    groups = optimizer.param_groups
    given = [group["params"] for group in groups]
    try:
        for part in parts:
            wanted = {id(p) for p in part}
            for group, own in zip(groups, given, strict=True):
                group["params"] = [p for p in own if id(p) in wanted]
            optimizer.step()
    finally:
        for group, own in zip(groups, given, strict=True):
            group["params"] = own


def _parts_on_device(optimizer: TakesSteps) -> list[list[nn.Parameter]]:
    """What steps apart; nothing where parameters are on the CPU or someone has a hook on whole steps."""
    if not isinstance(optimizer, torch.optim.Optimizer) or "step" in vars(optimizer):
        return []
    if _global_optimizer_pre_hooks or _global_optimizer_post_hooks:
        return []
    held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not held or any(p.device.type == "cpu" for p in held):
        return []
    return parts_of(optimizer, held)


def train_steps(
    model: nn.Module,
    optimizer: TakesSteps,
    batches: Iterable[Batch],
    *,
    loss: LossFn,
    accumulate: int = 1,
) -> Iterator[TrainingStep]:
    """Train a model, one step per batch; each is given out before the optimizer takes it.

    It is taken when the next one is asked for, or earlier by `take()`. A step with a loss that is
    non-finite is the last one.

    Args:
        model: trained in place, mostly a copy (`copy_training`).
        optimizer: its own.
        batches: inputs and targets; none is sampled before it is needed.
        loss: a scalar from output and targets.
        accumulate: batches whose mean gradient makes a step; its output is that of the last of them.

    Examples:
        >>> import torch.nn.functional as F
        >>> twin, stepper = copy_training(nn.Linear(4, 3), None)
        >>> batch = torch.randn(8, 4), torch.randint(3, (8,))
        >>> steps = train_steps(twin, stepper, [batch] * 9, loss=F.cross_entropy)
        >>> losses = [step.loss for step in steps]
        >>> len(losses), losses[-1] < losses[0]
        (9, True)
    """
    rest = iter(batches)
    for number in itertools.count(1):
        group = list(islice(rest, accumulate))
        if not group:
            return
        optimizer.zero_grad(set_to_none=True)
        values: list[Tensor] = []
        for batch in group:
            inputs, targets = batch
            with differentiable_rnns(model):
                output = run_forward(model, copy_tensors(inputs))
                value = loss_value(loss, output, targets)
                accumulate_gradients(value if len(group) == 1 else value / len(group))
            values.append(value.detach())
        total = values[0] if len(group) == 1 else torch.stack(values).double().mean()
        step = TrainingStep(number, batch, total, output, optimizer)
        del output, value
        yield step
        step.take()
        if not math.isfinite(step.loss):
            return


def train_over(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Batch],
    *,
    loss: LossFn,
) -> list[float]:
    """Take one step per batch; the loss before each. It ends where the loss is non-finite."""
    return [step.loss for step in train_steps(model, optimizer, batches, loss=loss)]


def copy_with_optimizers(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    """Copy a model and the optimizers that share its parameters, as `copy_training` does with one.

    Raises:
        UsageError: as `copy_training`.
    """
    twin, first, memo = _copy_training(model, optimizers[0])
    assert first is not None
    copies = [first]
    for optimizer in optimizers[1:]:
        _check_training(unwrap(model), optimizer)
        copied = copy.deepcopy(optimizer, memo)
        copy_step_hooks(optimizer, copied, memo)
        copies.append(copied)
    return twin, copies


def copy_training(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, *, lr: float = LEARNING_RATE
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Copy a model and its optimizer, connected with one another as the originals are.

    Hooks of the optimizer's step, as those that clip or warm up, and hooks on the gradients of
    parameters are copied with what they hold; torch's own copies lack both.

    Args:
        model: any module; of a wrapped one, what is inside.
        optimizer: whose type, state and settings the copy's has; SGD for None.
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
    twin, stepper, _ = _copy_training(model, optimizer)
    if stepper is None:
        trained = [p for p in twin.parameters() if p.requires_grad]
        stepper = torch.optim.SGD(trained, lr=lr, momentum=0.9)
    return twin, stepper


def _copy_training(
    model: nn.Module, optimizer: torch.optim.Optimizer | None
) -> tuple[nn.Module, torch.optim.Optimizer | None, dict[int, object]]:
    """Both copies, and the memo that further copies may share."""
    original = unwrap(model)
    for name, module in original.named_modules():
        check_takes_hooks(module, name)
    _check_training(original, optimizer)
    memo = empty_copies(original)
    try:
        twin = copy.deepcopy(original, memo)
        # a `__deepcopy__` of the user's own may keep no memo, by which the optimizer finds the copies
        memo |= {id(p): q for p, q in zip(original.parameters(), twin.parameters(), strict=False)}
        stepper = copy.deepcopy(optimizer, memo)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{type(original).__name__} cannot be copied for a look-ahead: {error}; "
            "use the standard probes."
        ) from error
    copy_gradient_hooks(original, twin, memo)
    if optimizer is not None and stepper is not None:
        copy_step_hooks(optimizer, stepper, memo)
    return twin, stepper, memo


def copy_to_cpu(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> tuple[nn.Module, torch.optim.Optimizer | None]:
    """Model and optimizer as copies on the CPU, for what their device cannot compute.

    Raises:
        UsageError: the model cannot be copied.
    """
    twin, stepper, _ = _copy_training(model, optimizer)
    twin = twin.to("cpu")
    for state in [] if stepper is None else stepper.state.values():
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                state[name] = value.cpu()
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


def check_optimizer(optimizer: object) -> None:
    """Raise where something is not an optimizer.

    Raises:
        UsageError: a class of optimizers, or something else.
    """
    if isinstance(optimizer, type) or not hasattr(optimizer, "param_groups"):
        given = "class" if isinstance(optimizer, type) else type(optimizer).__name__
        raise UsageError(
            f"The optimizer is a torch.optim.Optimizer, but a {given} was given; "
            "build it from model.parameters()."
        )


def optimizer_label(optimizer: torch.optim.Optimizer) -> str:
    """Its kind and its learning rates.

    Examples:
        >>> optimizer_label(torch.optim.AdamW(nn.Linear(2, 2).parameters(), lr=1e-8))
        'AdamW at 1e-08'
    """
    rates = sorted({float(group["lr"]) for group in optimizer.param_groups if "lr" in group})
    kind = type(optimizer).__name__
    if not rates:
        return kind
    return f"{kind} at {rates[0]:.3g}" + (f" to {rates[-1]:.3g}" if len(rates) > 1 else "")


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer's step asks for a function that computes the loss (as LBFGS does)."""
    if isinstance(optimizer, torch.optim.LBFGS):
        return True
    try:
        parameters = inspect.signature(optimizer.step).parameters
    except (AttributeError, TypeError, ValueError):  # not an optimizer, which is said elsewhere
        return False
    return "closure" in parameters and parameters["closure"].default is inspect.Parameter.empty


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
