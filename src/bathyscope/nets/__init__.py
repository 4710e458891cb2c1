"""The networks of the four papers, by name and at any depth: `build`, `names`, `families`."""

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.build import (
    build,
    build_for,
    families,
    family_of,
    names,
    options_for,
    skeleton,
)
from bathyscope.nets.dirac import DiracConv2d
from bathyscope.nets.family import Family
from bathyscope.nets.gates import Gates
from bathyscope.nets.nest import AugmentedResNEst, DenseNEst, NEst, ResNEst
from bathyscope.nets.nest_convert import dense_to_residual, residual_to_augmented
from bathyscope.nets.nest_standard import standard_to_resnest
from bathyscope.nets.nest_vectors import aresnest, densenest, resnest
from bathyscope.nets.network import Network
from bathyscope.nets.normalisation import without_normalisation_
from bathyscope.nets.nshortcut import general_shortcut

__all__ = [
    "AugmentedResNEst",
    "DenseNEst",
    "DiracConv2d",
    "Family",
    "Gates",
    "NEst",
    "Network",
    "ResNEst",
    "ResidualBlock",
    "aresnest",
    "build",
    "build_for",
    "dense_to_residual",
    "densenest",
    "families",
    "family_of",
    "general_shortcut",
    "names",
    "options_for",
    "residual_to_augmented",
    "resnest",
    "skeleton",
    "standard_to_resnest",
    "without_normalisation_",
]
