"""Who depends on whom: samples, positions, inputs and parameters, read off the gradients of few passes."""

from bathyscope.measure.dependence.channel_order import channel_order
from bathyscope.measure.dependence.dependence import Dependence, dependence
from bathyscope.measure.dependence.detached_parameters import detached_parameters
from bathyscope.measure.dependence.fresh_weights import fresh_weights
from bathyscope.measure.dependence.norm_statistics import norm_statistics
from bathyscope.measure.dependence.parameter_lists import parameter_lists
from bathyscope.measure.dependence.position_map import PositionMap, position_map
from bathyscope.measure.dependence.sample_mixing import SampleDependence, sample_dependence

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
