"""The claims of the theme `shortcut_length`."""

from bathyscope.claims.claim import Check
from bathyscope.claims.shortcut_length import derivatives, forms, small_weights, zero_hessian
from bathyscope.claims.shortcut_length.statements import STATEMENTS

CHECKS: dict[str, Check] = {
    "equation_1": forms.EQUATION_1,
    "definition_1": forms.DEFINITION_1,
    "equation_3": forms.EQUATION_3,
    "theorem_1": small_weights.THEOREM_1,
    "definition_4": derivatives.DEFINITION_4,
    "theorem_2": zero_hessian.THEOREM_2,
    "equation_10": zero_hessian.EQUATION_10,
    "equation_22": zero_hessian.EQUATION_22,
    "equation_29": zero_hessian.EQUATION_29,
    "lemma_1": small_weights.LEMMA_1,
    "lemma_2": small_weights.LEMMA_2,
    "lemma_3": derivatives.LEMMA_3,
    "lemma_4": derivatives.LEMMA_4,
}

__all__ = ["CHECKS", "STATEMENTS"]
