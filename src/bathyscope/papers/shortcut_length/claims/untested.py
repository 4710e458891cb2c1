"""Statements of the theme `shortcut_length` that assert nothing measurable."""

from bathyscope.claims.claim import Claim

DEFINITION_2 = Claim(
    name="shortcut_length.definition_2",
    statement="An n-shortcut network has element-wise activations before, between and after "
    "the weight matrices of a unit.",
    tested="The definition of the networks that the theorems speak of: it asserts nothing.",
)
DEFINITION_3 = Claim(
    name="shortcut_length.definition_3",
    statement="The minimum distance of a group of vectors is the smallest distance of a pair.",
    tested="A definition: it asserts nothing. Theorem 1 uses it.",
)
DEFINITION_5 = Claim(
    name="shortcut_length.definition_5",
    statement="The entries of the Hessian are ordered by unit, layer, column and row.",
    tested="A convention: it asserts nothing. Ours is by unit, layer, row and column.",
)
