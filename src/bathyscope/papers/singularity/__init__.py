"""Plain, residual and aggregated networks: what becomes singular with depth, and what skips change."""

TITLE = "Why very deep networks without skips do not train, by their singular representations"
SUMMARY = """The paper sets PlainNet, ResNet and ResNeXt of 164 layers beside one another. It
argues, from products of random matrices, that the representations of a deep plain network fall onto
one direction, so that they, the error gradients and the updates become singular, and that skips
keep every direction alive. Dirac and delta-orthogonal starts are held not to replace skips, because
training leaves the regime in which they start."""
NUMBERED = {
    "theorem": 5,
    "lemma": 5,
    "corollary": 2,
    "proposition": 2,
    "definition": 4,
    "remark": 9,
    "figure": 13,
    "table": 4,
}
"""How many of each kind the paper numbers; figures of its appendix come on top."""
NO_STUDY = {
    "figure 1": "error rates of ImageNet over depth, taken from other work",
    "figure 2": "a diagram of the blocks",
}
"""Figures that no study stands behind, and why."""
