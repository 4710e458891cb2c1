"""The claims of the theme `norm_preservation`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.norm_preservation import (
    branch_bound,
    convolution,
    linear_blocks,
    procrustes,
    smooth_map,
)
from bathyscope.claims.norm_preservation.statements import STATEMENTS

CHECKS: dict[str, Check] = {
    "theorem_1": smooth_map.THEOREM_1,
    "corollary_1": branch_bound.COROLLARY_1,
    "equation_3": linear_blocks.EQUATION_3,
    "theorem_2": linear_blocks.THEOREM_2,
    "equation_5": convolution.EQUATION_5,
    "equation_7": convolution.EQUATION_7,
    "section_3_relu": convolution.SECTION_3_RELU,
    "theorem_3": convolution.THEOREM_3,
    "equation_8": procrustes.EQUATION_8,
    "equation_9": procrustes.EQUATION_9,
    "algorithm_1": procrustes.ALGORITHM_1,
    "lemma_1": branch_bound.LEMMA_1,
    "lemma_2": smooth_map.LEMMA_2,
    "equation_10": linear_blocks.EQUATION_10,
    "lemma_3": linear_blocks.LEMMA_3,
}

__all__ = ["CHECKS", "STATEMENTS"]
