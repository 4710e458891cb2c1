"""Shortcuts of length n: the Hessian at the zero point, its condition number and its index."""

TITLE = "Why shortcuts that skip two layers are special, by the Hessian at zero weights"
SUMMARY = """The paper looks at n-shortcut networks at the point where all weights are zero. With
shortcuts of length two the Hessian there is block diagonal and has a condition number that does not
depend on depth, and the point is a saddle that can be left; with length one the condition number
grows with depth, with length three and more the Hessian is zero. Deep residual networks have
solutions near zero, so that training from small weights stays well conditioned."""
NUMBERED = {"theorem": 2, "lemma": 4, "definition": 5, "assumption": 3, "figure": 11}
"""How many of each kind the paper numbers."""
NO_STUDY = {"figure 1": "a diagram of where activations stand"}
"""Figures that no study stands behind, and why."""
