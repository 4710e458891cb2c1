"""Reversible changes to a model or an optimizer, as data: remedies, and recipes of several."""

from bathyscope.remedies.activations import TailorActivations
from bathyscope.remedies.attention import (
    NormaliseQueries,
    NormFirst,
    PenaliseLogZ,
    ScaleBranches,
)
from bathyscope.remedies.change import Change
from bathyscope.remedies.interface import (
    AddActivations,
    DropActivation,
    ReplaceActivation,
    ScaleOutputs,
    StandardiseInputs,
)
from bathyscope.remedies.learned_factor import LearnFactors
from bathyscope.remedies.normalise import AddNorms, normalise_
from bathyscope.remedies.parametrization import norm_preserving
from bathyscope.remedies.procrustes import ProcrustesHandle, ProcrustesReport, procrustes_
from bathyscope.remedies.recipe import Recipe, apply_
from bathyscope.remedies.remedy import RUNGS, Remedy, Rung
from bathyscope.remedies.rescale import ProjectTransitions, ScaleWeights, SetWeights
from bathyscope.remedies.settings import (
    ClipGradient,
    DecayWeights,
    ReplaceOptimizer,
    ScaleRate,
    WarmUp,
)
from bathyscope.remedies.shortcut import AddShortcuts, shortcut_
from bathyscope.remedies.start import DrawWeights, StartRecurrence
from bathyscope.remedies.tailored import TailoredReLU, tailor_, tailored_slope
from bathyscope.remedies.transitions import transition_layers

__all__ = [
    "RUNGS",
    "AddActivations",
    "AddNorms",
    "AddShortcuts",
    "Change",
    "ClipGradient",
    "DecayWeights",
    "DrawWeights",
    "DropActivation",
    "LearnFactors",
    "NormFirst",
    "NormaliseQueries",
    "PenaliseLogZ",
    "ProcrustesHandle",
    "ProcrustesReport",
    "ProjectTransitions",
    "Recipe",
    "Remedy",
    "ReplaceActivation",
    "ReplaceOptimizer",
    "Rung",
    "ScaleBranches",
    "ScaleOutputs",
    "ScaleRate",
    "ScaleWeights",
    "SetWeights",
    "StandardiseInputs",
    "StartRecurrence",
    "TailorActivations",
    "TailoredReLU",
    "WarmUp",
    "apply_",
    "norm_preserving",
    "normalise_",
    "procrustes_",
    "shortcut_",
    "tailor_",
    "tailored_slope",
    "transition_layers",
]
