"""Residual networks as nonlinear estimators that are provably no worse than the best linear one."""

TITLE = "Residual networks as estimators that are provably no worse than the best linear one"
SUMMARY = """The paper takes the last nonlinearity off a residual network, so that its output is
linear in the features of all blocks (ResNEst). The best that any prediction weights can make of
these features is a convex problem (A-ResNEst), which bounds the risk from below; ε is what is lost.
Where the residual representation is wide enough for all features, every local minimum attains the
bound and is no worse than the best linear predictor of the input. DenseNEsts always are."""
NUMBERED = {
    "theorem": 2,
    "corollary": 2,
    "proposition": 4,
    "assumption": 4,
    "remark": 2,
    "figure": 4,
}
"""How many of each kind the paper numbers."""
NO_STUDY = {f"figure {k}": "a diagram of a network" for k in (1, 2, 3, 4)}
"""Figures that no study stands behind, and why."""
