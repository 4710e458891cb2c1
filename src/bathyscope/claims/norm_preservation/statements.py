"""The statements of the theme `norm_preservation`, in the paper's order."""

from bathyscope.claims.claim import Statement

STATEMENTS: dict[str, Statement] = {
    "theorem_1": Statement(
        statement="A smooth invertible map can be written as L residual blocks that change "
        "gradient norms by no more than a factor 1 ± c log(2L)/L.",
        assumptions=(
            "the map is differentiable and invertible, with Lipschitz derivative and inverse",
            "its derivative has a positive determinant somewhere",
        ),
        tested="The blocks are built for one such map by the dilation of the cited existence "
        "proof; the constant is not given, so only the rate is judged: "
        "δ·L/log(2L) must not grow with L.",
    ),
    "corollary_1": Statement(
        statement="A block x + W² ρ(W¹ ρ(x)) changes gradient norms by no more than a factor "
        "1 ± δ, δ = c_ρ² ‖W¹‖₂ ‖W²‖₂.",
        assumptions=(
            "identity shortcuts, and branches of activations and linear maps only",
            "the slope of ρ lies in [0, c_ρ]",
        ),
        tested="Measured gradient-norm ratios of every block against δ, at two scales of the "
        "weights, with how loose the bound is; or of your own network.",
    ),
    "equation_3": Statement(
        statement="A linear residual network is the map y = ∏_l (I + W_l) x (with equation 2).",
        tested="The output of a network against the product of its matrices.",
    ),
    "theorem_2": Statement(
        statement="A linear map R has a global optimum of L linear residual blocks that change "
        "gradient norms by no more than 1 ± c/L, c = 2(√π + √(3γ))², for L ≥ 3γ.",
        assumptions=("L ≥ 3γ, γ the largest |log σ(R)|",),
        tested="The blocks are built by fractional powers of rotation and stretch (and one "
        "reflection where det R < 0), put into a network, and gradient-norm ratios measured.",
    ),
    "equation_5": Statement(
        statement="The gradient at the input of a convolution is a linear map of that at its "
        "output, Δx = Ŵ Δy, and Δx = Σ σ_j u_j ⟨Δy, v_j⟩ (equation 6).",
        tested="Automatic differentiation against the explicit matrix of the layer and its SVD.",
    ),
    "equation_7": Statement(
        statement="Setting all nonzero singular values to σ² = E‖Δy‖² / (the part outside the null "
        "space) preserves the mean square of the gradient.",
        tested="A layer with equal singular values under anisotropic gradients; σ from "
        "the layer's own gradients, then the ratio measured; beside it the value for isotropic "
        "ones.",
    ),
    "section_3_relu": Statement(
        statement="For a convolution followed by ReLU, singular values √(2d/min(d, c)) preserve "
        "the mean square of the gradient.",
        assumptions=("gradients that spread evenly over all directions",),
        tested="Gradient-norm ratios of such layers with isotropic gradients, for several c and d.",
    ),
    "theorem_3": Statement(
        statement="The singular values of a convolution on n × n images are those of the Fourier "
        "transforms of its kernel at all n² frequencies.",
        tested="Against the singular values of the explicit matrix, for circular padding, zero "
        "padding and stride 2, on drawn kernels or on those of a given network.",
    ),
    "equation_8": Statement(
        statement="s P (PᵀP)^{-1/2} is the matrix nearest to P among those with P̂ᵀP̂ = s² I.",
        tested="The formula as printed on the complex matrices of a kernel, its singular values "
        "and distance; the same with the Hermitian transpose against many other candidates.",
    ),
    "equation_9": Statement(
        statement="The coupled iteration from Y = PᵀP, Z = I converges to (PᵀP)^{-1/2} "
        "quadratically.",
        tested="Errors over the iterations, for Gram matrices as they come and divided by their "
        "norm.",
    ),
    "algorithm_1": Statement(
        statement="Projecting every frequency and transforming back leaves the kernel "
        "norm-preserving: all nonzero singular values at their target.",
        tested="Singular values after one pass, for a kernel as large as the image and for one "
        "that is cut back to its 3 × 3 taps.",
    ),
    "lemma_1": Statement(
        statement="1 − σ_max(M) ≤ σ_min(I + M) ≤ σ_max(I + M) ≤ 1 + σ_max(M).",
        assumptions=("I + M is non-singular",),
        tested="Random matrices at scales from 0.01 to 10; the worst margins.",
    ),
    "lemma_2": Statement(
        statement="A map as in theorem 1 can be written with residual blocks of Lipschitz constant "
        "at most c log(2L)/L.",
        assumptions=("as in theorem 1",),
        tested="The branches' largest slopes, over sample points, in the construction of theorem "
        "1; the constant is not "
        "given, so only the rate is judged.",
    ),
    "equation_10": Statement(
        statement="The gradient at the input of a linear residual block is (I + Wᵀ) times that "
        "at its output.",
        tested="Automatic differentiation through a network against the product.",
    ),
    "lemma_3": Statement(
        statement="A linear map R has a global optimum of L linear residual blocks with "
        "σ_max(W_l) ≤ 2(√π + √(3γ))²/L.",
        assumptions=("L ≥ 3γ",),
        tested="The blocks of theorem 2's construction, for maps with det R > 0 and det R < 0.",
    ),
}
