"""From a network and data to a certificate."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import one_hot

from bathyscope.certificates.basis import NestedBasis, nested_basis
from bathyscope.certificates.certificate import Certificate, Predictability
from bathyscope.certificates.losses import (
    ConvexLoss,
    CrossEntropy,
    convex_loss,
    convexity_violation,
)
from bathyscope.certificates.observation import Observation, observe
from bathyscope.certificates.predictor import best_predictor, needed_ridge, penalty
from bathyscope.certificates.saddle import CriticalPoint, critical_point
from bathyscope.certificates.width import Width, width_of
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.records import Assumption
from bathyscope.nets.nest import ResNEst

_CONVEX = 1e-9  # a chord may be undercut by this much before a loss counts as not convex


def certify(
    model: nn.Module,
    data: Batch | Iterable[Batch],
    *,
    loss: str | LossFn | None = None,
    blocks: bool = True,
    curvature: bool = True,
    tolerance: float = 1e-6,
) -> Certificate:
    """Risk, its lower bound and the guarantees of a network of the NEst family on data.

    The bound is the minimum over H_0, …, H_L of the mean loss of Σ_i H_i v_i with the network's
    own features (nests, proposition 2). All numbers are computed in float64 on a copy of the
    network in eval mode; the network is left as it was. For convolutional networks the features
    are pooled. A network outside the family gets what applies to any network.

    Args:
        model: a ResNEst, an augmented ResNEst, a DenseNEst or any module with outputs `(n, c)`.
        data: a pair (inputs, targets), or an iterable of pairs such as a loader.
        loss: "squared", "cross_entropy", "logistic", or a function of outputs and targets that is
            a mean over the samples; by the kind of the targets if None.
        blocks: also solve for the best prediction after each block: one convex problem a block.
        curvature: also judge what kind of point the prediction weights of a ResNEst stand at, which
            for wide networks takes longer than all the rest.
        tolerance: gradients and curvatures of the prediction weights below this count as zero.

    Raises:
        UsageError: data and loss do not fit the network.

    Examples:
        >>> from bathyscope.nets.nest_vectors import resnest
        >>> x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
        >>> network = resnest(6, 1, width=20, feature_sizes=[4, 4])
        >>> found = certify(network, (x, x.prod(dim=1, keepdim=True)))
        >>> found.guaranteed, found.monotone, found.epsilon > 0
        (True, True, True)
    """
    seen = observe(model, data)
    num_outputs = seen.outputs.shape[1]
    ell = convex_loss(loss, seen.targets, num_outputs=num_outputs)
    basis = nested_basis(seen.features, intercept=seen.intercept)
    solved = _solutions(seen, ell, basis, blocks=blocks)
    risk = ell.mean(seen.outputs, basis.weights)
    own_penalty = penalty(seen.outputs, basis.weights, ridge=solved.ridge)
    epsilon = risk + own_penalty - solved.bound if seen.in_family else None
    assumptions, width = _assumptions(seen, ell)
    guaranteed, decided_by = _guarantee(seen, assumptions)
    return Certificate(
        network=type(seen.network).__name__,
        loss=ell.name,
        num_samples=len(seen.outputs),
        num_outputs=num_outputs,
        risk=risk,
        penalty=own_penalty,
        constant_risk=solved.constant,
        linear_risk=solved.linear,
        bound=solved.bound if seen.in_family else None,
        bound_applies=seen.in_family and _bound_applies(seen),
        epsilon=epsilon,
        ridge=solved.ridge,
        gap=solved.gap,
        gradient_norm=solved.gradient_norm,
        attainable_risk=_attainable(seen, ell, ridge=solved.ridge),
        block_risks=solved.blocks,
        truncated_risks=solved.truncated,
        predictability=tuple(
            Predictability(v.shape[1], stage.rank, stage.unpredicted)
            for v, stage in zip(seen.features, basis.stages, strict=True)
        ),
        width=width,
        assumptions=assumptions,
        critical_point=_critical_point(seen, ell, epsilon=epsilon, tolerance=tolerance)
        if curvature
        else None,
        guaranteed=guaranteed,
        decided_by=decided_by,
        notes=_notes(seen, ridge=solved.ridge),
    )


@dataclass(frozen=True)
class _Solutions:
    ridge: float
    constant: float
    linear: float
    bound: float
    gap: float
    gradient_norm: float
    blocks: tuple[float, ...]
    truncated: tuple[float, ...]


def _solutions(
    seen: Observation, loss: ConvexLoss, basis: NestedBasis, *, blocks: bool
) -> _Solutions:
    """The nested convex problems, each begun from the one before so that no risk can rise."""
    num_outputs, count = seen.outputs.shape[1], len(seen.features)
    ridge, start = needed_ridge(basis, loss, num_outputs=num_outputs)
    constant = best_predictor(basis, loss, num_features=0, num_outputs=num_outputs, ridge=ridge)
    former, risks = constant, []
    for i in range(1, count + 1 if blocks else 2):
        former = best_predictor(
            basis,
            loss,
            num_features=i,
            num_outputs=num_outputs,
            ridge=ridge,
            start=former.coefficients,
        )
        risks.append(former.objective)
    whole = former
    if not blocks:
        whole = best_predictor(basis, loss, num_outputs=num_outputs, ridge=ridge, start=start)
    return _Solutions(
        ridge,
        constant.objective,
        risks[0],
        whole.objective,
        whole.gap,
        whole.gradient_norm,
        tuple(risks) if blocks else (),
        _truncated(seen, loss, basis, whole.coefficients, ridge=ridge) if blocks else (),
    )


def _truncated(
    seen: Observation,
    loss: ConvexLoss,
    basis: NestedBasis,
    coefficients: Float[Tensor, "r c"],
    *,
    ridge: float,
) -> tuple[float, ...]:
    """Risks with H_0, …, H_i of the bound and zeros after: the literal reading of equation 7."""
    weights, constant = basis.prediction_weights(coefficients)
    outputs = constant.expand_as(seen.outputs)
    found = []
    for v, H in zip(seen.features, weights, strict=True):
        outputs = outputs + v @ H
        own = penalty(outputs, basis.weights, ridge=ridge)
        found.append(loss.mean(outputs, basis.weights) + own)
    return tuple(found)


def _attainable(seen: Observation, loss: ConvexLoss, *, ridge: float) -> float | None:
    """The infimum over (W_L, W_{L+1}): with M ≥ N_o, the best linear in x_{L−1} and v_L.

    For W_{L+1} of full row rank, W_{L+1} W_L is any matrix, and such W_{L+1} are dense.
    """
    if seen.last is None or seen.last.shape[1] < seen.outputs.shape[1] or len(seen.features) < 2:
        return None
    output = getattr(seen.network, "output", None)
    basis = nested_basis(
        (seen.last, seen.features[-1]), intercept=getattr(output, "bias", None) is not None
    )
    return best_predictor(basis, loss, num_outputs=seen.outputs.shape[1], ridge=ridge).objective


def _bound_applies(seen: Observation) -> bool:
    return not (isinstance(seen.network, ResNEst) and seen.on_images)


def _assumptions(
    seen: Observation, loss: ConvexLoss
) -> tuple[tuple[Assumption, ...], Width | None]:
    num_outputs = seen.outputs.shape[1]
    found = [_loss_is_convex(loss, num_outputs)]
    if not isinstance(seen.network, ResNEst):
        return tuple(found), None
    width = width_of(seen.network, sizes=seen.sizes, room=seen.room)
    room = seen.network.output.in_features
    if len(seen.features) > 1:
        found.insert(0, _last_feature_informs(seen, loss))
    found.append(
        Assumption(
            statement=f"Assumption 3: M ≥ N_o (M = {room}, N_o = {num_outputs})",
            holds=room >= num_outputs,
            value=room - num_outputs,
        )
    )
    rank = f"rank {width.rank}" if width.rank is not None else f"room for {width.width} values"
    found.append(
        Assumption(
            statement=f"Assumption 4: the features can be recovered from x_(L−1) "
            f"({rank}, {width.needed} needed)",
            holds=width.features_recoverable,
            value=width.rank if width.rank is not None else width.width,
        )
    )
    found.append(
        Assumption(
            statement=f"Bottleneck condition: M ≥ ΣK_i, i < L (M = {width.width}, "
            f"ΣK_i = {width.needed})",
            holds=width.bottleneck_condition,
            value=width.width - width.needed,
        )
    )
    return tuple(found), width


def _loss_is_convex(loss: ConvexLoss, num_outputs: int) -> Assumption:
    violation = convexity_violation(loss, num_outputs=num_outputs)
    return Assumption(
        statement=f"Assumption 2: the loss is differentiable and convex ({loss.name})",
        holds=violation <= _CONVEX,
        value=violation,
    )


def _last_feature_informs(seen: Observation, loss: ConvexLoss) -> Assumption:
    v = seen.features[-1]
    y = one_hot(loss.targets) if isinstance(loss, CrossEntropy) else seen.targets
    cross = float((v.T @ y.double().reshape(len(v), -1)).norm())
    rank = int(torch.linalg.matrix_rank(v))
    return Assumption(
        statement=f"Assumption 1: Σ v_L yᵀ ≠ 0 (norm {cross:.3g}) and Σ v_L v_Lᵀ has full rank "
        f"({rank} of {v.shape[1]})",
        holds=cross > 0 and rank == v.shape[1],
        value=rank,
    )


def _guarantee(seen: Observation, assumptions: tuple[Assumption, ...]) -> tuple[bool, str]:
    if not seen.in_family:
        return False, (
            f"a {type(seen.network).__name__} is no ResNEst, augmented ResNEst or DenseNEst, and "
            "no theorem of the paper speaks of it"
        )
    needed = [a for a in assumptions if a.statement.startswith(_NEEDED)]
    for assumption in needed:
        if not assumption.holds:
            return False, f"it fails here: {assumption.statement}"
    if isinstance(seen.network, ResNEst):
        return True, f"theorem 1 and corollary 2: {needed[-1].statement}"
    return True, f"the prediction weights act on each feature alone: {needed[0].statement}"


_NEEDED = ("Assumption 2", "Assumption 3", "Assumption 4")


def _critical_point(
    seen: Observation, loss: ConvexLoss, *, epsilon: float | None, tolerance: float
) -> CriticalPoint | None:
    network = seen.network
    if not isinstance(network, ResNEst) or seen.last is None or len(network.blocks) == 0:
        return None
    if not isinstance(network.blocks[-1].mix, nn.Linear):
        return None
    assert epsilon is not None
    return critical_point(
        network,
        loss,
        last=seen.last,
        feature=seen.features[-1],
        epsilon=epsilon,
        tolerance=tolerance,
    )


def _notes(seen: Observation, *, ridge: float) -> tuple[str, ...]:
    found = []
    if ridge:
        found.append(
            "The loss has no minimiser over the features (the classes can be separated): all risks "
            f"but the network's own include {ridge / 2:.0e} · mean ‖ŷ‖², and so does ε."
        )
    if seen.on_images:
        found.append("The linear feature is the input averaged over its positions.")
    if isinstance(seen.network, ResNEst) and seen.on_images:
        found.append(
            "The convolutions W_i act before pooling, so the best prediction from pooled features "
            "is a comparison here, not a lower bound; the augmented form has one."
        )
    if not seen.in_family:
        found.append(
            "Outside the family only the risks of the network, of a constant and of the best linear "
            "predictor apply; lower bound, ranks and block by block risks do not."
        )
    return tuple(found)
