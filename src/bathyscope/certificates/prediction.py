"""The best prediction weights of a network on its own features, as values of its parameters."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bathyscope.certificates.basis import nested_basis
from bathyscope.certificates.losses import convex_loss
from bathyscope.certificates.observation import Observation, observe
from bathyscope.certificates.predictor import best_predictor, needed_ridge
from bathyscope.certificates.regularity import regularity
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.errors import UsageError
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, ResNEst, has_bias

_REPRODUCED = 1e-6  # of the wanted product W_{L+1} W_L, relative


@torch.no_grad()
def best_prediction_weights(
    model: nn.Module, data: Batch | Iterable[Batch], *, loss: str | LossFn | None = None
) -> dict[str, Tensor]:
    """Values that bring a network to the smallest risk over its prediction weights, features as they are.

    For an augmented ResNEst and a DenseNEst these are all H_i, and the risk is the lower bound; for a
    ResNEst they are W_{L+1} and W_L (problem P_φ), and the risk is the bound if the features can be
    recovered from x_{L−1} (nests, theorem 1). Where the loss has no minimizer, `EXISTENCE_RIDGE` acts.

    Args:
        model: a network of the family, on vectors or, for the two that act on pooled features, on
            images; it is left as it is.
        data: a pair (inputs, targets), or an iterable of pairs.
        loss: as for `certify`.

    Returns:
        New values by name of the parameter, in float64.

    Raises:
        UsageError: the network has no prediction weights that could be solved for, or the loss is
            not differentiable and convex.

    Examples:
        >>> from bathyscope.nets.nest_vectors import densenest
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> network = densenest(3, 1, feature_sizes=[4])
        >>> found = best_prediction_weights(network, (x, x.sum(dim=1, keepdim=True)))
        >>> _ = network.load_state_dict(network.state_dict() | found)
        >>> bool(torch.allclose(network(x), x.sum(dim=1, keepdim=True), atol=1e-4))
        True
    """
    seen = observe(model, data)
    network = seen.network
    if isinstance(network, ResNEst):
        return _residual(seen, network, loss)
    if not isinstance(network, (AugmentedResNEst, DenseNEst)):
        raise UsageError(
            f"A {type(network).__name__} is not a ResNEst, augmented ResNEst or DenseNEst: its outputs are "
            "not linear in its features, so there are no prediction weights to solve for."
        )
    weights, constant = _solve(seen, seen.features, loss, intercept=seen.intercept)
    if isinstance(network, DenseNEst):
        result = {"output.weight": torch.cat(weights).T}
        return result | ({"output.bias": constant} if has_bias(network.output) else {})
    result = {f"heads.{i}.weight": H.T for i, H in enumerate(weights)}
    biased = [i for i, head in enumerate(network.heads) if has_bias(head)]
    for i in biased:
        result[f"heads.{i}.bias"] = constant if i == biased[0] else torch.zeros_like(constant)
    return result


def _residual(seen: Observation, network: ResNEst, loss: str | LossFn | None) -> dict[str, Tensor]:
    """W_{L+1} = A and A W_L = B for the best A x_{L−1} + B v_L; exact where A has full row rank.

    Of all such W_L the one nearest to that of the network, W_L + A⁺(B − A W_L): A⁺ B alone would have
    no more rank than there are outputs.
    """
    plain = isinstance(network.norm, nn.Identity) and len(network.blocks) > 0
    if seen.last is None or not plain or not isinstance(network.blocks[-1].mix, nn.Linear):
        raise UsageError(
            "The prediction weights of this ResNEst cannot be solved for: it must take vectors, have a "
            "block, and have no normalization of its last representation."
        )
    features = (seen.last, seen.features[-1])
    (A, B), constant = _solve(seen, features, loss, intercept=has_bias(network.output))
    stands = network.blocks[-1].mix.weight
    mix = stands + torch.linalg.pinv(A.T) @ (B.T - A.T @ stands)
    if (A.T @ mix - B.T).norm() > _REPRODUCED * (1 + B.norm()):
        raise UsageError(
            f"M = {A.shape[0]} leaves no room to mix the last feature into {A.shape[1]} outputs: the "
            "best prediction weights do not exist; widen the network."
        )
    result = {"output.weight": A.T, f"blocks.{len(network.blocks) - 1}.mix.weight": mix}
    return result | ({"output.bias": constant} if has_bias(network.output) else {})


def _solve(
    seen: Observation, features: Sequence[Tensor], loss: str | LossFn | None, *, intercept: bool
) -> tuple[list[Float[Tensor, " k c"]], Float[Tensor, " c"]]:
    num_outputs = seen.outputs.shape[1]
    ell = convex_loss(loss, seen.targets, num_outputs=num_outputs)
    if not regularity(ell, num_outputs=num_outputs).holds:
        raise UsageError(
            f"The loss {ell.name} is not differentiable and convex: the best prediction weights "
            "cannot be solved for."
        )
    basis = nested_basis(features, intercept=intercept)
    ridge, start = needed_ridge(basis, ell, num_outputs=num_outputs)
    result = best_predictor(basis, ell, num_outputs=num_outputs, ridge=ridge, start=start)
    return basis.prediction_weights(result.coefficients)
