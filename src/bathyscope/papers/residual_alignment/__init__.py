"""Residual Alignment (arXiv 2401.09018): what the Jacobians of residual branches have in common."""

TITLE = "Jacobians of residual branches: small, of low rank, and aligned"
SUMMARY = """The paper linearizes the branches of trained residual networks. It reports that the
representations of a sample lie equally spaced on a line (RA1), that top singular vectors of the
branches' Jacobians agree from block to block (RA2), that in fully connected networks their rank
is at most the number of classes (RA3), that their singular values fall as one over the depth
(RA4), and that all of this is gone without skips. Looked up: the abstract in full. RA1 and RA2,
convolutional networks and its model of free Jacobians are not checked."""
