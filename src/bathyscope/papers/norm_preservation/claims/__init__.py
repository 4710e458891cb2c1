"""The claims of the theme `norm_preservation`, in the paper's order."""

from bathyscope.papers.norm_preservation.claims import (
    branch_bound,
    convolution,
    linear_blocks,
    observations,
    procrustes,
    smooth_map,
)

CLAIMS = (
    observations.ASSUMPTION_1,
    smooth_map.THEOREM_1,
    branch_bound.COROLLARY_1,
    linear_blocks.EQUATION_3,
    linear_blocks.THEOREM_2,
    convolution.EQUATION_5,
    convolution.EQUATION_7,
    convolution.SECTION_3_RELU,
    convolution.THEOREM_3,
    procrustes.EQUATION_8,
    procrustes.EQUATION_9,
    procrustes.ALGORITHM_1,
    observations.SECTION_4_1_START,
    observations.SECTION_4_1_ONE_BLOCK,
    observations.SECTION_4_1_STABLE,
    branch_bound.LEMMA_1,
    smooth_map.LEMMA_2,
    linear_blocks.EQUATION_10,
    linear_blocks.LEMMA_3,
)
