"""The claims of the theme `nests`, in the paper's order."""

from bathyscope.papers.nests.claims import (
    assumptions,
    blocks,
    bounds,
    dense,
    forms,
    landscape,
    untested,
)

CLAIMS = (
    forms.EQUATION_2,
    untested.REMARK_1,
    assumptions.ASSUMPTION_1,
    landscape.PROPOSITION_1,
    forms.EQUATION_4,
    assumptions.ASSUMPTION_2,
    bounds.PROPOSITION_2,
    blocks.EQUATION_7,
    assumptions.ASSUMPTION_3,
    assumptions.ASSUMPTION_4,
    bounds.THEOREM_1,
    blocks.REMARK_2,
    blocks.COROLLARY_1,
    blocks.COROLLARY_2,
    bounds.SECTION_3_2,
    landscape.THEOREM_2,
    forms.EQUATION_9,
    dense.PROPOSITION_3,
    dense.PROPOSITION_4,
)
