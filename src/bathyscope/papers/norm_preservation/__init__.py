"""Norms of gradients on their way through residual blocks, and layers that preserve them."""

TITLE = "Why residual blocks preserve the norm of gradients, and how transition blocks can"
SUMMARY = """The paper bounds the ratio of gradient norms before and after a residual block and
shows that deeper networks have solutions whose blocks change it less. Blocks that change the
dimension have no identity skip; the paper moves their convolution before the skip and projects it,
every other step, onto those that preserve norms (ProcResNet)."""
