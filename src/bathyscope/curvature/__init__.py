"""Hessian and Gauss-Newton matrix of any loss of any module: products, dense, spectra, by block."""

from bathyscope.curvature.by_block import curvature_by_block
from bathyscope.curvature.dense_matrix import dense
from bathyscope.curvature.linear_network import linear_network_hessian
from bathyscope.curvature.matrix import CurvatureMatrix
from bathyscope.curvature.objective import BatchNormMode
from bathyscope.curvature.of_model import gauss_newton, hessian
from bathyscope.curvature.products import ProductPlan
from bathyscope.curvature.resolved import (
    EXACT_UP_TO,
    ConditionNumber,
    NegativeIndex,
    Unresolved,
    exact_condition_number,
    exact_negative_index,
)
from bathyscope.curvature.shortcut_zero import Activation, ZeroPoint, zero_point
from bathyscope.curvature.stacked import stacked_hessians

__all__ = [
    "EXACT_UP_TO",
    "Activation",
    "BatchNormMode",
    "ConditionNumber",
    "CurvatureMatrix",
    "NegativeIndex",
    "ProductPlan",
    "Unresolved",
    "ZeroPoint",
    "curvature_by_block",
    "dense",
    "exact_condition_number",
    "exact_negative_index",
    "gauss_newton",
    "hessian",
    "linear_network_hessian",
    "stacked_hessians",
    "zero_point",
]
