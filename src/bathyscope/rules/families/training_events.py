"""What only a training shows: jumps of the loss or the gradient, activations and weights that change."""

from bathyscope.rules.rule import CausalStage, Rule, Transition

EXPLODING_ACTIVATIONS = Rule(
    code="exploding-activations",
    stage=CausalStage.NON_FINITE,
    cause="learning-rate",
    title="Activations that have grown a hundredfold",
    explanation="The output of a block has left the range that the layers after it were trained on; the "
    "next steps make it larger still, up to Inf.",
    source="layers drift by factors, not by two decades: watched healthy trainings",
    advice="Put a normalization before the named block, scale its branch, or lower the learning rate.",
    downstream=("non-finite", "dead-units", "collapsed-representation", "loss-spike"),
    upstream=("gradient-spike",),
    # logits that begin near zero grow by decades, and are ordinary then
    event=Transition(
        title="activations exploded", column="std", above=100.0, times=True, floor=0.1
    ),
)

WEIGHTS_CHANGED = Rule(
    code="weights-changed",
    stage=CausalStage.WEIGHTS,
    cause="optimizer",
    title="Weights that something other than the optimizer has written",
    explanation="Between two steps the weights of a block changed though no optimizer stepped: the "
    "training continues with another network than the one it had.",
    source="the version counters, norms and some entries of the parameters",
    advice="Look for what writes them: a checkpoint that was loaded, or a damaged one.",
    effects=("loss-spike", "gradient-spike"),
    downstream=("exploding-activations", "dead-units", "collapsed-representation"),
    event=Transition(title="weights changed between two steps"),
)

GRADIENT_SPIKE = Rule(
    code="gradient-spike",
    stage=CausalStage.GRADIENTS,
    cause="learning-rate",
    title="A gradient norm far above all that the run has shown",
    explanation="One step with such a gradient can undo hundreds of ordinary ones, and leaves the moments "
    "of Adam off for many more.",
    source="ten times the median and three times the largest gradient norm of the run",
    advice="Clip gradients; look at the batch of this step and at the named block.",
    effects=("loss-spike",),
    event=Transition(title="the gradient norm jumped"),
)

LOSS_SPIKE = Rule(
    code="loss-spike",
    stage=CausalStage.EVENT,
    cause="learning-rate",
    title="A loss far above its band",
    explanation="The network has lost a part of what it had learned, or met a batch unlike the others.",
    source="a robust band over the last steps, and the largest excess that the run has shown",
    advice="Look at the batch of this step; clip gradients; lower the learning rate, or warm it up.",
    event=Transition(title="the loss jumped"),
)
