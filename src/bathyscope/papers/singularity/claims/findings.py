"""Findings 1 to 3 of section VIII: why plain networks fail, why skips help, why paths generalize."""

import math
from statistics import fmean, median, stdev

from scipy.special import stdtrit

from bathyscope import nets
from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.relation import Relation, at_least, at_most
from bathyscope.core.calls import num_parameters
from bathyscope.core.json_values import JsonObject
from bathyscope.core.records import Assumption
from bathyscope.papers.singularity.claims.short_training import NUM_TRAIN, ShortRun, short_training

CHANCE = 0.2
"""Training accuracy on ten classes below which a network has not begun to learn."""
LEARNED = 0.5
"""Training accuracy from which on a network that had some dozens of steps is easy to train."""
FITTED = 0.97
"""Training accuracy from which on a network has fitted its data."""
EXPLODING = 1e3
"""Growth of the gradient through the network from which on it explodes."""
_NARROW: dict[str, JsonObject] = {"resnet": {"width": 8}, "resnext": {"width": 4, "group_width": 4}}
# 67,906 and 68,323 parameters at 20 layers
_OF_ONE_SIZE: dict[str, JsonObject] = {
    "resnet": {"width": 8},
    "resnext": {"width": 7, "group_width": 4},
}


def _settings(**more: object) -> JsonObject:
    return {"data": "digits", "samples": NUM_TRAIN, "momentum": 0.9, **more}


def measure_plain(seed: int, *, depth: int = 110, lr: float = 0.1) -> Measured:
    """A narrow plain network before its first step, after it, and after 16 steps."""
    model = nets.build(f"plain-{depth}", in_channels=1, width=8, seed=seed)
    run = short_training(model, lr=lr, epochs=2, seed=seed, at=(0, 1))
    start, *_, end = run.states
    return Measured(
        numbers={
            "train_accuracy": run.train_accuracy,
            "singular_at_start": start.singular_blocks,
            "singular_after_a_step": run.states[1].singular_blocks,
            "singular_at_end": end.singular_blocks,
            "condition_at_start": start.condition,
            "gradient_growth_at_start": start.gradient_growth,
        },
        assumptions=(
            Assumption(
                statement=f"the plain network fails to train: training accuracy under {CHANCE:g}",
                holds=run.train_accuracy < CHANCE,
                value=run.train_accuracy,
            ),
        ),
        settings=_settings(depth=depth, width=8, steps=end.step, **{"learning rate": lr}),
    )


def finding_1(numbers: Numbers) -> list[Relation]:
    """The product of the layers is singular by itself, before training goes wrong."""
    return [
        at_least("fraction of singular blocks at the start", numbers["singular_at_start"], 0.1),
        at_least("fraction of singular blocks at the end", numbers["singular_at_end"], 0.1),
    ]


def finding_1_corrected(numbers: Numbers) -> list[Relation]:
    """Gradients explode before the first step, and singularity follows."""
    return [
        at_most("fraction of singular blocks at the start", numbers["singular_at_start"], 0.0),
        at_least(
            "growth of the gradient at the start", numbers["gradient_growth_at_start"], EXPLODING
        ),
        at_least("fraction of singular blocks at the end", numbers["singular_at_end"], 0.1),
    ]


FINDING_1 = Claim(
    name="singularity.finding_1",
    statement="Very deep plain networks fail to train because of singular representations, "
    "which come from the repeated product with the weights and show in gradients and updates.",
    assumptions=("the plain network fails to train",),
    tested="A narrow plain network of 110 layers with batch normalization on digits: singular "
    "blocks and growth of the gradient before the first step, after it, and after 16 steps at "
    "learning rate 0.1. The order of events over seeds, starts and rates is the study "
    "`singularity.which_came_first`.",
    links=(
        Link(to="singularity.which_came_first", check="representations become singular before"),
    ),
    measure=measure_plain,
    law=finding_1,
    empirical=True,
    corrected="with batch normalization the representations of a deep plain network are regular at "
    "the start, where gradients already explode; singularity follows with the first steps",
    law_corrected=finding_1_corrected,
    takes=("depth", "lr"),
)


def measure_skips(seed: int, *, depth: int = 20, lr: float = 0.02) -> Measured:
    """Narrow networks with skips after some steps, with and without batch normalization."""
    runs: dict[str, JsonObject] = {"normalized": {}, "bare": {}}
    for family, options in _NARROW.items():
        for kind in runs:
            model = nets.build(f"{family}-{depth}", in_channels=1, seed=seed, **options)
            if kind == "bare":
                nets.without_normalization_(model)
            runs[kind][family] = _ended(short_training(model, lr=lr, epochs=5, seed=seed))
    return Measured(numbers=runs, settings=_settings(depth=depth, **{"learning rate": lr}))


def _ended(run: ShortRun) -> dict[str, float]:
    end = run.states[-1]
    return {
        "train_accuracy": run.train_accuracy,
        "test_accuracy": run.test_accuracy,
        "singular_blocks": end.singular_blocks,
        "condition": end.condition,
    }


def _easy(result: Numbers, text: str) -> list[Relation]:
    relations = []
    for family, run in result.items():
        label = f"{family}{text}"
        relations += [
            at_least(f"{label}: training accuracy", run["train_accuracy"], LEARNED),
            at_most(f"{label}: fraction of singular blocks", run["singular_blocks"], 0.0),
        ]
    return relations


