"""Residual networks as nonlinear estimators that are provably no worse than the best linear one."""

TITLE = "Residual networks as estimators that are provably no worse than the best linear one"
SUMMARY = """The paper takes the last nonlinearity off a residual network, so that its output is
linear in the features of all blocks (ResNEst). The best that any prediction weights can make of
these features is a convex problem (A-ResNEst), which bounds the risk from below; ε is what is lost.
Where the residual representation is wide enough for all features, every local minimum attains the
bound and is no worse than the best linear predictor of the input. DenseNEsts always are."""
