"""Gradient descent of one small network from many seeds and at many learning rates, as one computation."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from bathyscope.training import Examples
from bathyscope.training.batches import derived_seed


def final_losses(
    build: Callable[[], nn.Module],
    examples: Examples,
    *,
    points: Sequence[tuple[float, int]],
    steps: int,
) -> list[float]:
    """Mean squared error before the last of some steps of full-batch gradient descent, for every run.

    θ ← θ − η ∂E/∂θ, with the gradients of all runs by one `vmap`: a matrix product of 64 small networks
    costs little more than that of one.

    Args:
        build: makes the network, under each run's seed; it has no buffers.
        examples: inputs and targets.
        points: learning rate and seed of every run.
        steps: to take.

    Returns:
        In the order of the points; infinite where a loss or a gradient was NaN or Inf.
    """
    inputs, targets = examples
    networks = {seed: _network(build, seed).to(inputs) for _, seed in points}
    template = next(iter(networks.values()))

    def error(parameters: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(functional_call(template, parameters, (inputs,)), targets)

    stacked, _ = stack_module_state([networks[seed] for _, seed in points])
    parameters = {name: values.detach() for name, values in stacked.items()}
    rates = inputs.new_tensor([rate for rate, _ in points])
    running = torch.arange(len(points))
    losses = inputs.new_full((len(points),), torch.inf)
    for step in range(steps):
        gradients, values = vmap(grad_and_value(error))(parameters)
        # a run leaves as soon as one of its numbers is NaN or Inf: their sum is too
        finite = torch.isfinite(values + sum(g.flatten(1).norm(dim=1) for g in gradients.values()))
        if not bool(finite.all()):
            running, rates, values = running[finite], rates[finite], values[finite]
            parameters = {name: p[finite] for name, p in parameters.items()}
            gradients = {name: g[finite] for name, g in gradients.items()}
        if not len(running):
            break
        if step == steps - 1:
            losses[running] = values
        for name, p in parameters.items():
            p.addcmul_(gradients[name], rates.view(-1, *[1] * (p.ndim - 1)), value=-1)
    return [float(loss) for loss in losses]


def _network(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(derived_seed(seed, "weights"))
    return build()