def finding_2(numbers: Numbers) -> list[Relation]:
    """With skips a network trains and stays regular, whatever else it has."""
    return finding_2_normalized(numbers) + _easy(numbers["bare"], " without normalization")


def finding_2_normalized(numbers: Numbers) -> list[Relation]:
    """With skips and batch normalization it does."""
    return _easy(numbers["normalized"], "")


FINDING_2 = Claim(
    name="singularity.finding_2",
    statement="ResNet and ResNeXt train easily because skips remove that singularity.",
    tested="Narrow networks of both kinds of 20 layers on digits at learning rate 0.02, with "
    "and without batch normalization: accuracy and singular blocks after 40 steps.",
    links=(
        Link(
            to="singularity.which_came_first",
            check="no residual network with BatchNorm",
            difference="the study counts networks on images of 8 × 8 pixels, which shrink to 2 × 2, "
            "where few values a channel make a matrix singular (40 of the 60); the claim "
            "trains shallow ones that do not shrink so far",
        ),
    ),
    measure=measure_skips,
    law=finding_2,
    empirical=True,
    under="batch normalization, which the paper's networks have and its analysis leaves out: "
    "without "
    "it the same networks train badly or not at all",
    law_under=finding_2_normalized,
    takes=("depth", "lr"),
)


def measure_generalization(
    seed: int, *, depth: int = 20, lr: float = 0.05, pairs: int = 5
) -> Measured:
    """Pairs of a narrow residual and a narrow aggregated network, trained until they fit the data.

    Every pair has a start of its own, which no other seed takes: from one start to the next the
    difference of the two test accuracies changes by more than it is.
    """
    runs: dict[str, list[dict[str, float]]] = {family: [] for family in _OF_ONE_SIZE}
    sizes = {}
    for start in range(seed * pairs, (seed + 1) * pairs):
        for family, options in _OF_ONE_SIZE.items():
            model = nets.build(f"{family}-{depth}", in_channels=1, seed=start, **options)
            runs[family].append(_ended(short_training(model, lr=lr, epochs=12, seed=start)))
            sizes[family] = num_parameters(model)
    fitted = min(run["train_accuracy"] for part in runs.values() for run in part)
    gains = [
        aggregated["test_accuracy"] - residual["test_accuracy"]
        for residual, aggregated in zip(runs["resnet"], runs["resnext"], strict=True)
    ]
    return Measured(
        numbers={
            "parameters": sizes,
            "condition": {f: median(run["condition"] for run in part) for f, part in runs.items()},
            "test_accuracy": {
                f: fmean(run["test_accuracy"] for run in part) for f, part in runs.items()
            },
            "gains": gains,
        },
        assumptions=(
            Assumption(
                statement=f"all networks fit the training data: accuracy at least {FITTED:g}",
                holds=fitted >= FITTED,
                value=fitted,
            ),
            Assumption(
                statement="both networks have the same number of parameters, to one part in twenty",
                holds=max(sizes.values()) <= 1.05 * min(sizes.values()),
                value=max(sizes.values()) / min(sizes.values()) - 1,
            ),
        ),
        settings=_settings(depth=depth, pairs=pairs, **{"learning rate": lr}),
    )


def _better_conditioned(numbers: Numbers) -> Relation:
    return at_most(
        "median κ of the representations, aggregated against residual",
        numbers["condition"]["resnext"],
        numbers["condition"]["resnet"],
    )


def _gain(numbers: Numbers) -> tuple[str, float, float]:
    """The mean gain in test accuracy, and what it must pass to be one: its 95 % error over the pairs."""
    gains = numbers["gains"]
    error = math.inf  # of one pair nothing can be said
    if len(gains) > 1:
        error = float(stdtrit(len(gains) - 1, 0.975)) * stdev(gains) / math.sqrt(len(gains))
    text = f"gain in test accuracy, mean of {len(gains)} pairs, against its 95 % error (Student)"
    return text, fmean(gains), error


def finding_3(numbers: Numbers) -> list[Relation]:
    """Better conditioned, and for that reason better on unseen data."""
    return [_better_conditioned(numbers), at_least(*_gain(numbers))]


def finding_3_corrected(numbers: Numbers) -> list[Relation]:
    """Better conditioned, and yet no better on unseen data."""
    return [_better_conditioned(numbers), at_most(*_gain(numbers))]


FINDING_3 = Claim(
    name="singularity.finding_3",
    statement="ResNeXt generalizes better because its representations are better conditioned.",
    assumptions=(
        "all networks fit the training data",
        "both networks have the same number of parameters",
    ),
    tested="Five pairs of narrow networks of 20 layers and 68,000 parameters, trained on 256 digits "
    "until they fit them: median κ of the blocks, and the gain in accuracy on 354 others, which must pass "
    "its 95 % error over the pairs. Differences as small as the paper's, under one percentage point, would "
    "not be seen; long training on natural images may differ.",
    measure=measure_generalization,
    law=finding_3,
    empirical=True,
    corrected="the aggregated network's representations are better conditioned, but that alone does "
    "not make it generalize better: on few digits it does no better than the residual network",
    law_corrected=finding_3_corrected,
    takes=("depth", "lr", "pairs"),
)
