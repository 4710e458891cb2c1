"""Beyond the papers: deep networks that train without shortcuts, and what all that train have in common."""

TITLE = "Deep networks without shortcuts, and what all that train have in common"
SUMMARY = """The four papers explain why shortcuts help. Here plain networks are made trainable
without any: a leaky rectifier whose slope follows from the depth alone, such that the whole network
takes a pair of inputs at right angles to a cosine of 0.9, and an orthogonal start (after Zhang,
Botev and Martens, 2022). Beside them stand shortcuts, BatchNorm, and He weights with ReLU; on each
the quantities of the four papers are measured before the first step and after the last. What
explains training must separate the networks that train from those that do not, however they were made
trainable."""
