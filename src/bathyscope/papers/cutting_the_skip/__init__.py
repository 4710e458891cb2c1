"""Cutting the Skip (arXiv 2510.00345): an initialization in place of skips in transformers."""

TITLE = "Attention without skips, conditioned by its initialization"
SUMMARY = """The paper finds in the Jacobian of a transformer's block why skips help: without them it is badly
conditioned; and that a suitable initialization, which leaves the architecture as it is, gives the
conditioning back. Looked up: the abstract and summaries. The initialization itself could not be looked up in
full; here values and outputs are orthogonal, and queries and keys equal, so that each token attends to
itself. Its results with vision transformers are not checked."""
