"""The claims of the theme `nests`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.nests import blocks, bounds, dense, forms, landscape
from bathyscope.claims.nests.statements import STATEMENTS

CHECKS: dict[str, Check] = {
    "equation_2": forms.EQUATION_2,
    "proposition_1": landscape.PROPOSITION_1,
    "equation_4": forms.EQUATION_4,
    "proposition_2": bounds.PROPOSITION_2,
    "equation_7": blocks.EQUATION_7,
    "theorem_1": bounds.THEOREM_1,
    "remark_2": blocks.REMARK_2,
    "corollary_1": blocks.COROLLARY_1,
    "corollary_2": blocks.COROLLARY_2,
    "section_3_2": bounds.SECTION_3_2,
    "theorem_2": landscape.THEOREM_2,
    "equation_9": forms.EQUATION_9,
    "proposition_3": dense.PROPOSITION_3,
    "proposition_4": dense.PROPOSITION_4,
}

__all__ = ["CHECKS", "STATEMENTS"]
