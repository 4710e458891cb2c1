"""What a training loop did, as plain numbers: filled by the recorder's ledger, read by the rules.

Nothing here holds a tensor or a module, and everything stays bounded however long the loop runs.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

Line = str
"""A place in the user's code: `train.py:88`."""


@dataclass(slots=True)
class StepRow:
    """One step of an optimizer. What is only looked at now and then is None in the other rows."""

    step: int
    optimizer: int
    lr: float
    loss: float | None
    micro_batches: int
    num_with_gradient: int
    num_parameters: int
    was_cleared: bool
    in_eval_mode: bool
    passes: int = 0
    """Passes of trained models with gradients since the last step."""
    clip_factor: float | None = None
    loss_scale: float | None = None
    num_moved: int | None = None
    update_ratio: float | None = None
    """Root mean square of the update over that of the weights, of the sampled entries."""
    gradient_rms: float | None = None
    along_weights: float | None = None
    """Cosine between the gradient and the weights of matrices, of the sampled entries."""
    num_written: int | None = None
    """Parameters that changed between the last step and this one."""
    gradient_weight: float | None = None
    """Sum of the weights with which means over batches entered the gradient: 1 for one mean, n for n of them
    that are added up and not divided."""
    left_scale: float | None = None
    """The loss scale, where the gradients of the step were still multiplied by it."""

    @property
    def effective_lr(self) -> float:
        """Learning rate × clip factor × loss scale × accumulation: what multiplies the mean gradient."""
        factors = (self.clip_factor, self.left_scale, self.gradient_weight)
        return self.lr * math.prod(1.0 if factor is None else factor for factor in factors)


@dataclass(slots=True)
class ParameterUse:
    """What became of one parameter at the steps at which entries of it were looked at."""

    name: str
    numel: int
    dtype: str
    trainable: bool = True
    in_optimizer: bool = False
    is_contiguous: bool = True
    looks: int = 0
    with_gradient: int = 0
    moved: int = 0
    entries: int = 0
    """Entries looked at that had a gradient other than zero, while the learning rate was not zero."""
    entries_unchanged: int = 0
    """Of these, the ones that the step left bit for bit as they were."""
    relative_gradient: float = 0.0
    """Largest lr · |gradient| / |weight| of such entries: what a plain step would have changed."""
    swallowed: int = 0
    """Looks at which most second moments of Adam were below its epsilon."""
    unstepped: int = 0
    """Looks at which it had a gradient though no optimizer holds it, """
    unstepped_since: int = 0
    """and the last of these, one after the other."""
    was_frozen: bool = False
    """Whether it was frozen when it was first looked at."""
    writes: int = 0
    largest_write: float = 0.0
    """Largest relative change by a write outside of a step."""
    largest_update: float = 0.0
    """Largest relative change by a step."""


@dataclass(slots=True)
class OptimizerUse:
    """One optimizer: how often it stepped, and in which condition its gradients were."""

    index: int
    kind: str
    created_at: Line | None = None
    stepped_at: Line | None = None
    cleared_at: Line | None = None
    steps: int = 0
    first_step: int = 0
    num_parameters: int = 0
    has_moments: bool = False
    """Whether it keeps averages of gradients, which a new one lacks."""
    epsilon: float | None = None
    replaces: int | None = None
    """An optimizer that held the same parameters before."""
    not_cleared: int = 0
    """Steps whose gradient held what an earlier step had used already."""
    without_gradient: int = 0
    """Steps at which no parameter had a gradient, or all were zero."""
    looks: int = 0
    """Steps at which entries of the gradients were read."""
    zero_looks: int = 0
    """Of these, those at which every gradient was zero throughout."""
    cleared_before_step: int = 0
    """Of these, those where gradients were cleared between backward and step."""
    eval_steps: int = 0
    """Steps for which every pass of a trained model ran in eval mode."""
    skipped: int = 0
    """Steps that the loss scaler left out because of gradients that are NaN or Inf."""
    leading_zero_lr: int = 0
    """Steps at a learning rate of zero before the first other one."""
    highest_lr: float = 0.0
    group_lrs: list[float] = field(default_factory=list)
    """The highest learning rate that each group of parameters has had."""
    has_closure: bool = False
    micro_batches: Counter[int] = field(default_factory=Counter)
    """How often a step was preceded by this many backward passes at one line."""
    mean_weights: list[float] = field(default_factory=list)
    """For steps with several micro-batches: the weights with which means entered the loss, summed."""
    rescaled: list[float] = field(default_factory=list)
    """Gradient at the step over that after the last backward pass, where there were several."""
    backward_at: Line | None = None
    cleared_windows: int = 0
    """Steps, of those in `micro_batches`, before which gradients of a pass at the same line were cleared."""
    cleared_passes: int = 0
    """How many such passes there were before the last of these steps."""
    count_ratios: list[float] = field(default_factory=list)
    """For steps with several micro-batches: the most targets of one over the fewest."""
    momentum: float | None = None
    """Of SGD, or the decay of Adam's first moment."""
    second_decay: float | None = None
    """The decay of Adam's second moment."""
    base_lr: float = math.nan
    """The highest learning rate it was made with."""
    state_loaded: bool = False
    resumes: int | None = None
    """An optimizer of the same kind that stepped before weights were loaded into the model of this one."""
    leaf_losses: int = 0
    """Backward passes from a tensor without a graph since it exists."""
    state_resets: int = 0
    """Steps at which the count of steps in the optimizer's own state did not grow."""


