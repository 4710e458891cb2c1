"""The Curse of Depth in Large Language Models (arXiv 2502.05795): pre-norm blocks fade with depth."""

TITLE = "With norms before the branches deep blocks become the identity"
SUMMARY = """In a network of blocks x + f(norm(x)) every branch adds to the variance of x while its own
size stays the same, so that late blocks change x less and less: their derivative tends to the identity
and they could be left out. The paper divides the output of the norm of block l by √l. Looked up: the
abstract and the text of its public code; that the variance grows exponentially in training, and all
results on language models, were not checked here."""
