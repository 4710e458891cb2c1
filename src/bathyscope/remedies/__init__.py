"""Reversible changes to a model or an optimizer."""

from bathyscope.remedies.change import Change
from bathyscope.remedies.learning_rate import learning_rate_
from bathyscope.remedies.shortcut import shortcut_
from bathyscope.remedies.weights import reinitialise_, scale_, zero_last_layers_

__all__ = [
    "Change",
    "learning_rate_",
    "reinitialise_",
    "scale_",
    "shortcut_",
    "zero_last_layers_",
]
