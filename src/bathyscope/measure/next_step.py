"""The step that an optimizer would take: what its arithmetic loses, and what it does to the loss.

The arithmetic loses numbers that its dtype cannot hold, and gradients below its epsilon. The loss after the
step is that of the batch which it was made from.
"""

import copy
import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from bathyscope.core.batch import Batch, LossFn, loss_value
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.fetch import SMALL, fetch, in_parts
from bathyscope.core.hook_copies import copy_step_hooks
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.records import Measurement
from bathyscope.core.stepping import check_optimizer, parts_of, steps_one_by_one
from bathyscope.core.walks import named_parameters

_HALF = (torch.float16, torch.bfloat16)


def non_finite_in_own_dtype(
    model: nn.Module, gradients: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """Fraction of the entries that one step in their own short dtype makes NaN or Inf, by name.

    Adam's ε of 1e-8 is zero in float16, and so is the square of a gradient below 2e-4: the step
    divides by zero. Parameters in float32 and longer formats are left out.
    """
    if not any(p.dtype in _HALF for group in optimizer.param_groups for p in group["params"]):
        return {}
    names = {id(p): name for name, p in unwrap(model).named_parameters()}
    memo: dict[int, object] = {}
    pairs: list[tuple[str, nn.Parameter]] = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            gradient = gradients.get(names.get(id(p), ""))
            if p.dtype not in _HALF or gradient is None:
                memo[id(p)] = nn.Parameter(p.detach(), requires_grad=p.requires_grad)
                continue
            ours = memo[id(p)] = nn.Parameter(p.detach().clone(), p.requires_grad)
            ours.grad = gradient.to(p.dtype)
            pairs.append((names[id(p)], ours))
    if not pairs:
        return {}
    twin = copy.deepcopy(optimizer, memo)
    copy_step_hooks(optimizer, twin, memo)
    twin.step()
    finite = fetch([ours.detach().isfinite().float().mean() for _, ours in pairs])
    return {name: 1 - fraction for (name, _), (fraction,) in zip(pairs, finite, strict=True)}


def below_epsilon(
    model: nn.Module, gradients: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, float]:
    """Fraction of the entries with a gradient whose √v̂ lies below a tenth of Adam's ε, by name.

    v̂ = (β₂ v + (1 − β₂) g²) / (1 − β₂^t) is the second moment of the step that comes next.
    """
    names = {id(p): name for name, p in named_parameters(unwrap(model)).items()}
    counts: dict[str, Tensor] = {}
    for group in optimizer.param_groups:
        epsilon, betas = group.get("eps"), group.get("betas")
        if not isinstance(epsilon, float) or betas is None or len(betas) != 2:
            continue
        for p in group["params"]:
            name = names.get(id(p), "")
            gradient = gradients.get(name)
            if gradient is None or gradient.is_sparse or not p.numel():
                continue
            state = optimizer.state.get(p, {})
            before, step = state.get("exp_avg_sq"), float(state.get("step", 0.0)) + 1
            beta = float(betas[1])
            square = gradient.double().square()
            if isinstance(before, Tensor) and before.shape == square.shape:
                square = beta * before.double() + (1 - beta) * square
                square /= 1 - beta**step
            there = gradient != 0
            small = there & (square.sqrt() < 0.1 * epsilon)
            counts[name] = torch.stack([small.sum(), there.sum()])
    numbers = zip(counts, fetch(list(counts.values())), strict=True)
    return {name: number / max(1, entries) for name, (number, entries) in numbers}


def next_steps(
    model: nn.Module, gradients: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """ΔW of every parameter that the optimizer would step, by name.

    The steps are taken in float64, and what they change is kept in float32 at least.
    Optimizers of torch that step each parameter by itself step a few at a time: in float64 a whole
    model with its state would be many times its size.

    Raises:
        UsageError: it is not an optimizer, holds none of the model's parameters, or cannot step alone.
    """
    check_optimizer(optimizer)
    names = {id(p): name for name, p in named_parameters(unwrap(model)).items()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if not any(id(p) in names for p in held):
        raise UsageError(
            f"The optimizer ({type(optimizer).__name__}) holds none of the model's parameters; "
            "build it from model.parameters()."
        )
    stepped = [p for p in held if gradients.get(names.get(id(p), "")) is not None]
    result: dict[str, Tensor] = {}
    # a plain step of torch's own sees copies alone
    plain = _is_plain(optimizer) and "step" not in vars(optimizer)
    with nullcontext() if plain else preserve_model(model, copy_parameters=False):
        for part in parts_of(optimizer, stepped):
            try:
                result |= _step_part(optimizer, part, names, gradients)
            except (RuntimeError, TypeError, AttributeError, ValueError) as error:
                raise _cannot_step(optimizer, error) from error
    return {names[id(p)]: result[names[id(p)]] for p in stepped}


def _step_part(
    optimizer: torch.optim.Optimizer,
    part: list[nn.Parameter],
    names: Mapping[int, str],
    gradients: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """ΔW of some parameters, by a copy of the optimizer that holds copies of these alone."""
    wanted = {id(p) for p in part}
    result: dict[str, Tensor] = {}
    if _is_plain(optimizer) and steps_one_by_one(optimizer) and len(wanted) == len(part):
        given = {id(p): gradients[names[id(p)]] for p in part}
        given = {id(p): given[id(p)] for p in part if _can_be_joined(p, given[id(p)])}
        result = {names[id(p)]: step for p, step in _joined_steps(optimizer, given)}
        wanted -= given.keys()
        if not wanted:
            return result
    memo = _wide_copies(optimizer, wanted)
    # the others are held by the copy as they are, and not stepped
    twin = copy.deepcopy(optimizer, memo)
    copy_step_hooks(optimizer, twin, memo)
    pairs: list[tuple[str, nn.Parameter, nn.Parameter]] = []
    for group, copied in zip(optimizer.param_groups, twin.param_groups, strict=True):
        both = list(zip(group["params"], copied["params"], strict=True))
        copied["params"] = [ours for theirs, ours in both if id(theirs) in wanted]
        pairs += [(names[id(t)], t, ours) for t, ours in both if id(t) in wanted]
    for name, _, ours in pairs:
        ours.grad = gradients[name].to(ours.dtype)
    _take_step(twin)
    for name, theirs, ours in pairs:
        ours.grad = None
        kept = torch.promote_types(theirs.dtype, torch.float32)
        result[name] = (ours.detach() - theirs.detach().to(ours.dtype)).to(kept)
    return result


def _can_be_joined(parameter: nn.Parameter, gradient: Tensor) -> bool:
    is_plain = type(parameter) is nn.Parameter and type(gradient) is Tensor
    are_dense = parameter.layout is torch.strided and gradient.layout is torch.strided
    return is_plain and are_dense and parameter.is_floating_point() and parameter.ndim > 0


def _joined_steps(
    optimizer: torch.optim.Optimizer, gradients: Mapping[int, Tensor]
) -> list[tuple[nn.Parameter, Tensor]]:
    """ΔW of parameters whose optimizer steps entry by entry, of many as if they were one long vector.

    Of a hundred parameters the calls cost more than the numbers. Joined are those of one group and dtype
    whose state is alike: counts of steps are, moments are joined too.
    """
    twin = type(optimizer).__new__(type(optimizer))
    state: dict[nn.Parameter, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    joined: list[tuple[list[nn.Parameter], nn.Parameter, Tensor]] = []
    for group in optimizer.param_groups:
        alike: dict[object, list[nn.Parameter]] = {}
        for p in group["params"]:
            if id(p) in gradients:
                alike.setdefault(_alike(p, optimizer.state.get(p, {})), []).append(p)
        groups.append({**group, "params": []})
        for some in (
            part
            for every in alike.values()
            for part in in_parts(every, [parameter.numel() for parameter in every])
        ):
            before = _joined(some)
            ours = nn.Parameter(before.to(torch.float64, copy=True))
            ours.grad = _joined([gradients[id(p)] for p in some]).double()
            of_some = [optimizer.state.get(p, {}) for p in some]
            state[ours] = {
                key: _joined([own[key] for own in of_some]).double()
                if _has_shape_of(value, some[0]) else copy.deepcopy(value)
                for key, value in of_some[0].items()
            }  # fmt: skip
            groups[-1]["params"].append(ours)
            joined.append((some, ours, before))
    own = {"defaults": optimizer.defaults, "state": defaultdict(dict, state)}
    twin.__setstate__({**own, "param_groups": groups})
    _take_step(twin)
    result: list[tuple[nn.Parameter, Tensor]] = []
    for some, ours, before in joined:
        change = (ours.detach() - before).to(torch.promote_types(some[0].dtype, torch.float32))
        parts = change.split([p.numel() for p in some])
        result += [(p, step.view(p.shape)) for p, step in zip(some, parts, strict=True)]
    return result


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _alike(parameter: nn.Parameter, state: Mapping[str, object]) -> object:
    """What two parameters share that can be joined: large ones stand alone."""
    if parameter.numel() > SMALL:
        return id(parameter)
    entries = (
        (key, value.dtype if _has_shape_of(value, parameter) else _number_of(value))
        for key, value in state.items()
    )
    return parameter.dtype, parameter.device, *entries


def _has_shape_of(value: object, parameter: Tensor) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.shape == parameter.shape


def _number_of(value: object) -> object:
    """A state's number; what is on a device is not waited for and taken for another one each time."""
    if not isinstance(value, Tensor):
        return value
    return value.item() if value.numel() == 1 and value.device.type == "cpu" else id(value)


def _is_plain(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of torch's own is what it would be without hooks."""
    hooks = (
        *(optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks),
        *(_global_optimizer_pre_hooks, _global_optimizer_post_hooks),
    )
    is_of_torch = type(optimizer).__module__.startswith("torch.optim")
    return is_of_torch and not any(hooks) and not optimizer.defaults.get("differentiable", True)


def _take_step(twin: torch.optim.Optimizer) -> None:
    """Step, without what torch's own optimizers put around a step for the sake of its compiler.

    The import of the compiler at the first step of a process (`_use_grad_for_differentiable`) takes
    longer than the diagnosis of a small network. Hooks and other optimizers have their whole step.
    """
    if _is_plain(twin) and "step" not in vars(twin):
        with torch.no_grad():
            inspect.unwrap(type(twin).step)(twin)
    else:
        twin.step()


def _wide_copies(optimizer: torch.optim.Optimizer, wanted: set[int]) -> dict[int, object]:
    """Parameters and the parts of their state that have their shape, in float64, by `id`.

    As the memo of `copy.deepcopy` they take the place of the copies it would make one by one; those
    that are not wanted stand for themselves.
    """
    copies: dict[int, object] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = [
                v for v in optimizer.state.get(parameter, {}).values() if isinstance(v, Tensor)
            ]
            if id(parameter) not in wanted:
                copies[id(parameter)] = parameter
                copies |= {id(value): value for value in state}
            elif parameter.is_floating_point():
                copies[id(parameter)] = nn.Parameter(
                    parameter.detach().to(torch.float64, copy=True), parameter.requires_grad
                )
                for value in state:
                    if value.shape == parameter.shape and value.is_floating_point():
                        copies[id(value)] = value.detach().to(torch.float64, copy=True)
    return copies


def _cannot_step(optimizer: torch.optim.Optimizer, error: Exception) -> UsageError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return UsageError(
        f"The optimizer ({type(optimizer).__name__}) cannot step on a copy of the parameters: "
        f"{reason}; give one that steps without a closure."
    )


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
    named = named_parameters(model)
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
