"""The Hessian and the Gauss-Newton matrix of any loss of any module, ready to be asked."""

from collections.abc import Iterable

import torch.nn.functional as F
from torch import nn

from bathyscope.core.batch import LossFn
from bathyscope.curvature.matrix import CurvatureMatrix
from bathyscope.curvature.objective import BatchNormMode, objective_of
from bathyscope.curvature.products import CurvatureOperator
from bathyscope.curvature.terms import GaussNewtonTerm, HessianTerm


def hessian(
    model: nn.Module,
    batches: object,
    *,
    loss: LossFn | str = F.cross_entropy,
    batchnorm: BatchNormMode = "batch",
    parameters: Iterable[str] | None = None,
    progress: bool = False,
) -> CurvatureMatrix:
    """The Hessian ∂²L/∂θ∂θ of the mean loss over all samples, ready to be asked.

    L(θ) = Σ_b (n_b/N) loss(model(x_b), y_b) for a loss averaged over its batch, so ragged batches
    count by their samples. The model runs in eval mode without dropout, except that BatchNorm
    normalizes by the batch's own statistics with `batchnorm="batch"`: L then depends on how the
    data are cut into batches (one batch gives the statistics of all samples). The model is left
    bit for bit as it was, and the matrix follows it: once parameters, buffers or the tensors of the
    data have changed, by whatever means, the next question is answered for the new ones.

    Args:
        model: any module; wrappers (DataParallel, `torch.compile`) are looked through. A model in
            shards (`fully_shard`) is put together once, as it is now, in every process.
        batches: one batch (inputs, targets), or any iterable of batches; where a group of
            processes holds the model together (DistributedDataParallel, `fully_shard`) each has its
            own part, and the matrix is that of all parts together.
        loss: a scalar from output and targets, averaged over the batch; or its name.
        batchnorm: statistics of the batch, or the running ones of evaluation.
        parameters: names or globs as in `named_parameters()`; None for all. Frozen parameters and
            those the loss does not reach have zero rows.
        progress: count products on the terminal when it takes longer than two seconds.

    Raises:
        UsageError: no module, no parameters, parameters that are not there yet or are complex,
            nothing matches, or data that is neither batch nor loader.

    Examples:
        >>> import torch
        >>> model = nn.Linear(2, 1, bias=False)
        >>> x = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> H = hessian(model, (x, torch.zeros(2, 1)), loss=F.mse_loss)
        >>> H.dense().tolist()
        [[4.0, 0.0], [0.0, 1.0]]
        >>> round(H.condition_number(definition="smallest").value, 6)
        4.0
    """
    objective = objective_of(model, batches, loss=loss, batchnorm=batchnorm, parameters=parameters)
    return CurvatureMatrix("hessian", CurvatureOperator(objective, HessianTerm.of), progress)


def gauss_newton(
    model: nn.Module,
    batches: object,
    *,
    loss: LossFn | str = F.cross_entropy,
    batchnorm: BatchNormMode = "batch",
    parameters: Iterable[str] | None = None,
    progress: bool = False,
) -> CurvatureMatrix:
    """The generalized Gauss-Newton matrix Σ_b (n_b/N) J_bᵀ ∇²ℓ J_b: the Hessian without the model's
    own curvature, positive semi-definite for a convex loss.

    Arguments and objective are those of `hessian`; the model's output must be one tensor.

    Examples:
        >>> import torch
        >>> model = nn.Linear(2, 1, bias=False)
        >>> batch = (torch.eye(2), torch.zeros(2, 1))
        >>> gauss_newton(model, batch, loss=F.mse_loss).dense().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    objective = objective_of(model, batches, loss=loss, batchnorm=batchnorm, parameters=parameters)
    operator = CurvatureOperator(objective, GaussNewtonTerm.of)
    return CurvatureMatrix("gauss_newton", operator, progress)
