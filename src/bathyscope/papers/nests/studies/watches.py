"""What is measured of a network of this paper while it trains."""

from collections.abc import Iterator

from torch import nn

from bathyscope.certificates import certify
from bathyscope.core.json_values import JsonObject
from bathyscope.training import Examples


def certificate(model: nn.Module, probe: Examples) -> Iterator[JsonObject]:
    """One row a feature v_0, …, v_L of a NEst, each with the risks of the whole network."""
    result = certify(model, probe, curvature=False)
    whole = {
        "risk": result.risk,
        "constant_risk": result.constant_risk,
        "linear_risk": result.linear_risk,
        "bound": result.bound,
        "attainable_risk": result.attainable_risk,
        "guaranteed": result.guaranteed,
        "width": result.width.width if result.width else None,
        "width_needed": result.width.needed if result.width else None,
    }
    for index, feature in enumerate(result.predictability):
        yield whole | {
            "feature": index,
            "size": feature.size,
            "new_directions": feature.new_directions,
            "unpredicted": feature.unpredicted,
            "block_risk": result.block_risks[index],
            "truncated_risk": result.truncated_risks[index],
        }
