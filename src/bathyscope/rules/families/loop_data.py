"""What a loop feeds its models over time."""

import math
from collections.abc import Iterator

from bathyscope.core.loop_record import LoaderUse, LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, Transition, problem_if

_HASHED = 32
"""Samples of a batch that the ledger shows apart."""


def few_distinct_samples(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Far fewer different samples than draws from that loader should have brought."""
    for loader in record.loaders:
        size, weights = loader.num_samples, loader.num_weights
        if weights is not None and size is not None and weights < size and loader.batches:
            yield FEW_DISTINCT_SAMPLES.finding(
                Severity.PROBLEM, score=1 - weights / size,
                weights=weights, samples=size, at=loader.created_at,
                title=f"The weighted sampler of the loader made at {loader.created_at} has {weights} "
                f"weights for {size} samples: only the first {weights} are ever drawn",
            )  # fmt: skip
            return
    data, loader_ = record.data, _feeding(record)
    if data.distinct == 1 and data.batch_size >= 8 and data.draws >= 4 * _HASHED:
        yield FEW_DISTINCT_SAMPLES.finding(
            Severity.PROBLEM,
            score=1.0,
            draws=data.draws,
            distinct=1,
            title=f"All of {data.draws} samples are equal",
        )
        return
    if loader_ is None or not loader_.num_samples or data.is_bounded or not data.draws:
        return
    visible = loader_.num_samples
    if not loader_.is_shuffled and loader_.batch_size and loader_.batch_size > _HASHED:
        visible = visible * _HASHED // loader_.batch_size
    expected = visible * -math.expm1(-data.draws / max(visible, 1))
    if data.draws >= 4 * _HASHED and data.distinct < thresholds["distinct_samples"] * expected:
        again = (
            f": iter() at {loader_.iterated_at} begins the loader again for each batch"
            if loader_.iterations > 0.8 * loader_.batches
            else ""
        )
        yield FEW_DISTINCT_SAMPLES.finding(
            Severity.PROBLEM, score=1 - data.distinct / expected,
            draws=data.draws, distinct=data.distinct, expected=round(expected),
            at=loader_.created_at,
            title=f"{data.draws} samples were sampled from the loader made at {loader_.created_at}, and "
            f"only {data.distinct} of {loader_.num_samples} came{again}",
        )  # fmt: skip


def _feeding(record: LoopRecord) -> LoaderUse | None:
    """The loader from which the models are fed."""
    feeding = [loader for loader in record.loaders if loader.fed_model]
    return max(feeding, key=lambda loader: loader.batches) if feeding else None


FEW_DISTINCT_SAMPLES = Rule(
    code="few-distinct-samples",
    stage=CausalStage.LOOP,
    cause="batch",
    title="The same few samples again and again",
    explanation="The network learns a few samples by heart and never sees the others.",
    source="draws with replacement bring N(1 − e^(−draws/N)) different samples of N",
    advice="Give the sampler one weight per sample; make the iterator of a loader once per epoch.",
    thresholds={
        "distinct_samples": Threshold(
            0.25,
            "different samples over those expected",
            "one in four: ranks that share the data out see a part each",
        )
    },
    find_in_loop=few_distinct_samples,
)


def repeated_batch(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """One batch at every step, without a loader that has others."""
    data = record.data
    if data.batches >= 16 and data.repeated_batches >= 15 and data.distinct <= data.batch_size:
        yield REPEATED_BATCH.finding(
            Severity.NOTE, score=float(data.repeated_batches), batches=data.batches,
            distinct=data.distinct,
        )  # fmt: skip


REPEATED_BATCH = Rule(
    code="repeated-batch",
    stage=CausalStage.LOOP,
    cause="batch",
    title="Every step sees the same batch",
    explanation="That is full-batch training or a test of overfitting; if it is neither, data are lost.",
    source="equal inputs at consecutive steps",
    advice="If it is not meant: draw a new batch for each step.",
    find_in_loop=repeated_batch,
    event=Transition(
        title="the same batch came again and again",
        advice="Look at what draws the batches: a loader that has ended, a buffer that is not filled, or a "
        "seed that is set at every step.",
    ),
)


def classes_in_order(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Batches that hold far fewer classes than shuffled ones of their size would."""
    data = record.data
    total = sum(data.label_counts.values())
    if len(data.label_batch_counts) < 8 or len(data.label_counts) < 2:
        return
    fractions = [n / total for n in data.label_counts.values()]
    seen = sum(classes for classes, _ in data.label_batch_counts)
    expected = sum(
        sum(1 - (1 - p) ** size for p in fractions) for _, size in data.label_batch_counts
    )
    ratio = seen / expected
    if ratio <= thresholds["classes_in_batch"]:
        loader = _feeding(record)
        in_order = loader is not None and not loader.is_shuffled
        at = loader.created_at if loader is not None else None
        where = f"The loader made at {at} does not shuffle: batches" if in_order else "Batches"
        yield CLASSES_IN_ORDER.finding(
            problem_if(in_order), score=1 - ratio,
            classes=len(data.label_counts), classes_per_batch=seen / len(data.label_batch_counts),
            expected_per_batch=expected / len(data.label_batch_counts), at=at,
            title=f"{where} hold {seen / len(data.label_batch_counts):.1f} of "
            f"{len(data.label_counts)} classes",
        )  # fmt: skip


CLASSES_IN_ORDER = Rule(
    code="classes-in-order",
    stage=CausalStage.LOOP,
    cause="batch",
    title="Batches of one class after another",
    explanation="The network forgets each class while it sees the next.",
    source="expected number of classes in a random batch: Σ 1 − (1 − p_c)^B",
    advice="Shuffle: DataLoader(…, shuffle=True).",
    thresholds={
        "classes_in_batch": Threshold(
            0.6, "classes in a batch over those of a shuffled one", "half of two classes is one"
        )
    },
    find_in_loop=classes_in_order,
    effects=("constant-labels",),
)


def inputs_drift(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Inputs whose scale changes by a large factor during the run."""
    data = record.data
    if not data.first_scale or not data.last_scale or data.batches < 20:
        return
    factor = data.last_scale / data.first_scale
    if max(factor, 1 / factor) >= thresholds["input_drift"]:
        yield INPUTS_DRIFT.finding(
            problem_if(max(factor, 1 / factor) >= 1e3),
            score=abs(math.log10(factor)), first=data.first_scale, last=data.last_scale,
        )  # fmt: skip


INPUTS_DRIFT = Rule(
    code="inputs-drift",
    stage=CausalStage.LOOP,
    cause="input",
    title="Inputs that grow or shrink during the run",
    explanation="Something changes the data in place, such as a normalization that is applied again "
    "and again.",
    source="root mean square of the first eight batches and of the last eight",
    advice="Look for in-place operations on stored samples: x *= …, x -= …",
    thresholds={
        "input_drift": Threshold(30.0, "scale of the last inputs over the first", "1.5 decades")
    },
    find_in_loop=inputs_drift,
    effects=("non-finite", "loss-spike"),
)


def pairs_shuffled_apart(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """One shuffled loader of inputs beside one of labels, read side by side."""
    inputs = [one for one in record.loaders if one.holds == "inputs" and one.is_shuffled]
    labels = [one for one in record.loaders if one.holds == "labels" and one.is_shuffled]
    for a in inputs:
        for b in labels:
            if a.num_samples == b.num_samples and a.batches > 3 and abs(a.batches - b.batches) <= 2:
                yield PAIRS_SHUFFLED_APART.finding(
                    Severity.PROBLEM, score=1.0,
                    samples=a.num_samples, at=b.iterated_at, made_at=b.created_at,
                    title=f"Inputs and labels come from two loaders ({a.created_at}, {b.created_at}) "
                    "that are shuffled apart",
                )  # fmt: skip


PAIRS_SHUFFLED_APART = Rule(
    code="pairs-shuffled-apart",
    stage=CausalStage.LOOP,
    cause="labels",
    title="Inputs and labels that are shuffled apart",
    explanation="The labels have nothing to do with the inputs beside them.",
    source="two random orders agree by chance alone",
    advice="Put inputs and labels into one data set: TensorDataset(x, y).",
    find_in_loop=pairs_shuffled_apart,
    effects=("unrelated-labels", "loss-does-not-fall"),
)


def equal_workers(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Workers that each have an equal copy of the data set's own random generator."""
    for loader in record.loaders:
        if loader.own_generator is not None and loader.workers > 1 and loader.batches:
            yield EQUAL_WORKERS.finding(
                Severity.WARNING, score=float(loader.workers),
                workers=loader.workers, generator=loader.own_generator, at=loader.created_at,
                title=f"Each of the {loader.workers} workers of the loader made at {loader.created_at} has "
                f"an equal copy of {loader.own_generator}: they draw the same random numbers",
            )  # fmt: skip


EQUAL_WORKERS = Rule(
    code="equal-workers",
    stage=CausalStage.LOOP,
    cause="batch",
    title="Workers that draw the same random numbers",
    explanation="Augmentations repeat in every worker and, as workers are started again, in every epoch.",
    source="a worker is a copy of the process; torch seeds global generators only",
    advice="Seed the generator in worker_init_fn with torch.initial_seed(), or use torch's global one.",
    find_in_loop=equal_workers,
)


def same_order(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A shuffled loader whose passes begin with the same batch, or whose one pass is used again and again."""
    yield from _kept_pass(record)
    for loader in record.loaders:
        if not loader.is_shuffled or not loader.fed_model or len(loader.orders) < 3:
            continue
        many = loader.num_samples is not None and loader.num_samples > 2 * (loader.batch_size or 1)
        if len(set(loader.orders)) == 1 and many and loader.batches > 2 * loader.iterations:
            yield SAME_ORDER.finding(
                Severity.WARNING, score=float(len(loader.orders)),
                passes=len(loader.orders), sampler=loader.sampler, at=loader.created_at,
                title=f"Every pass over the loader made at {loader.created_at} begins with the same batch: "
                "it is shuffled the same way each time",
            )  # fmt: skip


def _kept_pass(record: LoopRecord) -> Iterator[Finding]:
    """One pass over the only loader, whose batches are kept and come again in their order."""
    data, loader = record.data, _feeding(record)
    if loader is None or len(record.loaders) != 1 or loader.iterations != 1 or data.is_bounded:
        return
    is_whole = loader.num_samples is not None and loader.batch_size is not None
    is_whole = is_whole and loader.batches >= (loader.num_samples or 0) // (loader.batch_size or 1)
    again = data.batches / max(1, loader.batches)
    if loader.is_shuffled and is_whole and again >= 3 and loader.fed_model:
        yield SAME_ORDER.finding(
            Severity.WARNING, score=again,
            passes=data.batches, batches=loader.batches, at=loader.iterated_at,
            title=f"The loader made at {loader.created_at} was read once, and its {loader.batches} batches "
            f"were used {again:.0f} times: always the same batches in the same order, without new "
            "augmentations",
        )  # fmt: skip


SAME_ORDER = Rule(
    code="same-order",
    stage=CausalStage.LOOP,
    cause="batch",
    title="The same order in every epoch",
    explanation="Samples meet in the same batches each time, so that the noise of the gradients repeats.",
    source="checksums of the first batch of each pass",
    advice="Call sampler.set_epoch(epoch) for a DistributedSampler; do not set the same seed per epoch; "
    "begin the loader again for each epoch, in place of itertools.cycle or a list of its batches.",
    find_in_loop=same_order,
)
