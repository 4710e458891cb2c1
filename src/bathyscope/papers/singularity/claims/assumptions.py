"""The assumption of the theme `singularity`, and its statements that assert nothing measurable."""

from bathyscope.claims.claim import Claim

LINEAR = "linear networks with randomly initialized weights"


EQUATION_11 = Claim(
    name="singularity.equation_11",
    statement="The condition number is σ_max/σ_min.",
    tested="A definition: it asserts nothing. Every condition number here carries its tolerance.",
)
DEFINITION_2 = Claim(
    name="singularity.definition_2",
    statement="The representations of a batch are the columns of one matrix H.",
    tested="A definition: it asserts nothing.",
)
