"""What one step of the optimizer does to the loss of the batch it was made from, without taking it."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bathyscope.core.batch import Batch, LossFn, loss_value
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Measurement


def step_measurement(
    model: nn.Module,
    batch: Batch,
    steps: Mapping[str, Tensor],
    *,
    loss: LossFn,
    optimizer: torch.optim.Optimizer,
) -> Measurement:
    """The measurement `step`: the loss after it, the largest learning rate and momentum, in `settings`."""
    groups = optimizer.param_groups
    settings = {
        "loss_after": loss_after(model, batch, steps, loss=loss),
        "learning_rate": max((float(g["lr"]) for g in groups if "lr" in g), default=None),
        "momentum": max((float(g.get("momentum") or 0.0) for g in groups), default=0.0),
    }
    return Measurement(name="step", blocks=(), columns={}, settings=settings)


def loss_after(
    model: nn.Module, batch: Batch, steps: Mapping[str, Tensor], *, loss: LossFn
) -> float | None:
    """The loss at W + ΔW on the same batch, with the same random numbers; the model stays as it is.

    A step along the gradient lowers this loss unless it is longer than the curvature allows, so the
    number says of a learning rate whether it overshoots.

    Args:
        model: any module; it is called with other tensors in place of its parameters.
        batch: inputs and targets.
        steps: ΔW by parameter name, as `next_steps` gives it.
        loss: a scalar from output and targets.

    Returns:
        The loss; None where the model cannot be called so.

    Examples:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(model.weight, 3.0)
        >>> batch = torch.ones(2, 1), torch.zeros(2, 1)
        >>> loss_after(model, batch, {"weight": torch.full((1, 1), -2.0)}, loss=nn.functional.mse_loss)
        1.0
    """
    model = unwrap(model)
    named = dict(model.named_parameters())
    moved = {n: (named[n].detach() + d.to(named[n].device)).to(named[n].dtype)
             for n, d in steps.items()}  # fmt: skip
    inputs, targets = batch
    arguments = copy_tensors(inputs)
    if isinstance(arguments, Mapping):
        args, kwargs = (), dict(arguments)
    else:
        args = tuple(arguments) if isinstance(arguments, (tuple, list)) else (arguments,)
        kwargs = {}
    with preserve_model(model, copy_parameters=False), torch.no_grad():
        try:
            output = functional_call(model, moved, args, kwargs)
            return float(loss_value(loss, output, targets, differentiable=False))
        except (BathyscopeError, RuntimeError, TypeError, ValueError):
            return None  # modules that hold their weights elsewhere cannot be called with others