@dataclass(slots=True)
class ScheduleUse:
    """One learning-rate scheduler."""

    index: int
    kind: str
    optimizer: int | None
    created_at: Line | None = None
    stepped_at: Line | None = None
    made_after: int = 0
    """Steps of optimizers before it was made."""
    steps: int = 0
    per_update: Counter[int] = field(default_factory=Counter)
    """How often it was stepped this many times between two steps of its optimizer."""
    mode: str | None = None
    """`min` or `max`, of a schedule that reads a metric."""
    metrics: list[float] = field(default_factory=list)
    reductions: list[int] = field(default_factory=list)
    """At which of its steps the learning rate fell, for a schedule that reads a metric."""
    period: int | None = None
    """Steps after which it has run its course, where it says so."""
    base_lr: float = math.nan
    """The learning rate of which it is a multiple."""
    overwritten: int = 0
    """Steps of its optimizer at another learning rate than the one that it had set."""
    compared: int = 0
    """Steps of its optimizer at which the two were compared."""
    state_loaded: bool = False


@dataclass(slots=True)
class ClipUse:
    """Calls of one clipping function at one line."""

    kind: str
    at: Line | None
    calls: int = 0
    without_gradient: int = 0
    """Calls at which there was nothing to clip."""
    before_backward: int = 0
    """Calls between a clearing of gradients and the backward pass."""
    scaled: int = 0
    """Calls on gradients that were still multiplied by the loss scale."""
    active: int = 0
    """Calls that made the gradient smaller."""
    factors: list[float] = field(default_factory=list)
    largest_norm: float = 0.0
    limit: float = 0.0
    """Of the last call."""

    @property
    def clips_steps(self) -> bool:
        """Whether most calls see the gradients of the step that follows."""
        return 2 * max(self.before_backward, self.without_gradient) < self.calls


@dataclass(slots=True)
class LoaderUse:
    """One data loader that was iterated."""

    index: int
    created_at: Line | None
    iterated_at: Line | None
    num_samples: int | None
    batch_size: int | None
    sampler: str
    is_shuffled: bool
    workers: int
    num_weights: int | None = None
    """Weights of a weighted sampler."""
    iterations: int = 0
    batches: int = 0
    fed_model: int = 0
    """Batches of which a tensor became the input of a trained model."""
    holds: str = "pairs"
    """`inputs`, `labels` or `pairs`."""
    own_generator: str | None = None
    """A random generator that its data set holds, and of which each worker has an equal copy."""
    orders: list[int] = field(default_factory=list)
    """A checksum of the first batch of each pass over it."""


@dataclass(slots=True)
class DataUse:
    """The inputs of the trained models over time."""

    batches: int = 0
    repeated_batches: int = 0
    """Batches equal to the one before."""
    draws: int = 0
    distinct: int = 0
    is_bounded: bool = False
    """Whether counting of distinct samples has ended at its bound."""
    batch_size: int = 0
    first_scale: float | None = None
    last_scale: float | None = None
    label_batches: int = 0
    label_counts: Counter[int] = field(default_factory=Counter)
    label_batch_counts: list[tuple[int, int]] = field(default_factory=list)
    relation: float | None = None
    """Deviations by which inputs and the classes asked for are more alike than shuffled ones."""
    related_samples: int = 0
    """Samples from which it was computed."""
    first_alike: float | None = None
    """Mean cosine similarity between the outputs of the samples of one batch at the first pass, """
    last_alike: float | None = None
    """and at the last one that was looked at."""
    size: float | None = None
    """Root mean square of the inputs of the first passes with gradients."""
    evaluated_size: float | None = None
    """The same of passes in eval mode without gradients, of inputs of the same shape but for the samples."""
    evaluated: int = 0
    """How many such passes were read."""
    non_finite: int = 0
    """Passes with gradients whose inputs were NaN or Inf somewhere."""
    half_zero: float | None = None
    """Fraction of zeros in the gradient at a half-precision output."""
    half_subnormal: float | None = None
    """Fraction of the others that are below the smallest normal number."""


