"""The assumptions of the theme `shortcut_length`, and its statements that assert nothing measurable."""

from bathyscope.claims.claim import Claim

SMOOTH = "the activations at mid and post vanish at zero, and the derivatives needed exist there"
SAMPLES = "inputs of unit length in at least 3 dimensions, one-hot labels"
APART = "no two of all inputs and labels coincide (minimum distance ρ > 0)"


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
ASSUMPTION_1 = Claim(
    name="shortcut_length.assumption_1",
    statement="Inputs have unit length, labels are one-hot, n ≥ 3 and m ≫ 1.",
    tested="A condition on the samples, evaluated by theorem 1 and lemma 2; it asserts nothing. The "
    "paper's n is nowhere said; distinct labels need m ≤ d_y.",
)
ASSUMPTION_2 = Claim(
    name="shortcut_length.assumption_2",
    statement="All inputs and labels keep a minimum distance ρ from one another.",
    tested="A condition on the samples, evaluated by theorem 1 and lemma 2; it asserts nothing.",
)
