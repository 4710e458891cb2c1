"""Studies of nonlinear estimators: ResNEst, its augmented form, and DenseNEst."""

STUDIES = {
    "bottleneck": "bottleneck",
    "blocks": "blocks",
    "predictability": "predictability",
    "convolutional": "convolutional",
    "estimators": "estimators",
    "held_out": "held_out",
}
"""The file in which each of them stands, in the order of the paper."""
