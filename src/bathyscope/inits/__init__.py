"""Initialisation schemes: in place, on a whole module, under a `torch.Generator`."""

from bathyscope.inits.delta_orthogonal import delta_orthogonal_
from bathyscope.inits.dirac import dirac_
from bathyscope.inits.he import he_
from bathyscope.inits.orthogonal import orthogonal_
from bathyscope.inits.schemes import SCHEMES, Scheme, apply_
from bathyscope.inits.small import small_
from bathyscope.inits.transformer import transformer_
from bathyscope.inits.xavier import xavier_
from bathyscope.inits.zero_branch import zero_branch_

__all__ = [
    "SCHEMES",
    "Scheme",
    "apply_",
    "delta_orthogonal_",
    "dirac_",
    "he_",
    "orthogonal_",
    "small_",
    "transformer_",
    "xavier_",
    "zero_branch_",
]
