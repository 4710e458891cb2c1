"""Assumptions 1 to 4 and the bottleneck condition, each with its number, and what they guarantee."""

import torch
from torch.nn.functional import one_hot

from bathyscope.certificates.losses import ConvexLoss, CrossEntropy
from bathyscope.certificates.observation import Observation
from bathyscope.certificates.regularity import Regularity
from bathyscope.certificates.width import Width, width_of
from bathyscope.core.records import Assumption
from bathyscope.nets.nest import ResNEst

_NEEDED = ("Assumption 2", "Assumption 3", "Assumption 4")


def assumptions_of(
    seen: Observation, loss: ConvexLoss, *, regularity: Regularity
) -> tuple[tuple[Assumption, ...], Width | None]:
    """The assumptions of theorem 1 that speak of this network, and the width of a ResNEst.

    Args:
        seen: outputs and features of the network.
        loss: ℓ with its targets.
        regularity: of the loss.
    """
    second = _loss_is_regular(loss, regularity)
    if not isinstance(seen.network, ResNEst):
        return (second,), None
    width = width_of(seen.network, sizes=seen.sizes, room=seen.room)
    first = [_last_feature_informs(seen, loss)] if len(seen.features) > 1 else []
    return (*first, second, *_room(seen, seen.network, width)), width


def guarantee(
    seen: Observation, assumptions: tuple[Assumption, ...], *, unsolved: str
) -> tuple[bool, str]:
    """Whether every local minimum attains the bound, and the number that decided it.

    Args:
        seen: outputs and features of the network.
        assumptions: as they were found.
        unsolved: why the bound is not known; empty if it is.
    """
    if not seen.in_family:
        return False, (
            f"a {type(seen.network).__name__} is not a ResNEst, augmented ResNEst or DenseNEst, and "
            "no theorem of the paper speaks of it"
        )
    needed = [a for a in assumptions if a.statement.startswith(_NEEDED)]
    for assumption in needed:
        if not assumption.holds:
            return False, f"it fails here: {assumption.statement}"
    if unsolved:
        return False, unsolved
    if isinstance(seen.network, ResNEst):
        return True, f"theorem 1 and corollary 2: {needed[-1].statement}"
    return True, f"the prediction weights act on each feature alone: {needed[0].statement}"


def _loss_is_regular(loss: ConvexLoss, regularity: Regularity) -> Assumption:
    result = loss.name
    value = regularity.violation
    if not regularity.is_convex:
        result += f": along a segment its slope falls, by a fraction of {regularity.violation:.2g}"
    elif not regularity.is_differentiable:
        result += f": a fraction of {regularity.jump:.2g} of its change of slope is one jump"
        value = regularity.jump
    return Assumption(
        statement=f"Assumption 2: the loss is differentiable and convex ({result})",
        holds=regularity.holds,
        value=value,
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


def _room(seen: Observation, network: ResNEst, width: Width) -> tuple[Assumption, ...]:
    """Assumptions 3 and 4 and the bottleneck condition: counts and a rank."""
    room, num_outputs = network.output.in_features, seen.outputs.shape[1]
    rank = f"rank {width.rank}" if width.rank is not None else f"room for {width.width} values"
    return (
        Assumption(
            statement=f"Assumption 3: M ≥ N_o (M = {room}, N_o = {num_outputs})",
            holds=room >= num_outputs,
            value=room - num_outputs,
        ),
        Assumption(
            statement=f"Assumption 4: the features can be recovered from x_(L−1) "
            f"({rank}, {width.needed} needed)",
            holds=width.features_recoverable,
            value=width.rank if width.rank is not None else width.width,
        ),
        Assumption(
            statement=f"Bottleneck condition: M ≥ ΣK_i, i < L (M = {width.width}, "
            f"ΣK_i = {width.needed})",
            holds=width.bottleneck_condition,
            value=width.width - width.needed,
        ),
    )
