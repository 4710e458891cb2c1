"""Studies of nonlinear estimators: ResNEst, its augmented form, and DenseNEst."""

from bathyscope.papers.nests.studies import (
    blocks,
    bottleneck,
    convolutional,
    estimators,
    held_out,
    predictability,
)

STUDIES = (
    bottleneck.STUDY,
    blocks.STUDY,
    predictability.STUDY,
    convolutional.STUDY,
    estimators.STUDY,
    held_out.STUDY,
)
