"""The statements of the theme `shortcut_length`, in the paper's order."""

from bathyscope.claims.claim import Statement

_SMOOTH = "the activations at mid and post vanish at zero, and the derivatives needed exist there"
_SAMPLES = "inputs of unit length in at least 3 dimensions, one-hot labels"
_APART = "no two of all inputs and labels coincide (minimum distance ρ > 0)"

STATEMENTS: dict[str, Statement] = {
    "equation_1": Statement(
        statement="A linear network with shortcuts S^r is the map y = ∏_r (∏_l W^{r,l} + S^r) x.",
        tested="The output of a network with units of several widths and fixed shortcuts against "
        "the product "
        "of its matrices.",
    ),
    "definition_1": Statement(
        statement="An n-shortcut linear network has equal widths and identity shortcuts over n "
        "layers each; it is the map y = ∏_r (∏_l W^{r,l} + I) x (equation 2).",
        tested="The output of n-shortcut networks, n = 1, 2, 3, against the product of their "
        "matrices.",
    ),
    "definition_2": Statement(
        statement="An n-shortcut network has element-wise activations before, between and after "
        "the weight matrices of a unit.",
        tested="The definition of the networks that the theorems speak of: it asserts nothing.",
        testable=False,
    ),
    "equation_3": Statement(
        statement="The network of theorem 1, whose units have a bias, has at zero a Hessian of the "
        "form of theorem 2, so that its condition number does not depend on the depth.",
        assumptions=(_SMOOTH,),
        tested="Exact Hessians at zero of units with bias at several depths: the off-diagonal "
        "form, and the condition number with and without the biases among the variables.",
    ),
    "definition_3": Statement(
        statement="The minimum distance of a group of vectors is the smallest distance of a pair.",
        tested="A definition: it asserts nothing. Theorem 1 uses it.",
        testable=False,
    ),
    "theorem_1": Statement(
        statement="Networks of R units with bias and ReLU exist that carry every input to its "
        "label and whose weights are small: ‖W‖_F ≤ O(√(m/(Rρ)) (m + 1/ρ)) (equations 6 and 7).",
        assumptions=(_SAMPLES, _APART),
        tested="The network is built, unit by unit, for growing R; its outputs are compared with "
        "the labels, and ‖W‖·√R must stay constant, below √(8π) √(m/ρ) (m + 1/ρ).",
    ),
    "definition_4": Statement(
        statement="A point is stationary to order k if the function changes by o(‖x − x₀‖^k) "
        "around it; zero is so to order n − 1 for an n-shortcut network.",
        assumptions=(_SMOOTH,),
        tested="The order is measured: the slope of log |L(ε w) − L(0)| over log ε along random "
        "directions, n = 1 to 4.",
    ),
    "theorem_2": Statement(
        statement="At zero weights: for n ≥ 2 the loss is stationary to order n − 1, and for n ≥ 3 "
        "the Hessian is zero; for n = 2 it is block diagonal with cond(H)² = cond(ΔᵀΔ), "
        "Δ = Σ^{Xσ(X)} − Σ^{Yσ(X)}, at every depth, and a strict saddle unless Δ = 0; for n = 1 it "
        "is block Toeplitz, with blocks that depend on data and activations only.",
        assumptions=(_SMOOTH,),
        tested="Dense Hessians of the networks by automatic differentiation, with tanh or "
        "nothing at every "
        "one of the three positions, against the closed forms, at two depths.",
    ),
    "equation_10": Statement(
        statement="The condition number of the 1-shortcut network's Hessian at zero grows without "
        "bound with the number of units (text after theorem 2).",
        assumptions=(_SMOOTH,),
        tested="|λ|max over the 10th percentile of |λ| at 2 to 32 units, from the closed form.",
    ),
    "equation_22": Statement(
        statement="For n = 2 the eigenvalues at zero are ±√eigs(AᵀA), one copy a unit; those are "
        "the singular values of s_mid s_post Δ, each repeated (equations 22 to 26).",
        assumptions=(_SMOOTH,),
        tested="All eigenvalues of the dense Hessian of the network, at two depths, against the "
        "singular values of "
        "the moments.",
    ),
    "equation_29": Statement(
        statement="For n = 1 without activations the blocks at zero are B = I ⊗ Σ^XX and "
        "A = (Σ^XX − Σ^YX) moved by a permutation + B (equations 27 to 32).",
        tested="The blocks of the dense Hessian of the network against these formulas, entry by "
        "entry.",
    ),
    "lemma_1": Statement(
        statement="One unit with bias and ReLU can move one of m unit vectors by d and leave the "
        "others where they are, with ‖W¹‖_F = ‖W²‖_F = √(8d)/ρ.",
        assumptions=("the vectors have unit length", "all distances, before and after, are ≥ ρ/2"),
        tested="The unit is built and applied to random vectors; moved vector, unmoved vectors and "
        "norms are compared.",
    ),
    "lemma_2": Statement(
        statement="Inputs can be carried to labels in m⌈(ρ(m − 1)/2 + 1)π/d⌉ such moves of length "
        "below d, always keeping a distance of ρ/2.",
        assumptions=(_SAMPLES, _APART),
        tested="The paths, arcs that go around the other vectors, are built, and their "
        "length, steps and distances measured.",
    ),
    "definition_5": Statement(
        statement="The entries of the Hessian are ordered by unit, layer, column and row.",
        tested="A convention: it asserts nothing. Ours is by unit, layer, row and column.",
        testable=False,
    ),
    "lemma_3": Statement(
        statement="A mixed derivative of the loss at zero is zero unless the variables include one "
        "from every layer of some unit.",
        assumptions=(_SMOOTH,),
        tested="All derivatives of order 2 (n = 2) and 3 (n = 3) at zero; those that must "
        "vanish, and those that need not.",
    ),
    "lemma_4": Statement(
        statement="Second derivatives at zero depend on two variables' units only through whether "
        "they are one unit or two, and in which order.",
        assumptions=(_SMOOTH,),
        tested="All blocks of dense Hessians, n = 1 and n = 2, against those of the first one or "
        "two units.",
    ),
}
