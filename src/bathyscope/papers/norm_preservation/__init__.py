"""Norms of gradients on their way through residual blocks, and layers that preserve them."""

TITLE = "Why residual blocks preserve the norm of gradients, and how transition blocks can"
SUMMARY = """The paper bounds the ratio of gradient norms before and after a residual block and
shows that deeper networks have solutions whose blocks change it less. Blocks that change the
dimension have no identity skip; the paper moves their convolution before the skip and projects it,
every other step, onto those that preserve norms (ProcResNet)."""
NUMBERED = {
    "theorem": 3,
    "lemma": 3,
    "corollary": 1,
    "assumption": 1,
    "algorithm": 1,
    "figure": 5,
    "table": 3,
}
"""How many of each kind the paper numbers."""
NO_STUDY = {"figure 1": "a diagram of the networks"}
"""Figures that no study stands behind, and why."""
