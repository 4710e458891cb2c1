"""From a network and data to a certificate."""

import math
from collections.abc import Iterator

import torch
from torch import nn

from bathyscope.certificates.assumptions import assumptions_of, guarantee
from bathyscope.certificates.certificate import Certificate, Predictability
from bathyscope.certificates.linear import LinearPrediction, can_be_formed, linear_prediction
from bathyscope.certificates.losses import ConvexLoss, convex_loss
from bathyscope.certificates.nested import Nested, attainable, nested_solutions
from bathyscope.certificates.observation import Observation, observe
from bathyscope.certificates.predictor import penalty
from bathyscope.certificates.regularity import regularity
from bathyscope.certificates.saddle import CriticalPoint, critical_point
from bathyscope.core.arguments import check_flag, check_number
from bathyscope.core.batch import LossFn
from bathyscope.core.devices import tensors_on_cpu
from bathyscope.core.errors import UsageError
from bathyscope.core.global_state import preserve_random_state
from bathyscope.nets.nest import ResNEst

_SOLVED = 1e-9  # fraction of the constant predictor's risk up to which a gap counts as none


@preserve_random_state()  # a loader that shuffles draws from them
@tensors_on_cpu()
def certify(
    model: nn.Module,
    data: object,
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
    are pooled; the best linear predictor is of every pixel. A network outside the family gets what
    applies to any network.

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
        UsageError: data and loss do not fit the network, or something is non-finite.

    Examples:
        >>> from bathyscope.nets.nest_vectors import resnest
        >>> x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
        >>> network = resnest(6, 1, width=20, feature_sizes=[4, 4])
        >>> found = certify(network, (x, x.prod(dim=1, keepdim=True)))
        >>> found.guaranteed, found.monotone, found.epsilon > 0
        (True, True, True)
    """
    # long: one step after the other, each used once
    check_flag("blocks", blocks)
    check_flag("curvature", curvature)
    check_number("tolerance", tolerance, low=0.0)
    seen = observe(model, data)
    ell = convex_loss(loss, seen.targets, num_outputs=seen.outputs.shape[1])
    own_risk = _risk(seen, ell)
    result = nested_solutions(seen, ell, blocks=blocks)
    smooth = regularity(ell, num_outputs=seen.outputs.shape[1])
    assumptions, width = assumptions_of(seen, ell, regularity=smooth)
    # without assumption 2 a small gradient or decrement proves nothing
    limit = _SOLVED * result.constant.objective if smooth.holds else -math.inf
    unsolved = "" if result.whole.gap <= limit else _describe_gap(result, limit)
    guaranteed, decided_by = guarantee(seen, assumptions, unsolved=unsolved)
    own_penalty = penalty(seen.outputs, result.basis.weights, ridge=result.ridge)
    epsilon = own_risk + own_penalty - result.whole.objective
    reached = attainable(seen, ell, ridge=result.ridge)
    linear = _linear(seen, ell, result)
    linear_is_exact = linear is not None and linear.gap <= limit
    family = seen.in_family
    return Certificate(
        network=type(seen.network).__name__,
        loss=ell.name,
        num_samples=len(seen.outputs),
        num_outputs=seen.outputs.shape[1],
        on_images=seen.on_images,
        risk=own_risk,
        penalty=own_penalty,
        constant_risk=result.constant.objective,
        linear=linear,
        linear_is_exact=linear_is_exact,
        linear_feature_risk=result.first.objective if family else None,
        bound=result.whole.objective if family else None,
        bound_applies=family and not unsolved and not _mixes_before_pooling(seen),
        epsilon=epsilon if family else None,
        ridge=result.ridge,
        gap=result.whole.gap if family else None,
        gradient_norm=result.whole.gradient_norm if family else None,
        attainable_risk=None if reached is None or not reached.gap <= limit else reached.objective,
        block_risks=result.blocks,
        truncated_risks=result.truncated,
        predictability=tuple(
            Predictability(len(stage.mean), stage.rank, stage.unpredicted)
            for stage in result.basis.stages
        ),
        width=width,
        assumptions=assumptions,
        critical_point=_critical_point(seen, ell, epsilon=epsilon, tolerance=tolerance)
        if curvature and not unsolved
        else None,
        guaranteed=guaranteed,
        decided_by=decided_by,
        notes=(
            *_family_notes(seen, result, unsolved),
            *_linear_notes(seen, linear, exact=linear_is_exact),
        ),
    )


def _risk(seen: Observation, loss: ConvexLoss) -> float:
    n = len(seen.outputs)
    result = loss.mean(seen.outputs, torch.full((n,), 1 / n, dtype=torch.float64))
    if not math.isfinite(result):
        raise UsageError(
            f"The {loss.name} loss of the network is {result} (its outputs reach "
            f"{float(seen.outputs.abs().max()):.2g}); there is nothing to certify."
        )
    return result


def _describe_gap(result: Nested, limit: float) -> str:
    """Why the best that was found on the features is not a bound."""
    if limit < 0:
        return "the loss is not differentiable and convex, so that no gap is known"
    return (
        f"the gap of the convex problem is {result.whole.gap:.2g}, and {limit:.2g} is allowed "
        f"({_SOLVED:.0e} of the constant predictor's risk)"
    )


def _linear(seen: Observation, loss: ConvexLoss, result: Nested) -> LinearPrediction | None:
    """The best linear predictor of the input; None where an image has too many pixels for it."""
    if seen.in_family and not seen.on_images:
        return result.linear_prediction(seen.outputs)
    if seen.on_images and not can_be_formed(*seen.inputs.shape):
        return None
    return linear_prediction(seen.inputs, loss, outputs=seen.outputs, intercept=seen.intercept)


def _mixes_before_pooling(seen: Observation) -> bool:
    return isinstance(seen.network, ResNEst) and seen.on_images


def _critical_point(
    seen: Observation, loss: ConvexLoss, *, epsilon: float, tolerance: float
) -> CriticalPoint | None:
    network = seen.network
    if not isinstance(network, ResNEst) or seen.last is None or len(network.blocks) == 0:
        return None
    if not isinstance(network.blocks[-1].mix, nn.Linear):
        return None
    return critical_point(
        network,
        loss,
        last=seen.last,
        feature=seen.features[-1],
        epsilon=epsilon,
        tolerance=tolerance,
    )


def _family_notes(seen: Observation, result: Nested, unsolved: str) -> Iterator[str]:
    if not seen.in_family:
        yield (
            "Outside the family only the risks of the network, of a constant and of the best linear "
            "predictor apply; lower bound, ranks and block by block risks do not."
        )
        return
    if result.ridge:
        yield (
            f"{_sentence(result.why_ridge)} over the features: all risks but the network's own "
            f"include {result.ridge / 2:.0e} · mean ‖ŷ‖², and so does ε."
        )
    if unsolved:
        yield f"There is no lower bound, only the best that was found: {unsolved}."
    if seen.on_images:
        yield "The linear feature v_0 is the pooled input: its mean over all positions."
    if _mixes_before_pooling(seen):
        yield (
            "The convolutions W_i act before pooling, so the best prediction from pooled features "
            "is a comparison here, not a lower bound; the augmented form has one."
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _linear_notes(
    seen: Observation, linear: LinearPrediction | None, *, exact: bool
) -> Iterator[str]:
    n, values = seen.inputs.shape
    if linear is None:
        yield (
            f"The best linear predictor of the input was not formed: {n} samples of {values} values "
            "take too long; give fewer samples."
        )
        return
    if linear.ridge and not (seen.in_family and not seen.on_images):
        yield (
            f"{_sentence(linear.why_ridge)} over the linear predictors of the input: the risk of the "
            f"best one includes {linear.ridge / 2:.0e} · mean ‖ŷ‖²."
        )
    if not exact:
        yield (
            "The risks of a constant and of the best linear predictor are the best that were found "
            f"(the latter with a gap of {linear.gap:.2g}), which may not be the smallest."
        )
    if linear.interpolates:
        yield (
            f"The input has as many directions as there are samples ({n}): the best linear predictor "
            "interpolates them, whatever the targets; give more samples to compare with it."
        )
