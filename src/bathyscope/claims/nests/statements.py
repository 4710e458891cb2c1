"""The statements of the theme `nests`, in the paper's order."""

from bathyscope.claims.claim import Statement

_A1 = "assumption 1: Σ v_L yᵀ ≠ 0, and Σ v_L v_Lᵀ has full rank"
_A2 = "assumption 2: the loss is differentiable and convex"
_A3 = "assumption 3: M ≥ N_o"
_A4 = "assumption 4: [W_0 … W_{L−1}] has full column rank"

STATEMENTS: dict[str, Statement] = {
    "equation_2": Statement(
        statement="The output of a ResNEst is linear in its features: ŷ = W_{L+1} Σ_i W_i v_i "
        "(with equation 1).",
        tested="The output against the sum over the features of the network.",
    ),
    "remark_1": Statement(
        statement="Every local minimum of the whole problem is one of the problem with fixed "
        "features, so that what is true of all of the latter is true of the former.",
        tested="A remark on sets: it follows from the definition of a local minimum, and there "
        "is nothing to measure.",
        testable=False,
    ),
    "proposition_1": Statement(
        statement="With fixed features the squared loss is neither convex nor concave in "
        "(W_L, W_{L+1}), and a critical point that is no local minimum is a saddle.",
        assumptions=("squared loss", _A1),
        tested="Curvatures of both signs at zero prediction weights; an upward curvature at "
        "every critical "
        "point that is found or constructed.",
    ),
    "equation_4": Statement(
        statement="The augmented form predicts with Σ_i H_i v_i; H_i = W_{L+1} W_i gives the "
        "ResNEst.",
        tested="The output of the augmented form of a ResNEst against the ResNEst's.",
    ),
    "proposition_2": Statement(
        statement="With fixed features the augmented problem is convex, and its minimum is a lower "
        "bound for every local minimum of the ResNEst: ε ≥ 0 (equation 6).",
        assumptions=(_A2,),
        tested="ε of ResNEsts as drawn and at local minima, for two widths, squared and "
        "cross-entropy loss; the augmented risk along chords of prediction weights.",
    ),
    "equation_7": Statement(
        statement="The risk with H_0, …, H_i and zeros after never rises with i, and falls "
        "strictly only if v_i is not linearly predictable from the features before it.",
        assumptions=(_A2,),
        tested="Block by block risks of random networks, with the weights of the whole cut off "
        "(the statement read literally) and with weights solved anew; a feature that is made "
        "predictable must not lower the risk.",
    ),
    "theorem_1": Statement(
        statement="With fixed features every critical point with W_{L+1} of full rank is a global "
        "minimum, and ε = 0 at every local minimum.",
        assumptions=(_A2, _A3, _A4),
        tested="ε at local minima found from several starts, at widths from just enough up; "
        "widths below are reported "
        "beside them.",
    ),
    "remark_2": Statement(
        statement="At a local minimum, representations improve monotonically over the blocks, and "
        "each predicts no worse than the input does.",
        assumptions=(_A2, _A3, _A4),
        tested="The best risk from each representation x_1, …, x_L of a network trained to a "
        "local minimum.",
    ),
    "corollary_1": Statement(
        statement="A local minimum with more blocks is no higher than one with fewer, if the "
        "features of the latter are among those of the former.",
        assumptions=(_A2, _A3, _A4),
        tested="Local minima of the prediction weights of a network cut after each of its blocks.",
    ),
    "corollary_2": Statement(
        statement="A local minimum is no worse than the best linear predictor of the input, and "
        "strictly better if the features after the first lower the augmented risk.",
        assumptions=(_A2, _A3, _A4),
        tested="Risks at local minima from several starts against the best linear predictor, and "
        "the augmented risk with and without features.",
    ),
    "section_3_2": Statement(
        statement="The bottleneck condition M ≥ Σ_{i<L} K_i is enough for assumption 4.",
        tested="Ranks of [W_0 … W_{L−1}] of random networks with just enough room and with less; "
        "and of one with room whose blocks share a direction.",
    ),
    "theorem_2": Statement(
        statement="At every saddle point W_{L+1} is rank-deficient, and some direction has "
        "strictly negative curvature.",
        assumptions=("squared loss", _A1, _A3, _A4),
        tested="Saddles with W_{L+1} = 0 are constructed, and critical points with W_{L+1} of "
        "full rank are found: ranks, "
        "curvatures, and the fall of the risk along the direction.",
    ),
    "equation_9": Statement(
        statement="The output of a DenseNEst is Σ_i W_{L+1,i} v_i (with equation 8).",
        tested="The output against the sum over the features of the network.",
    ),
    "proposition_3": Statement(
        statement="A local minimum of a DenseNEst is no worse than the best linear predictor.",
        assumptions=(_A2,),
        tested="Risks of DenseNEsts trained to a local minimum in all their weights, for two "
        "losses.",
    ),
    "proposition_4": Statement(
        statement="Every DenseNEst is a wide ResNEst with bottleneck blocks, with the same output "
        "everywhere and ε = 0 at its local minima.",
        tested="Outputs of converted networks on random inputs, assumption 4, and the best risk "
        "its "
        "prediction weights can attain against the bound.",
    ),
}
