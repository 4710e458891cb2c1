"""Reversible changes to a model or an optimizer."""

from bathyscope.remedies.change import Change
from bathyscope.remedies.learning_rate import learning_rate_
from bathyscope.remedies.normalise import normalise_
from bathyscope.remedies.parametrization import norm_preserving
from bathyscope.remedies.procrustes import ProcrustesHandle, ProcrustesReport, procrustes_
from bathyscope.remedies.shortcut import shortcut_
from bathyscope.remedies.transitions import transition_layers
from bathyscope.remedies.unit_variance import unit_variance_
from bathyscope.remedies.weights import reinitialise_, scale_, zero_last_layers_

__all__ = [
    "Change",
    "ProcrustesHandle",
    "ProcrustesReport",
    "learning_rate_",
    "norm_preserving",
    "normalise_",
    "procrustes_",
    "reinitialise_",
    "scale_",
    "shortcut_",
    "transition_layers",
    "unit_variance_",
    "zero_last_layers_",
]
