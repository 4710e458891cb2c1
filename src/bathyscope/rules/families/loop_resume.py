"""Trainings that go on from a checkpoint, and what is lost on the way; seeds that are set again."""

from collections.abc import Iterator

from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, Severity
from bathyscope.rules.families.loop_schedules import OPTIMIZER_MADE_AGAIN
from bathyscope.rules.rule import CausalStage, Rule, Threshold, Thresholds, problem_if


def moments_lost_on_resume(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Optimizers that begin again on weights that were loaded."""
    again = [use for use in record.optimizers if use.resumes is not None and use.steps]
    if again:
        yield MOMENTS_LOST_ON_RESUME.finding(
            problem_if(len(again) >= thresholds["made_again"]), score=float(len(again)),
            times=len(again), optimizer=again[-1].kind, at=again[-1].created_at,
            title=f"{again[-1].kind} made at {again[-1].created_at} continues from loaded weights with "
            "moments of zero: the state of the one before was not loaded",
        )  # fmt: skip


MOMENTS_LOST_ON_RESUME = Rule(
    code="moments-lost-on-resume",
    stage=CausalStage.LOOP,
    cause="resume",
    title="The optimizer's state is lost on resuming",
    explanation="The first steps are as long as those of a fresh training, without averages to damp them.",
    source="load_state_dict of the model, and none of the optimizer",
    advice="Load both: model.load_state_dict(…) and optimizer.load_state_dict(…).",
    thresholds={"made_again": OPTIMIZER_MADE_AGAIN.thresholds["made_again"]},
    find_in_loop=moments_lost_on_resume,
)


def loaded_nothing(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """State dicts of which no name is one of the module's."""
    for kind, names, at in record.foreign_loads[:3]:
        yield LOADED_NOTHING.finding(
            Severity.PROBLEM,
            score=float(names),
            names=names,
            module=kind,
            at=at,
            title=f"load_state_dict at {at} loads nothing into {kind}: none of the {names} names is one "
            "of its own",
        )


LOADED_NOTHING = Rule(
    code="loaded-nothing",
    stage=CausalStage.LOOP,
    cause="resume",
    title="A checkpoint of which nothing is loaded",
    explanation="With strict=False names that do not fit are passed over, and the weights stay random.",
    source="the unexpected keys that load_state_dict returns",
    advice="Compare the names: often a prefix such as module. or model. is to be taken away.",
    find_in_loop=loaded_nothing,
    effects=("frozen-fresh-weights", "fresh-head"),
)


def loads_itself(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """A trained model that is given its own tensors."""
    for model in record.models:
        if model.is_trained and model.wrapper is None and model.self_loads:
            yield LOADS_ITSELF.finding(
                Severity.PROBLEM, score=float(model.self_loads),
                times=model.self_loads, at=model.loaded_at,
                title=f"load_state_dict at {model.loaded_at} gives {model.kind} its own weights, which "
                "changes nothing",
            )  # fmt: skip


LOADS_ITSELF = Rule(
    code="loads-itself",
    stage=CausalStage.LOOP,
    cause="resume",
    title="Kept weights that are the model's own",
    explanation="state_dict() holds the tensors themselves, and not copies: what was kept as the best "
    "weights is whatever the model has become since.",
    source="the memory of the tensors in the state dict and in the model",
    advice="Keep a copy: best = copy.deepcopy(model.state_dict()).",
    find_in_loop=loads_itself,
)


def checkpoint_in_part(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """Checkpoints with a state of the optimizer, the schedule or the random numbers that is not loaded."""
    resume = record.resume
    stepped = [use for use in record.optimizers if use.steps and use.has_moments]
    needed = {"optimizer": bool(stepped), "schedule": bool(record.schedules), "random state": True}
    left = [what for what in resume.holds if needed.get(what) and what not in resume.used]
    if not resume.weights_loaded or not left or record.steps <= resume.after:
        return
    # later on it begins another training, or gives back the best weights of this one
    begins = any(use.first_step == resume.after and use.steps for use in record.optimizers)
    if resume.after and not begins:
        return
    severity = Severity.NOTE if left == ["random state"] else Severity.WARNING
    yield CHECKPOINT_IN_PART.finding(
        severity,
        score=float(len(left)),
        left_out=", ".join(left),
        at=resume.at,
        title=f"The checkpoint read at {resume.at} holds the state of: {', '.join(left)}; only its "
        "weights are loaded",
    )


CHECKPOINT_IN_PART = Rule(
    code="checkpoint-in-part",
    stage=CausalStage.LOOP,
    cause="resume",
    title="A checkpoint of which a part is not loaded",
    explanation="If the training is to go on where it stopped, moments, schedule and random numbers begin "
    "again; for a fine-tuning that is as it should be.",
    source="what torch.load has read, and what load_state_dict was called for",
    advice="Load the state of optimizer, schedule and random numbers as well.",
    find_in_loop=checkpoint_in_part,
)


def reseeded(record: LoopRecord, thresholds: Thresholds) -> Iterator[Finding]:
    """The same seed at every step, or now and then."""
    seeds = record.seeds
    if seeds.times < thresholds["same_seed"]:
        return
    is_habit = 2 * seeds.times >= seeds.steps
    yield RESEEDED.finding(
        Severity.PROBLEM if is_habit else Severity.NOTE, score=float(seeds.times),
        times=seeds.times, steps=seeds.steps, at=seeds.at,
        title=f"manual_seed at {seeds.at} sets the same seed {seeds.times} times in {seeds.steps} steps",
    )  # fmt: skip


RESEEDED = Rule(
    code="reseeded",
    stage=CausalStage.LOOP,
    cause="loop",
    title="The same seed is set again and again",
    explanation="Batches, dropout and augmentations that follow are the same ones each time.",
    source="a seed fixes all random numbers that come after it",
    advice="Set the seed once, before the loop; for reproducible noise use a torch.Generator of its own.",
    thresholds={
        "same_seed": Threshold(
            3.0, "times that one seed is set after the first step", "once can be a second phase"
        )
    },
    find_in_loop=reseeded,
    effects=("repeated-batch", "few-distinct-samples"),
)
