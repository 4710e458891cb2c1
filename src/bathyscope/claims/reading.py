"""Reading networks and measurements: the linear layers of a block, a column as numbers."""

import math

from torch import nn

from bathyscope.core.records import Measurement


def linear_layers(block: nn.Module) -> list[nn.Linear]:
    """The linear layers inside a block, first to last."""
    return [module for module in block.modules() if isinstance(module, nn.Linear)]


def numbers_of(measurement: Measurement, column: str) -> list[float]:
    """A column as floats; NaN where a block has no value."""
    values = measurement[column]
    return [float(v) if isinstance(v, (int, float)) else math.nan for v in values]
