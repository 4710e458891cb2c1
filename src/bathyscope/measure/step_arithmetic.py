"""What the arithmetic of a step loses: numbers that its dtype cannot hold, gradients below its epsilon."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bathyscope.core.calls import unwrap
from bathyscope.core.fetch import fetch
from bathyscope.core.hook_copies import copy_step_hooks

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
    names = {id(p): name for name, p in unwrap(model).named_parameters()}
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
