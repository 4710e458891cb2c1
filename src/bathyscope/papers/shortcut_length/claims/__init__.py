"""The claims of the theme `shortcut_length`, in the paper's order."""

from bathyscope.papers.shortcut_length.claims import (
    at_zero,
    derivatives,
    dynamics,
    forms,
    small_weights,
    untested,
    variance,
    zero_hessian,
)

CLAIMS = (
    forms.EQUATION_1,
    forms.DEFINITION_1,
    untested.DEFINITION_2,
    variance.SECTION_4_1_VARIANCE,
    forms.EQUATION_3,
    untested.DEFINITION_3,
    untested.ASSUMPTION_1,
    untested.ASSUMPTION_2,
    small_weights.THEOREM_1,
    derivatives.DEFINITION_4,
    at_zero.ASSUMPTION_3,
    zero_hessian.THEOREM_2,
    zero_hessian.EQUATION_10,
    zero_hessian.EQUATION_22,
    zero_hessian.EQUATION_29,
    dynamics.SECTION_5_LENGTH_1,
    small_weights.LEMMA_1,
    small_weights.LEMMA_2,
    untested.DEFINITION_5,
    derivatives.LEMMA_3,
    derivatives.LEMMA_4,
)
