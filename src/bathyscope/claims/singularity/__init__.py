"""The claims of the theme `singularity`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.singularity import (
    backward,
    coefficients,
    collapse,
    forms,
    matrices,
    random_matrices,
    schemes,
    stability,
)
from bathyscope.claims.singularity.statements import STATEMENTS

CHECKS: dict[str, Check] = {
    "equation_2": forms.EQUATION_2,
    "equation_5": forms.EQUATION_5,
    "equation_8": forms.EQUATION_8,
    "definition_1": random_matrices.DEFINITION_1,
    "lemma_1": random_matrices.LEMMA_1,
    "proposition_1": random_matrices.PROPOSITION_1,
    "corollary_1": random_matrices.COROLLARY_1,
    "theorem_1": matrices.THEOREM_1,
    "lemma_2": matrices.LEMMA_2,
    "equation_14": random_matrices.EQUATION_14,
    "theorem_2": collapse.THEOREM_2,
    "remark_1": collapse.REMARK_1,
    "theorem_3": coefficients.THEOREM_3,
    "remark_2": collapse.REMARK_2,
    "section_4_deletion": forms.SECTION_4_DELETION,
    "lemma_3": random_matrices.LEMMA_3,
    "theorem_4": coefficients.THEOREM_4,
    "remark_3": collapse.REMARK_3,
    "lemma_4": matrices.LEMMA_4,
    "lemma_5": matrices.LEMMA_5,
    "definition_3": backward.DEFINITION_3,
    "definition_4": backward.DEFINITION_4,
    "remark_4": backward.REMARK_4,
    "remark_5": backward.REMARK_5,
    "remark_6": backward.REMARK_6,
    "proposition_2": stability.PROPOSITION_2,
    "remark_7": stability.REMARK_7,
    "remark_8": stability.REMARK_8,
    "theorem_5": random_matrices.THEOREM_5,
    "corollary_2": stability.COROLLARY_2,
    "remark_9": stability.REMARK_9,
    "equation_39": schemes.EQUATION_39,
    "section_7_delta_orthogonal": schemes.SECTION_7_DELTA_ORTHOGONAL,
    "section_7_highway": schemes.SECTION_7_HIGHWAY,
}

__all__ = ["CHECKS", "STATEMENTS"]
