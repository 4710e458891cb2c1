"""What can be wrong around the trunk: input, labels, output and loss, parameters, mode, structure."""

from bathyscope.diagnosis.codes.code import Code

_SCALE = (
    "saturated-output",
    "constant-output",
    "poor-start",
    "overshooting-step",
    "loss-does-not-fall",
    "unstable-rate",
    "large-update",
    "zero-gradient",
    "dead-units",
    "precision-loss",
    "collapsed-representation",
    "singular-representation",
    "batchnorm-masks",
    "not-norm-preserving",
    "exploding-gradient",
    "vanishing-gradient",
    "not-finite",
)
"""What values of the wrong size bring about."""

_FLAT = (
    "saturated-output",
    "constant-output",
    "zero-gradient",
    "poor-start",
    "loss-does-not-fall",
    "cut-gradient",
    "collapsed-representation",
    "not-norm-preserving",
    "vanishing-gradient",
)
"""What an output that does not fit its loss brings about."""

TRAINING: dict[str, Code] = {
    "blank-input": Code(
        "input",
        "Inputs that are all zero",
        "Every sample is the same blank one: nothing can be learnt from it but the frequencies of the "
        "labels.",
        "a network is a function of its input",
        "Look at how the batch is made: an empty buffer, a scaling by an integer division, a mask.",
        effects=(*_SCALE, "equal-samples", "flat-start"),
    ),
    "unscaled-input": Code(
        "input",
        "Inputs that were never scaled",
        "Initialisers and learning rates are made for inputs of about unit size. Larger ones make the "
        "first layer's output and gradient larger by the same factor, and a column far larger than the "
        "others hides them.",
        "LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.3",
        "Standardise every column: x = (x - x.mean(0)) / x.std(0), with the training set's numbers; "
        "divide images of bytes by 255.",
        effects=_SCALE,
    ),
    "constant-columns": Code(
        "input",
        "Columns that never change",
        "A column with one value for the whole batch says nothing, and a standardisation divides it by "
        "zero.",
        "the deviation of a constant is zero",
        "Leave the columns out, or look at how they are made.",
    ),
    "repeated-columns": Code(
        "input",
        "Columns that say the same",
        "A column that equals another in every sample adds no information: its weight counts twice, and "
        "no training tells which of the two matters.",
        "the covariance of equal columns is singular",
        "Leave the copies out, or look at how the columns are made.",
    ),
    "repeated-samples": Code(
        "input",
        "Samples that occur more than once",
        "A batch of copies holds less than its size says; across a split they leak the answers.",
        "a copy adds no information",
        "Look at how the batch is drawn.",
    ),
    "ignored-labels": Code(
        "labels",
        "Every label is ignored",
        "The mean over no label is 0/0: the loss is not a number, and so is every gradient.",
        "torch's ignore_index leaves out targets of −100",
        "Look at how labels are masked: at least one of a batch must be a class.",
        effects=("loss-not-finite", "not-finite", "zero-gradient"),
    ),
    "constant-labels": Code(
        "labels",
        "All labels are the same",
        "A network that ignores its input answers them all: nothing of the task can be learnt.",
        "the best constant answer has the least loss there is",
        "Look at how labels are read and shuffled; a sorted data set needs DataLoader(shuffle=True).",
        effects=("poor-start", "zero-gradient"),
    ),
    "labels-out-of-range": Code(
        "labels",
        "Labels that are no probabilities",
        "A loss on probabilities takes targets from 0 to 1; beyond them it falls without bound, and "
        "the best output lies at the edge.",
        "t log p + (1 − t) log(1 − p) is a likelihood for t in [0, 1]",
        "For classes 0, 1, 2, … give the network one output a class and use nn.CrossEntropyLoss; "
        "for numbers use nn.MSELoss and no activation at the end.",
        effects=_FLAT,
    ),
    "wrong-number-of-outputs": Code(
        "output",
        "Outputs that are not as many as the classes",
        "One number cannot tell several classes apart: they are put on a line in the order of their "
        "labels, which means nothing.",
        "a class is the index of the greatest output",
        "Give the last layer one output a class, and use nn.CrossEntropyLoss on them.",
        effects=_FLAT,
    ),
    "missing-classes": Code(
        "labels",
        "Classes that never occur",
        "Outputs whose class has no label in a large batch are trained only to be small.",
        "the expected count of a class in a batch",
        "Look at the labels and at the number of outputs.",
    ),
    "unscaled-targets": Code(
        "labels",
        "Targets far larger than an output",
        "A fresh network answers about 0 ± 1. To reach targets of this size the last layer must grow "
        "by the same factor, and until then every gradient is larger by it.",
        "LeCun, Bottou, Orr, Müller 1998, Efficient BackProp, section 4.5",
        "Standardise the targets: y = (y - y.mean()) / y.std(), and undo it on predictions.",
        effects=_SCALE,
    ),
    "unrelated-labels": Code(
        "labels",
        "Targets that have nothing to do with the inputs",
        "Samples that are alike have no more like targets than a shuffle would give them: in this batch "
        "there is nothing to be learnt.",
        "permutation test of ⟨A, B⟩ (Kazi-Aoual et al. 1995)",
        "Look for inputs and targets that were shuffled or sorted apart.",
    ),
    "linear-network": Code(
        "activation",
        "Linear maps with nothing between them",
        "A product of matrices is a matrix: without an activation function between its layers the "
        "network is a single linear map, however many it has.",
        "(W₂W₁)x = W₂(W₁x)",
        "Put an activation, such as nn.ReLU(), after every layer but the last.",
    ),
    "narrow-width": Code(
        "architecture",
        "A layer too narrow for the classes",
        "What tells the classes apart has to pass through fewer numbers than it takes to name them.",
        "log₂ of the number of classes",
        "Widen the layer.",
        effects=("singular-representation", "collapsed-representation", "loss-does-not-fall"),
    ),
    "one-unit-softmax": Code(
        "output",
        "A softmax over one unit",
        "e^z / e^z is 1 whatever z is: the output is constant and passes no gradient.",
        "softmax normalises over its axis",
        "For two classes end with one unit and nn.BCEWithLogitsLoss (or a sigmoid with nn.BCELoss).",
        effects=_FLAT,
    ),
    "output-misfit": Code(
        "output",
        "An activation at the end that the loss applies again",
        "The loss takes logits, any number, and applies its own softmax or sigmoid; of outputs squeezed "
        "into a short range the second makes almost equal probabilities, so that the loss cannot come "
        "near zero and its gradient is small.",
        "softmax of values in [0, 1] is at most e/(e + C − 1)",
        "Remove the activation at the end of the network: the loss has it.",
        effects=_FLAT,
    ),
    "sigmoid-for-one-class": Code(
        "output",
        "Sigmoids under a loss on one class of many",
        "The classes do not compete: the loss asks only that the right one be large, and says nothing "
        "to the others, or only through their sum.",
        "cross-entropy is a likelihood of probabilities that sum to one",
        "End with as many outputs as classes, no activation, and nn.CrossEntropyLoss.",
        effects=_FLAT,
    ),
    "softmax-for-several-labels": Code(
        "output",
        "A softmax where several labels hold at once",
        "Its outputs sum to one, so that two labels can never both be likely.",
        "the targets of a row do not sum to one",
        "End with no activation and use nn.BCEWithLogitsLoss.",
        effects=_FLAT,
    ),
    "clipped-output": Code(
        "output",
        "A ReLU at the end of the network",
        "Where it is zero no gradient passes, negative logits cannot be said, and the logarithm of zero "
        "is infinite.",
        "the derivative of a ReLU below zero is zero",
        "Remove the activation at the end of the network.",
        effects=_FLAT,
    ),
    "unreachable-targets": Code(
        "output",
        "Targets outside what the output can reach",
        "The activation at the end has a bounded range, and targets lie beyond it: the output goes to "
        "its edge, where the gradient is zero.",
        "the range of the activation",
        "Remove the activation at the end, or scale the targets into its range.",
        effects=_FLAT,
    ),
    "class-distance": Code(
        "loss",
        "A distance as the loss of classes",
        "Distances to 0 and 1 are no likelihood: far from the answer, behind a sigmoid or softmax, "
        "their gradient vanishes, and that of the absolute error asks for the majority only.",
        "Golik, Doetsch, Ney 2013, cross-entropy vs. squared error training",
        "Use nn.CrossEntropyLoss on class indices, or nn.BCEWithLogitsLoss, without an activation at "
        "the end.",
        effects=("saturated-output", "vanishing-gradient", "loss-does-not-fall"),
    ),
    "broadcast-loss": Code(
        "loss",
        "Output and targets are stretched over one another",
        "Their shapes differ, and every output is compared with every target: the best answer is the "
        "mean of the targets for every sample.",
        "torch's broadcasting",
        "Give both the same shape: output.squeeze(1), or targets.unsqueeze(1).",
        effects=("loss-does-not-fall",),
    ),
    "negated-loss": Code(
        "loss",
        "A loss that rewards the wrong answer",
        "It is smaller for the opposite of the targets than for the targets: descent leads away from "
        "them.",
        "its values on answers made from the targets",
        "Turn the sign of the loss.",
        effects=("poor-start", "loss-does-not-fall"),
    ),
    "summed-loss": Code(
        "loss",
        "A loss that is summed over the batch",
        "Loss and gradient grow with the size of the batch, and the learning rate with them.",
        "the loss of two halves adds up to that of the whole",
        "Use reduction='mean', or divide the learning rate by the size of the batch.",
        effects=("overshooting-step", "large-update", "unstable-rate", "loss-does-not-fall"),
    ),
    "loss-not-finite": Code(
        "loss",
        "A loss that is not a number",
        "Its gradient is none either, and the first step destroys the weights.",
        "IEEE 754 arithmetic",
        "Look at what goes into the loss: the logarithm of zero, an empty mean, an overflow.",
        effects=("not-finite", "zero-gradient"),
    ),
    "frozen-parameters": Code(
        "optimizer",
        "Parameters that are frozen",
        "Without requires_grad a parameter has no gradient and stays as it is.",
        "autograd follows tensors that require a gradient",
        "If it is not meant: for p in model.parameters(): p.requires_grad_(True).",
        effects=("zero-gradient", "cut-gradient"),
    ),
    "not-in-optimizer": Code(
        "optimizer",
        "Parameters that the optimizer does not hold",
        "They have a gradient, and no step ever moves them.",
        "an optimizer steps what it was given",
        "Build the optimizer from model.parameters(), after the last change to the model.",
        effects=("loss-does-not-fall",),
    ),
    "twice-in-optimizer": Code(
        "optimizer",
        "Parameters that the optimizer holds twice",
        "Each step moves them once for every time that they are listed.",
        "an optimizer steps what it was given",
        "List every parameter once.",
    ),
    "unreached-parameters": Code(
        "data-flow",
        "Parameters that the loss does not depend on",
        "They are trained in name only: no gradient reaches them.",
        "the chain rule",
        "Use them in forward(), or leave them out.",
    ),
    "heavy-weight-decay": Code(
        "optimizer",
        "Weight decay that outweighs the gradient",
        "The weights are pulled to zero faster than the loss can hold them.",
        "λ‖W‖ against ‖∂E/∂W‖",
        "Lower weight_decay: 1e-4 to 1e-2 is usual.",
        effects=("large-update", "overshooting-step", "loss-does-not-fall"),
    ),
    "eval-mode": Code(
        "mode",
        "Training in eval mode",
        "Dropout is off and batch norms use statistics that are never updated.",
        "nn.Module.eval",
        "Call model.train() before training.",
    ),
    "heavy-dropout": Code(
        "mode",
        "A dropout that drops nearly everything",
        "What is left is scaled up by 1/(1 − p): noise drowns the signal.",
        "the variance of a kept unit is p/(1 − p) of its square",
        "Lower the probability: 0.1 to 0.5 is usual (Keras's and torch's p is what is dropped).",
        effects=_SCALE,
    ),
    "norm-of-one-value": Code(
        "mode",
        "A norm over a single value",
        "A value minus its own mean is zero: the norm gives its bias whatever comes in.",
        "(x − x)/√(0 + ε) = 0",
        "Normalise over more values: fewer groups, a larger map, or another norm.",
        effects=(*_FLAT, "dead-units", "singular-representation"),
    ),
    "saturated-output": Code(
        "output",
        "An output that passes no gradient",
        "For these samples the activation at the end is flat to rounding: nothing before it learns from "
        "them.",
        "the derivative of the activation at the end",
        "Remove the activation at the end and use the loss on logits; scale the inputs and targets.",
        effects=("zero-gradient", "cut-gradient", "loss-does-not-fall", "vanishing-gradient"),
    ),
}
