"""Who depends on whom: samples, positions, inputs and parameters, read off the gradients of few passes."""

from bathyscope.measure.dependence.dependence import Dependence, dependence
from bathyscope.measure.dependence.parameter_lists import detached_parameters, parameter_lists
from bathyscope.measure.dependence.position_map import PositionMap, position_map
from bathyscope.measure.dependence.sample_mixing import SampleDependence, sample_dependence
from bathyscope.measure.dependence.without_pass import channel_order, fresh_weights, norm_statistics

__all__ = [
    "Dependence",
    "PositionMap",
    "SampleDependence",
    "channel_order",
    "dependence",
    "detached_parameters",
    "fresh_weights",
    "norm_statistics",
    "parameter_lists",
    "position_map",
    "sample_dependence",
]
