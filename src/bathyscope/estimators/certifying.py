"""The certificate of a fitted estimator."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from bathyscope.certificates.losses import ConvexLoss, Squared
from bathyscope.certificates.predictor import EXISTENCE_RIDGE
from bathyscope.certificates.width import Width
from bathyscope.estimators.certificate import FitCertificate
from bathyscope.estimators.fitting import Choice
from bathyscope.estimators.samples import Samples
from bathyscope.estimators.scaling import Array
from bathyscope.estimators.solving import RidgePath, Solution
from bathyscope.nets.nest import NEst


@torch.no_grad()
def certificate_of(
    network: NEst,
    path: RidgePath,
    samples: Samples,
    *,
    solution: Solution | None,
    units: Array | None,
    choice: Choice,
    width: Width | None,
    needed_width: int | None,
    scope: str,
) -> FitCertificate:
    """Risks of the network, of the best linear predictor and of a constant, on these samples.

    Args:
        network: fitted, in float64.
        path: the prediction weights over all ridges.
        samples: standardized.
        solution: the point of the path that the network was given; None if it was given another.
        units: of the targets, one an output, or None for classes.
        choice: of the ridge.
        width: of a ResNEst, None for the other forms.
        needed_width: of a ResNEst.
        scope: which data these samples are.
    """
    x = torch.from_numpy(samples.X)
    loss = _in_units(path.linear.loss, units)
    scale = torch.ones(1) if units is None else torch.from_numpy(units)
    weights = path.linear.basis.weights

    def risk(outputs: Float[Tensor, " n c"]) -> float:
        return loss.mean(outputs * scale, weights)

    linear = path.solve(float("inf"))
    minimum = replace(path, linear=path.linear.at(EXISTENCE_RIDGE)).solve(
        0.0 if isinstance(loss, Squared) else EXISTENCE_RIDGE, start=solution
    )
    own = risk(network(x))
    guaranteed, decided_by = _guarantee(solution, width, needed_width)
    return FitCertificate(
        loss=loss.name,
        num_samples=len(samples),
        num_inputs=x.shape[1],
        risk=own,
        linear_risk=risk(linear.outputs()),
        constant_risk=risk(path.constant_outputs()),
        bound=min(own, risk(minimum.outputs())),
        ridge=choice.ridge if solution is None else solution.ridge,
        existence_ridge=path.linear.existence_ridge,
        penalty=0.0 if solution is None else solution.existence_penalty(),
        linear_penalty=linear.existence_penalty(),
        guaranteed=guaranteed,
        decided_by=decided_by,
        width=None if width is None else width.width,
        needed_width=needed_width,
        rank=None if width is None else width.rank,
        validation=choice.table,
        scope=scope,
    )


def _in_units(loss: ConvexLoss, units: Array | None) -> ConvexLoss:
    if units is None or not isinstance(loss, Squared):
        return loss
    return Squared(loss.targets * torch.from_numpy(units))


def _guarantee(
    solution: Solution | None, width: Width | None, needed_width: int | None
) -> tuple[bool, str]:
    if width is not None and needed_width is not None:
        if width.width < needed_width:
            return False, f"its width M = {width.width} is below the {needed_width} needed"
        if not width.features_recoverable:
            return False, f"[W_0 … W_(L−1)] has rank {width.rank} of the {width.needed} needed"
    if solution is None:
        return False, "the prediction weights were moved by gradient steps and not solved for"
    if width is None:
        return True, "the linear predictor is among its solutions (nests, propositions 2 and 3)"
    return True, (
        f"width M = {width.width} of {needed_width} needed and rank {width.rank} of "
        f"{width.needed} (nests, theorem 1, corollary 2)"
    )
