"""Manifold-constrained hyper-connections (arXiv 2512.24880): streams that are mixed without growing."""

TITLE = "Several residual streams, mixed by doubly stochastic matrices"
SUMMARY = """Hyper-connections carry several residual streams from block to block and mix them by a learned
matrix in place of the identity. The product of these matrices over the depth can amplify by orders of
magnitude. The paper keeps each of them doubly stochastic (by Sinkhorn's iteration), a set that products do
not leave and whose norms are one. Looked up: summaries and public implementations; its figures for large
language models could not be looked up and are not checked."""
