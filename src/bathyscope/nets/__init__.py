"""The networks of the four papers, by name and at any depth: `build`, `names`, `families`."""

from bathyscope.nets.block import ResidualBlock
from bathyscope.nets.build import build, build_for, families, family_of, names, skeleton
from bathyscope.nets.dirac import DiracConv2d
from bathyscope.nets.family import Family
from bathyscope.nets.gates import Gates
from bathyscope.nets.network import Network
from bathyscope.nets.nshortcut import general_shortcut

__all__ = [
    "DiracConv2d",
    "Family",
    "Gates",
    "Network",
    "ResidualBlock",
    "build",
    "build_for",
    "families",
    "family_of",
    "general_shortcut",
    "names",
    "skeleton",
]
