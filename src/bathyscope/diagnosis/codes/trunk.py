"""What can be wrong with the blocks of a network and the steps of its optimizer, causes first."""

from bathyscope.diagnosis.attention_codes import ATTENTION_FAULTS, ATTENTION_SYMPTOMS
from bathyscope.diagnosis.codes.code import Code

TRUNK: dict[str, Code] = {
    "not-finite": Code(
        "precision",
        "Values that are not finite",
        "One NaN or infinite value spreads to everything computed from it, and the first step of an "
        "optimizer writes it into every weight.",
        "IEEE 754 arithmetic",
        "Look at the named block: a division by zero, the root or logarithm of zero, an overflow in a "
        "short format. Re-initialise the block if its weights are already lost.",
    ),
    "flat-start": Code(
        "initialisation",
        "A start from which nothing moves",
        "The gradient of every block is zero here, so a first-order method does not leave this point; "
        "with more than two layers in each branch the Hessian is zero as well.",
        "shortcut_length, theorem 2",
        "Perturb the weights (scheme `small`), or zero only the last layer of each branch.",
    ),
    "flat-to-second-order": Code(
        "initialisation",
        "A start that is flat to second order",
        "Products with the Hessian of the blocks are zero as well as the gradient: noise leaves this "
        "point far more slowly than an ordinary saddle, the more slowly the more layers a branch has.",
        "shortcut_length, theorem 2 (n ≥ 3) and definition 4",
        "Re-initialise the blocks; to start as the identity, zero only the last layer of each branch.",
    ),
    **{code: Code(*values) for code, values in ATTENTION_FAULTS.items()},
    "exploding-weights": Code(
        "initialisation",
        "Weights far larger than those of the other layers",
        "What goes through the layer dwarfs everything else, and the gradient grows by the same factor "
        "on its way back; behind a normalisation the layer stops learning instead.",
        "singularity, section VI (figures 8 to 12); norm_preservation, corollary 1",
        "Re-initialise or rescale the block; look for a learning rate that was too large before.",
    ),
    "ill-conditioned-weights": Code(
        "initialisation",
        "A weight matrix that has lost most of its rank",
        "Directions that a layer maps to zero are lost to every layer after it, and no gradient comes "
        "back along them.",
        "singularity, section IV (equation 11, lemma 4)",
        "Re-initialise the block (he, orthogonal), or put an identity shortcut around it.",
    ),
    "zero-weights": Code(
        "initialisation",
        "A layer whose weights are all zero",
        "Without a shortcut around it everything before it is lost: the layer gives its bias, and no "
        "gradient goes back through it.",
        "0·x = 0",
        "Re-initialise the layer; of a weight norm, set its scale g to other than zero.",
        effects=(
            *("dead-units", "collapsed-representation", "singular-representation"),
            *("cut-gradient", "constant-output", "zero-gradient"),
        ),
    ),
    "dead-units": Code(
        "activation",
        "Units that give the same value for every sample",
        "A unit that never changes passes no gradient to the weights before it, so it cannot recover "
        "by itself.",
        "the derivative of a ReLU below zero is zero",
        "Re-initialise the block; look for a large negative bias or a learning rate that was too large.",
    ),
    "precision-loss": Code(
        "precision",
        "A signal that drowns in the rounding of its own offset",
        "The values differ from one another by little more than the spacing of floating-point numbers "
        "of their size: what tells samples apart is rounded away.",
        "IEEE 754: numbers near c are spaced ε·c apart",
        "Remove the offset (a bias, a missing normalisation), or use a longer format.",
    ),
    "silent-branch": Code(
        "initialisation",
        "A residual branch that adds nothing and receives nothing",
        "The block is its shortcut, and its weights are too small for the gradient to reach the layers "
        "inside: at zero every derivative up to order n − 1 of a branch with n layers vanishes.",
        "shortcut_length, theorem 2",
        "Re-initialise the branch; to start as the identity, zero its last layer only.",
    ),
    "batchnorm-masks": Code(
        "initialisation",
        "A batch norm that hides the scale of the layer before it",
        "The variance that reaches the norm is below its ε, so it no longer normalises; with another "
        "batch, or in eval mode, the network is a different one.",
        "batch norm divides by √(variance + ε)",
        "Re-initialise or rescale the layer before the norm.",
    ),
    **{code: Code(*values) for code, values in ATTENTION_SYMPTOMS.items()},
    "collapsed-representation": Code(
        "architecture",
        "All samples look alike",
        "From this block on the samples point in one direction; the layers after it cannot tell them "
        "apart, and their gradients are those of one sample.",
        "singularity, theorem 2 and remark 1",
        "An identity shortcut with scaled branches, or a normalisation, before this block.",
    ),
    "singular-representation": Code(
        "architecture",
        "A representation of low rank",
        "The features span few directions: what lay in the others cannot be brought back by any later "
        "layer, and weight updates inherit the low rank.",
        "singularity, remarks 1 and 4",
        "An identity shortcut around the block, or a wider bottleneck.",
    ),
    "cut-gradient": Code(
        "data-flow",
        "The gradient stops",
        "No gradient reaches the blocks before this one: they stay as they were initialised.",
        "the chain rule",
        "Look for detach(), no_grad, .data, an argmax, or an integer cast in the named blocks.",
    ),
    "not-norm-preserving": Code(
        "initialisation",
        "A block that changes the gradient's norm by a large factor",
        "Norms multiply along the trunk, so one such block sets the scale of the gradient for everything "
        "before it; no learning rate suits both sides.",
        "norm_preservation, theorem 1 and section 3",
        "Rescale the block; on a transition, the Procrustes projection holds its singular values.",
        downstream=("token-collapse", "stream-outgrows-branches"),
    ),
    "exploding-gradient": Code(
        "architecture",
        "The gradient grows on its way back",
        "The first blocks receive a gradient that is orders of magnitude larger than the last: the first "
        "step throws their weights far away, and singular representations follow.",
        "norm_preservation, section 4.1; singularity, section VI",
        "Identity shortcuts around equal-shaped blocks; branches scaled by depth; a lower learning rate.",
    ),
    "vanishing-gradient": Code(
        "architecture",
        "The gradient fades on its way back",
        "The first blocks receive a gradient that is orders of magnitude smaller than the last and "
        "hardly move.",
        "norm_preservation, section 4.1",
        "Identity shortcuts around equal-shaped blocks; rescale the blocks to unit gain.",
    ),
    "large-update": Code(
        "learning-rate",
        "Steps as large as the weights",
        "One step replaces what the layer has learnt; the loss jumps and the layers after it see another "
        "network.",
        "‖ΔW‖/‖W‖ of one step of the optimizer at hand",
        "A lower learning rate, a warm-up, or gradient clipping.",
    ),
    "unstable-rate": Code(
        "learning-rate",
        "A learning rate far above the stable one",
        "Along the direction of greatest curvature each step overshoots and the error grows: the loss "
        "rises until the weights have moved to a flatter place, or for good.",
        "gradient descent with momentum β on a quadratic is stable up to 2(1 + β)/λmax",
        "A learning rate at or below the stable one, or a warm-up towards the one at hand.",
    ),
    "small-update": Code(
        "learning-rate",
        "Steps too small to change the weights",
        "The step is lost in the rounding of the weight it is added to: the layer does not learn.",
        "‖ΔW‖/‖W‖ below the dtype's ε",
        "A higher learning rate for these parameters, or weights kept in a longer format.",
    ),
    "narrow-residual-space": Code(
        "architecture",
        "A ResNEst without room for its features",
        "The features are added up in M dimensions and the prediction reads the sum: where "
        "[W_0 … W_{L−1}] has not full column rank they cannot be told apart in it, and no prediction "
        "weights need reach what the features allow, or even a linear predictor.",
        "nests, assumption 4 and section 3.2",
        "Widen to M = ΣK_i + N_o (i < L, the intercept counted in K_0), or take the augmented form, "
        "`nets.residual_to_augmented(model)`: it keeps the features, and needs no room.",
    ),
    "worse-than-linear": Code(
        "initialisation",
        "Worse than the best linear predictor of the input",
        "The output is linear in features of which the input is the first, so weights exist that do no "
        "worse than a linear model: it is the prediction weights that are not there yet.",
        "nests, corollary 2 and proposition 2",
        "Solve for the prediction weights on the features as they are (`treat` does), or train on.",
    ),
    "equal-samples": Code(
        "batch",
        "All samples of the batch are equal",
        "Dead units, batch norms, collapse and rank, and the gradient through a batch norm, are judged "
        "by how the samples of a batch differ: these rules were left out.",
        "one sample has one representation",
        "Pass a batch of different samples.",
    ),
}