@dataclass(slots=True)
class ModelUse:
    """One root module: in which mode it was called, and what stands around it."""

    index: int
    kind: str
    is_trained: bool = False
    wrapper: str | None = None
    """`DistributedDataParallel`, `OptimizedModule`, … where it wraps another one."""
    wraps: int | None = None
    calls: int = 0
    root_calls: int = 0
    """Of these, calls of the module as a whole rather than of one of its parts."""
    train_passes: int = 0
    """Calls with gradients in train mode."""
    eval_passes: int = 0
    """Calls with gradients in eval mode."""
    blind_train_passes: int = 0
    """Calls without gradients in train mode, after the first step."""
    blind_eval_passes: int = 0
    """Calls without gradients in eval mode."""
    called_at: Line | None = None
    eval_at: Line | None = None
    mode_layers: tuple[str, ...] = ()
    """Kinds of its layers that behave otherwise in eval mode."""
    random_in_eval: int = 0
    """Calls in eval mode that used random numbers."""
    dropout_in_eval: str | None = None
    """The function that dropped values in eval mode."""
    dropout_at: Line | None = None
    frozen_statistics: tuple[str, ...] = ()
    """Batch norms whose running statistics cannot move: momentum 0."""
    lags_in: tuple[str, ...] = ()
    """Of an average of a trained model: batch norms as at the start, while those of the model moved."""
    replaced_parameters: int = 0
    """Parameters that its wrapper averages and that it no longer has."""
    copy_of: int | None = None
    """A trained model of the same structure."""
    is_fresh: bool = False
    """Of a model that is not trained: whether its weights were a random initialization."""
    followed: int = 0
    """The first passes of a trained model with gradients in train mode, """
    with_backward: int = 0
    """and how many of these a backward pass came back to."""
    loads: int = 0
    loads_without_effect: int = 0
    self_loads: int = 0
    """Loads of a state dict that holds the model's own tensors."""
    loaded_at: Line | None = None
    has_moved: bool = False
    half_precision: str | None = None
    """Dtype of autocast in its training passes, if any."""
    overwritten_after_load: tuple[str, ...] = ()
    """Parameters that were loaded from a state dict and changed before the first step."""


@dataclass(slots=True)
class RankUse:
    """What several ranks have of each other, compared at a few steps by checksums."""

    size: int = 1
    compared: int = 0
    """Steps at which another rank's checksums were there."""
    first_different: int | None = None
    """The first step before which a parameter differed."""
    different: tuple[str, ...] = ()
    """Parameters that differed then."""
    num_parameters: int = 0
    equal_at_first: bool = False
    """Whether all were equal before the first step."""
    equal_batches: int = 0
    compared_batches: int = 0
    reductions: int = 0
    """Calls of all_reduce by the script."""
    idle: tuple[int, int, int] | None = None
    """A rank that had taken no step after this many backward passes, at which this one had taken some."""
    is_sharded: bool = False


@dataclass(slots=True)
class ResumeUse:
    """A checkpoint that was read from a file, and what was made of it."""

    at: Line | None = None
    holds: tuple[str, ...] = ()
    """Of `optimizer`, `schedule`, `random state`: what it has."""
    used: list[str] = field(default_factory=list)
    """Of these, what was loaded afterwards."""
    weights_loaded: bool = False
    after: int = 0
    """Steps of optimizers before it was read."""


@dataclass(slots=True)
class SeedUse:
    """Seeds that were set after the first step."""

    at: Line | None = None
    times: int = 0
    """How often the same seed was set."""
    steps: int = 0
    """Steps of optimizers meanwhile."""


@dataclass(slots=True)
class LoopRecord:
    """All that is known of a loop."""

    steps: int = 0
    rows: list[StepRow] = field(default_factory=list)
    parameters: list[ParameterUse] = field(default_factory=list)
    optimizers: list[OptimizerUse] = field(default_factory=list)
    schedules: list[ScheduleUse] = field(default_factory=list)
    clips: list[ClipUse] = field(default_factory=list)
    loaders: list[LoaderUse] = field(default_factory=list)
    models: list[ModelUse] = field(default_factory=list)
    data: DataUse = field(default_factory=DataUse)
    losses: list[float] = field(default_factory=list)
    """Losses at the steps of `rows`, thinned as these are."""
    ranks: RankUse = field(default_factory=RankUse)
    resume: ResumeUse = field(default_factory=ResumeUse)
    seeds: SeedUse = field(default_factory=SeedUse)
    first_non_finite: tuple[int, str] | None = None
    """The first step whose loss, gradient or weights were NaN or Inf, and which of them."""
    foreign_loads: list[tuple[str, int, Line | None]] = field(default_factory=list)
    """State dicts of which no name fits the module: its kind, how many names, and where."""
    misread_losses: list[tuple[str, str]] = field(default_factory=list)
    constant_terms: list[tuple[float, float]] = field(default_factory=list)
    """Terms of a first loss that follow from the model and have no gradient, each with the loss."""
    """Loss functions that were given something else than they take, and what."""
    optimizers_made: int = 0
    """Optimizers that stepped, also those beyond the bound of `optimizers`."""
    backward_passes: int = 0
    scaler_calls: int = 0
    notes: list[str] = field(default_factory=list)
    """What could not be checked."""

    def optimizer_rows(self, index: int) -> list[StepRow]:
        """The rows of one optimizer."""
        return [row for row in self.rows if row.optimizer == index]
