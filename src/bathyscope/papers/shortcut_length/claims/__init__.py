"""The claims of the theme `shortcut_length`, in the paper's order."""

CLAIMS = {
    "equation_1": "forms",
    "definition_1": "forms",
    "definition_2": "assumptions",
    "section_4_1_variance": "variance",
    "equation_3": "forms",
    "definition_3": "assumptions",
    "assumption_1": "assumptions",
    "assumption_2": "assumptions",
    "theorem_1": "small_weights",
    "definition_4": "derivatives",
    "assumption_3": "at_zero",
    "theorem_2": "zero_hessian",
    "equation_10": "zero_hessian",
    "equation_22": "zero_hessian",
    "equation_29": "zero_hessian",
    "section_5_length_1": "dynamics",
    "lemma_1": "small_weights",
    "lemma_2": "small_weights",
    "definition_5": "assumptions",
    "lemma_3": "derivatives",
    "lemma_4": "derivatives",
}
"""The file in which each of them stands, in the order of the paper."""
