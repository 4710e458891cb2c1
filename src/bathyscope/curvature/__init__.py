"""Hessian and Gauss-Newton matrix of any loss of any module: products, dense, spectra, by block."""

from bathyscope.curvature.by_block import curvature_by_block
from bathyscope.curvature.dense import dense
from bathyscope.curvature.matrix import CurvatureMatrix, gauss_newton, hessian
from bathyscope.curvature.objective import BatchNormMode
from bathyscope.curvature.products import ProductPlan
from bathyscope.curvature.resolved import (
    ConditionNumber,
    NegativeIndex,
    Unresolved,
    exact_condition_number,
    exact_negative_index,
)

__all__ = [
    "BatchNormMode",
    "ConditionNumber",
    "CurvatureMatrix",
    "NegativeIndex",
    "ProductPlan",
    "Unresolved",
    "curvature_by_block",
    "dense",
    "exact_condition_number",
    "exact_negative_index",
    "gauss_newton",
    "hessian",
]
