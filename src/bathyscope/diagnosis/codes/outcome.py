"""What shows in the output, the loss and the first steps: last of all, because all else may cause it."""

from bathyscope.diagnosis.codes.code import Code

OUTCOME: dict[str, Code] = {
    "zero-gradient": Code(
        "data-flow",
        "Every gradient is zero",
        "No parameter moves at the first step, and none after it.",
        "the chain rule",
        "Look at the end of the network first: an output that does not depend on what is before it.",
        effects=("cut-gradient",),
    ),
    "constant-output": Code(
        "output",
        "An output that does not depend on the input",
        "All samples get the same answer though they differ.",
        "the spread of the outputs over the batch",
        "Look at the first block where the samples become alike, or at the activation at the end.",
        effects=("zero-gradient", "loss-does-not-fall"),
    ),
    "poor-start": Code(
        "initialisation",
        "A start far worse than a constant answer",
        "The network begins with large and confident mistakes; the first steps only undo them.",
        "the least loss of one answer for all samples, from the targets",
        "Scale inputs and targets; start the last layer small, or with the mean of the targets as bias.",
        effects=("overshooting-step", "exploding-gradient"),
    ),
    "overshooting-step": Code(
        "learning-rate",
        "A step that makes its own batch worse",
        "The loss of the very batch that the step was made from rises: the step is longer than the "
        "curvature allows.",
        "descent on a quadratic lowers the loss for rates below 2/λmax",
        "Lower the learning rate, tenfold at first, or warm it up.",
        effects=("loss-does-not-fall", "unstable-rate", "large-update"),
    ),
    "small-budget": Code(
        "budget",
        "Too few steps at this rate",
        "Even if every step gained as much as the first, the loss would not have come down by half at "
        "the end of the steps planned.",
        "steps × the gain of the first step, times 1/(1 − momentum)",
        "Train for more steps, or raise the learning rate.",
    ),
    "loss-does-not-fall": Code(
        "learning-rate",
        "The loss does not come down",
        "After some steps on this very batch the loss is where it was, or above.",
        "a few steps on a copy",
        "Lower the learning rate where the loss rises, raise it where it stays; look at the findings "
        "above first.",
    ),
}
