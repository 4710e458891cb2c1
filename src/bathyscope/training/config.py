"""What decides the result of a training run."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bathyscope.runs import Configuration

Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainingConfig(Configuration):
    """Every choice that changes the numbers a run ends with.

    What does not (where it is written, how often it is saved, the progress bar) is an argument of
    `train`. One optimizer step takes one batch of `batch_size` samples, however many parts
    (`accumulate`) and processes it is spread over: neither changes the mathematics of a network
    without BatchNorm. Parts weigh by their labels, those of −100 left out.

    Attributes:
        seed: of the initial weights, the order of the data, the augmentation and dropout.
        epochs: passes over the training set; the run ends earlier at `max_steps`.
        max_steps: largest number of optimizer steps; no bound for None.
        batch_size: samples in an optimizer step; the whole training set for None.
        drop_last: leave out the last batch of an epoch where it is smaller.
        accumulate: parts a batch is split into, one after the other, to save memory.
        loss: `cross_entropy` for labels, `token_cross_entropy` for a label at each
            token, `mse` (mean over all entries) for targets.
        optimizer: `sgd`, `adam` or `adamw`.
        lr: learning rate, at its largest.
        momentum: of sgd; the first beta of adam and adamw.
        nesterov: Nesterov's form of momentum, sgd only.
        weight_decay: added to the gradient (decoupled in adamw).
        schedule: `constant`, `step` (times `gamma` at each milestone) or `cosine` (to zero).
        milestones: epochs, or fractions of the run where below 1, at which `step` drops.
        gamma: factor of a drop.
        warmup_epochs: epochs, possibly a fraction of one, over which lr rises linearly from zero.
        clip_norm: largest norm of the whole gradient; not clipped for None.
        precision: `float32`, `float64`, or `bfloat16` for autocast with float32 weights.
        channels_last: memory format of images and convolutions; on a CPU a step takes a tenth to two
            fifths less time with it. A network with a strided 1 × 1 convolution of fewer than 16 input
            channels trains without it, because oneDNN writes past its memory there.
        compile: run the network through `torch.compile`; on a CPU a step of resnet-20 takes a fifth
            less time, that of a small MLP a tenth more.
        flip: mirror training images with probability one half.
        shift: move training images by up to this many pixels.
        patience: stop after this many evaluations without a better test loss; never for None.
        evaluate_every: epochs between evaluations on the test set; none for 0.
        log_every: steps between records of the metrics.
    """

    seed: Annotated[int, Field(ge=0)] = 0
    epochs: Positive = 10
    max_steps: Positive | None = None
    batch_size: Positive | None = 64
    drop_last: bool = False
    accumulate: Positive = 1
    loss: Literal["cross_entropy", "token_cross_entropy", "mse"] = "cross_entropy"
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: Rate = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: Rate = 1e-4
    schedule: Literal["constant", "step", "cosine"] = "cosine"
    milestones: tuple[Annotated[float, Field(gt=0)], ...] = (0.5, 0.75)
    gamma: Annotated[float, Field(gt=0)] = 0.1
    warmup_epochs: Annotated[float, Field(ge=0)] = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    channels_last: bool = False
    compile: bool = False
    flip: bool = False
    shift: Annotated[int, Field(ge=0)] = 0
    patience: Positive | None = None
    evaluate_every: Annotated[int, Field(ge=0)] = 1
    log_every: Positive = 1

    @model_validator(mode="after")
    def _fit_together(self) -> "TrainingConfig":
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise ValueError("nesterov needs the optimizer sgd with a momentum above zero")
        if self.patience is not None and self.evaluate_every == 0:
            raise ValueError("patience needs evaluations; set evaluate_every to 1 or more")
        return self

    def prefix(self) -> str:
        """`train-lr0.1-seed0`."""
        return f"train-lr{self.lr:g}-seed{self.seed}"
