"""CompleteP (arXiv 2505.01618): branches divided by the depth let settings move from shallow to deep."""

TITLE = "Branches divided by the number of blocks, and learning rates that transfer over depth"
SUMMARY = """A residual network divides its branches by a power of the depth, x + L^{−α} f(x). The paper says
that of the powers that keep signals finite only α = 1 lets the best learning rate of a shallow network
serve a deep one, with the rate of hidden layers multiplied by L^{α−1}. Looked up: the rule, from public code
that follows it; the text and its figures could not be looked up. What is checked is the mechanism: how far
one step of the same rate moves the network."""
