"""The Hessians of many runs of one small network as one computation."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.batchnorm import _NormBase

from bathyscope.core.batch import Batch, LossFn, check_batch
from bathyscope.core.errors import UsageError
from bathyscope.core.memory import available_bytes
from bathyscope.curvature.dense_matrix import check_room_for_matrices


def stacked_hessians(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    batch: Batch,
    *,
    loss: LossFn,
) -> Float[Tensor, " runs D D"]:
    """The dense Hessian of every run, for parameters stacked along a first dimension.

    One vectorised computation over runs and columns, not a loop: for the small networks whose
    runs over learning rates and seeds are trained together. The coordinates are ordered as
    `parameters` is. The model is used in eval mode; its own parameters are not read.

    Args:
        model: the network that all runs share; no BatchNorm.
        parameters: name to tensor of shape (runs, ...), as `torch.func.stack_module_state` gives.
        batch: inputs and targets, the same for all runs.
        loss: a scalar from output and targets.

    Raises:
        UsageError: BatchNorm in the model, or matrices that would not fit.

    Examples:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> runs = {"weight": torch.zeros(3, 1, 1)}
        >>> batch = (torch.tensor([[2.0]]), torch.tensor([[1.0]]))
        >>> stacked_hessians(model, runs, batch, loss=nn.functional.mse_loss).flatten().tolist()
        [8.0, 8.0, 8.0]
    """
    inputs, targets = check_batch(model, batch)
    if any(isinstance(m, _NormBase) for m in model.modules()):
        raise UsageError("Stacked Hessians are for networks without BatchNorm; use `hessian`.")
    runs = len(next(iter(parameters.values())))
    names, shapes = list(parameters), [p.shape[1:] for p in parameters.values()]
    sizes = [shape.numel() for shape in shapes]
    flat = torch.cat([p.detach().reshape(runs, -1) for p in parameters.values()], dim=1)
    check_room_for_matrices(runs, flat.shape[1], flat)

    def loss_of(vector: Tensor) -> Tensor:
        parts = vector.split(sizes)
        theta = {n: p.reshape(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        args = inputs if isinstance(inputs, tuple) else (inputs,)
        return loss(functional_call(model, theta, args), targets)

    # backward over a kept gradient graph: the columns of all runs share one forward pass
    vector = flat.clone().requires_grad_()
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        with torch.enable_grad():
            values = vmap(loss_of)(vector)
            (gradient,) = torch.autograd.grad(values.sum(), vector, create_graph=True)
        rows = _rows(gradient, vector, at_once=_columns_at_once(flat, inputs))
    finally:
        for module, training in modes:
            module.training = training
    matrix = rows.transpose(0, 1)
    return (matrix + matrix.transpose(1, 2)) / 2


def _rows(
    gradient: Float[Tensor, " runs D"], vector: Float[Tensor, " runs D"], *, at_once: int
) -> Float[Tensor, " D runs D"]:
    """The same row of every run's matrix at once: the runs do not interact, so that one unit vector
    serves them all."""
    units = torch.eye(vector.shape[1], dtype=vector.dtype, device=vector.device)
    rows = []
    for part in units.split(at_once):
        cotangents = part[:, None, :].expand(len(part), *gradient.shape)
        (found,) = torch.autograd.grad(
            gradient, vector, cotangents, retain_graph=True, is_grads_batched=True
        )
        rows.append(found)
    return torch.cat(rows)


def _columns_at_once(flat: Tensor, inputs: object) -> int:
    """Columns whose activations, a guess of parameters × samples numbers a run, fill an eighth of memory."""
    samples = len(inputs) if isinstance(inputs, Tensor) else 1
    one = flat.numel() * max(1, samples) * flat.element_size()
    return int(max(1, min(64, available_bytes(flat.device) // (8 * one))))
