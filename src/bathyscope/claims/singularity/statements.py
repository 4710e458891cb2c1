"""The statements of the theme `singularity`, in the paper's order."""

from bathyscope.claims.claim import Statement

_LINEAR = "linear networks with weights drawn anew"

STATEMENTS: dict[str, Statement] = {
    "equation_2": Statement(
        statement="A block of the plain network is h ↦ W^l W^{l−1} h (equations 1 and 2).",
        tested="The output of a plain linear network against the product of its matrices.",
    ),
    "equation_5": Statement(
        statement="A residual block is h ↦ (W^l W^{l−1} + I) h (equations 3 to 5).",
        tested="The output of a residual linear network against the product of its matrices.",
    ),
    "equation_8": Statement(
        statement="A block with s paths is h ↦ (Σ_k W^{l,k} W^{l−1,k} + I) h (equations 6 to 8).",
        tested="The output of an aggregated linear network against the product of its matrices.",
    ),
    "definition_1": Statement(
        statement="The columns of a non-singular matrix are linearly independent and span the "
        "space.",
        tested="Random matrices of every rank: full rank, and every unit vector reached by the "
        "columns, exactly where no singular value is zero.",
    ),
    "lemma_1": Statement(
        statement="The product of m Gaussian matrices and the m-th power of one have the same "
        "asymptotic singular spectrum.",
        tested="Quantiles of both against the Fuss–Catalan law for m = 2, 3 at n = 240; and the "
        "share of the top direction for m = 400 at n = 16, where the statement is used.",
    ),
    "proposition_1": Statement(
        statement="A matrix with uniform or Gaussian entries is non-singular with probability one.",
        tested="Numerical ranks of random matrices of three sizes from both laws, in float64.",
    ),
    "corollary_1": Statement(
        statement="All square weight matrices of a network are non-singular at initialisation, "
        "so that W = Σ σ_i u_i v_iᵀ with σ_i > 0 (equation 10).",
        tested="Ranks of every square weight of freshly drawn networks, or of yours, and the "
        "reconstruction.",
    ),
    "equation_11": Statement(
        statement="The condition number is σ_max/σ_min.",
        tested="A definition: it asserts nothing. Every condition number here carries its cut-off.",
        testable=False,
    ),
    "theorem_1": Statement(
        statement="The distance of a matrix of norm one to the singular matrices is 1/κ.",
        assumptions=("‖M‖ = 1", "M is non-singular"),
        tested="A perturbation of size 1/κ that makes it singular, and many smaller ones that do "
        "not.",
    ),
    "lemma_2": Statement(
        statement="W^m = Σ σ_i^{2m} u_i u_iᵀ, with σ_i and u_i from the singular value "
        "decomposition of W.",
        tested="Both sides for Gaussian W, and for W = BBᵀ with σ and u of B.",
    ),
    "equation_14": Statement(
        statement="Every vector is a combination of the left singular vectors.",
        tested="Random vectors against their expansion.",
    ),
    "definition_2": Statement(
        statement="The representations of a batch are the columns of one matrix H.",
        tested="A definition: it asserts nothing.",
        testable=False,
    ),
    "theorem_2": Statement(
        statement="In a deep linear plain network h^m → α_1 σ_1^{2m} u_1, with σ_1, u_1 of a "
        "layer.",
        assumptions=(_LINEAR,),
        tested="Direction and size of the last representation against the formula, and the share "
        "of its largest direction over depth.",
    ),
    "remark_1": Statement(
        statement="In a deep plain network the columns of H become collinear and H singular.",
        assumptions=(_LINEAR,),
        tested="Share of the first singular value and condition number of H over depth.",
    ),
    "theorem_3": Statement(
        statement="In a deep linear residual network h^m = α_1 u_1[(σ_1² + 1)^m − 1] + Σ α_i u_i.",
        tested="The coefficients of every u_i in a network all of whose blocks are W = BBᵀ, the "
        "case for which lemma 2 is true.",
    ),
    "remark_2": Statement(
        statement="In a deep residual network no direction vanishes and H is non-singular.",
        assumptions=(_LINEAR,),
        tested="Numerical rank of H at 82 blocks, with branches as drawn and scaled by 0.1; "
        "growth of κ with and without skips at 5 blocks.",
    ),
    "section_4_deletion": Statement(
        statement="With all layers deleted a residual network returns its input, and a plain one "
        "zero.",
        tested="Outputs with all branches dropped, and with all weights zero.",
    ),
    "lemma_3": Statement(
        statement="A sum of independent Gaussian matrices is Gaussian, with the sums of means and "
        "variances.",
        tested="Mean, variance and Kolmogorov–Smirnov distance of the entries; beside it the "
        "kurtosis of the products to which the paper applies it.",
    ),
    "theorem_4": Statement(
        statement="In a deep linear aggregated network "
        "h^m = α_1 u_1[(σ_1² + 1)^m − 1] + Σ α_i u_i.",
        tested="As theorem 3, with blocks whose paths sum to W = BBᵀ.",
    ),
    "remark_3": Statement(
        statement="In a deep aggregated network no direction vanishes and H is non-singular.",
        assumptions=(_LINEAR,),
        tested="As remark 2, with four paths.",
    ),
    "lemma_4": Statement(
        statement="If B is singular, so is AB.",
        tested="Random matrices of square and of other shapes, B without full rank.",
    ),
    "lemma_5": Statement(
        statement="If A and B are non-singular, so is AB.",
        tested="Random and chosen matrices of square and of other shapes, both of full rank.",
    ),
    "definition_3": Statement(
        statement="The error gradient is Δ^m = H^m (W^{m+1} Δ^{m+1}).",
        tested="Automatic differentiation of a linear network with as many samples as units, "
        "where the shapes fit.",
    ),
    "definition_4": Statement(
        statement="The update is ΔW^m = −η ∂C/∂W^m = η Δ^m H^{m−1}.",
        tested="A step of gradient descent on a linear network with as many samples as units, "
        "where the shapes fit.",
    ),
    "remark_4": Statement(
        statement="In a deep plain network, because H^m is singular, error gradient and update "
        "are singular.",
        assumptions=(_LINEAR, "H^m is singular"),
        tested="Ranks of gradient and update at the last block, where H is singular, and at the "
        "first.",
    ),
    "remark_5": Statement(
        statement="In a deep residual network error gradients and updates are non-singular.",
        assumptions=(_LINEAR,),
        tested="Ranks of gradients and updates of every block at 82 blocks, with branches as "
        "drawn and "
        "scaled by 0.1.",
    ),
    "remark_6": Statement(
        statement="In a deep aggregated network error gradients and updates are non-singular.",
        assumptions=(_LINEAR,),
        tested="As remark 5, with four paths.",
    ),
    "proposition_2": Statement(
        statement="A relative change of the representation changes the learned solution, "
        "relatively, by at most κ(H) times as much.",
        tested="Least-squares solutions before and after changes of H: small ones with "
        "consistent labels, large "
        "ones, and small ones with inconsistent labels.",
    ),
    "remark_7": Statement(
        statement="In a deep plain network κ(H) is infinite, so that tiny changes of the input "
        "change the solution extremely.",
        assumptions=(_LINEAR,),
        tested="κ(H) of a deep plain network, and the amplification of a change of 1e-10.",
    ),
    "remark_8": Statement(
        statement="In deep residual and aggregated networks κ(H) is finite, so that small changes "
        "of the input change the solution little.",
        assumptions=(_LINEAR,),
        tested="κ(H) and the amplification of a change of 1e-10 at 82 blocks, with branches as "
        "drawn and scaled by 0.1.",
    ),
    "theorem_5": Statement(
        statement="√z − √s ≤ E σ_min ≤ E σ_max ≤ √z + √s for a Gaussian s × z matrix.",
        assumptions=("s < z",),
        tested="Means over 200 matrices for four shapes, within four standard errors.",
    ),
    "corollary_2": Statement(
        statement="The representations of the ResNet are worse conditioned than those of the "
        "ResNeXt, at every layer.",
        assumptions=("q < n < N",),
        tested="κ of Gaussian H of the two sizes, and κ of H in linear networks of the two kinds.",
    ),
    "remark_9": Statement(
        statement="The ResNeXt has a more stable solution than the ResNet.",
        assumptions=("q < n < N",),
        tested="Amplification of small changes of H, for Gaussian H of the two sizes and in linear "
        "networks of the two kinds.",
    ),
    "equation_39": Statement(
        statement="The Dirac parametrisation is W = diag(a) I + W (with equation 40), and a, "
        "being free, leaves "
        "the identity in training.",
        tested="The kernel that a Dirac layer applies, and a after steps of gradient descent.",
    ),
    "section_7_delta_orthogonal": Statement(
        statement="Delta-orthogonal starts lose their orthogonality in training, and such "
        "networks without skips generalise poorly.",
        tested="Orthogonality of a layer before and after steps of gradient descent, lost at once. "
        "The second half needs long training on CIFAR-10 and is left to the studies.",
    ),
    "section_7_highway": Statement(
        statement="A highway network with both gates at one is a residual network.",
        tested="Outputs of both with the same weights.",
    ),
    "section_7_architecture_search": Statement(
        statement="Architecture search prefers skips because they keep representations "
        "non-singular.",
        tested="A search over where a plain network of 26 layers gets skips: six narrow networks, "
        "from no skip to all, ranked by accuracy after 16 steps on digits; whether those passed over "
        "are singular, and how the ranking goes with κ and with the growth of the gradient.",
    ),
    "finding_1": Statement(
        statement="Very deep plain networks fail to train because of singular representations, "
        "which come from the repeated product with the weights and show in gradients and updates.",
        assumptions=("the plain network fails to train",),
        tested="A narrow plain network of 110 layers with batch normalisation on digits: singular "
        "blocks and growth of the gradient before the first step, after it, and after 16 steps at "
        "learning rate 0.1. The order of events over seeds, starts and rates is the study "
        "`singularity.which_came_first`.",
    ),
    "finding_2": Statement(
        statement="ResNet and ResNeXt train easily because skips remove that singularity.",
        tested="Narrow networks of both kinds of 20 layers on digits at learning rate 0.02, with "
        "and without batch normalisation: accuracy and singular blocks after 40 steps.",
    ),
    "finding_3": Statement(
        statement="ResNeXt generalises better because its representations are better conditioned.",
        assumptions=("both networks fit the training data",),
        tested="Narrow networks of both kinds of 20 layers trained on 256 digits until they fit "
        "them: median κ of the blocks, and accuracy on 354 others. Small data and networks; long "
        "training on natural images may differ.",
    ),
    "finding_4": Statement(
        statement="Special initialisations lag behind skips because weights leave the wanted "
        "regime.",
        tested="Narrow networks of 20 layers after 32 steps on digits: residual, plain from a "
        "delta-orthogonal start, DiracNet, and a delta-orthogonal one whose kernels are projected "
        "back after every step.",
    ),
}
