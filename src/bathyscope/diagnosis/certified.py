"""What is known of a network of the NEst family on the batch, as a measurement that rules can read."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from bathyscope.certificates import Certificate, certify
from bathyscope.certificates.width import Width, width_of
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import UsageError
from bathyscope.core.nested import main_tensor
from bathyscope.core.records import Measurement
from bathyscope.nets import NEst, ResNEst

SAMPLES_A_FEATURE = 5
"""With fewer samples for each feature, weights solved on a batch fit its noise."""


def certificate(
    model: nn.Module, batch: Batch, *, loss: LossFn, blocks: Blocks
) -> Measurement | None:
    """Width and risks of a ResNEst, augmented ResNEst or DenseNEst on vectors; None for any other.

    Networks on images are left to `certify`: the bound of a convolutional ResNEst is none, and its
    maps never satisfy the bottleneck condition. Where the batch is small beside the features, the
    risks would be those of an overfit, and only the width is reported.

    Args:
        model: any module; it is left as it is.
        batch: inputs and targets.
        loss: of outputs and targets.
        blocks: of the diagnosis; the block of feature v_i carries what is reported of v_i.
    """
    network = unwrap(model)
    inputs = main_tensor(batch[0])
    if not isinstance(network, NEst) or inputs is None or inputs.ndim != 2:
        return None
    width = width_of(network, sizes=(), room=0) if isinstance(network, ResNEst) else None
    num_features = _num_features(network, inputs[:1])
    result, note = None, ""
    if len(inputs) >= SAMPLES_A_FEATURE * num_features:
        try:
            result = certify(network, batch, loss=loss, blocks=False, curvature=False)
        except UsageError as refused:  # a loss or targets that no certificate speaks of
            note = f"There is no certificate of this network: {refused}"
        if result is not None and not result.bound_applies:
            note = (
                f"The best predictors of this {result.loss} loss could not be solved for (gap "
                f"{result.gap:.2g}): there is nothing to compare the network with."
            )
            result = None
    else:
        note = (
            f"{len(inputs)} samples are too few to judge the prediction weights of {num_features} "
            f"features; give a batch of {SAMPLES_A_FEATURE * num_features} or more."
        )
    return Measurement(
        name="certificate",
        blocks=tuple(blocks),
        columns={"unpredicted": _unpredicted(network, result, blocks)},
        settings=_settings(result, width),
        notes=(note,) if note else (),
    )


@torch.no_grad()
def _num_features(network: NEst, one: Tensor) -> int:
    """On a copy in eval mode: a function with batch normalization would count the sample in."""
    sizes: list[int] = [v.shape[1] for v in deepcopy(network).eval().features(one)]
    return sum(sizes)


def _unpredicted(
    network: NEst, result: Certificate | None, blocks: Blocks
) -> tuple[float | None, ...]:
    """The fraction of each block's feature that is not linear in those before it."""
    if result is None:
        return (None,) * len(blocks)
    names = network.block_names()
    fractions = dict(zip(names, [p.unpredicted for p in result.predictability[1:]], strict=True))
    return tuple(fractions.get(block.name) for block in blocks)


def _settings(result: Certificate | None, width: Width | None) -> dict[str, float | int | None]:
    reported: dict[str, float | int | None] = {}
    if width is not None:
        reported |= {"width": width.width, "width_needed": width.needed, "rank": width.rank}
    if result is not None:
        reported |= {
            "num_outputs": result.num_outputs,
            "risk": result.risk + result.penalty,
            "constant_risk": result.constant_risk,
            "linear_risk": result.linear_risk,
            "bound": result.bound,
            "attainable_risk": result.attainable_risk,
        }
    return reported
