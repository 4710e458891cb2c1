"""Treating: recipes race on copies; the smallest that trains is applied, and a training shows it."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from bathyscope.core.arguments import check_count, check_function, check_names, check_seed, hinted
from bathyscope.core.batch import Batch, LossFn, check_parameters, loss_value, run_forward
from bathyscope.core.call_forms import as_trained, is_trainer, read_call
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import ON_A_COPY, lacks_double, on_cpu
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.global_state import autocast_in_passes_alone, preserve_random_state
from bathyscope.core.nested import copy_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.processes import Processes, common_batches, processes_of
from bathyscope.core.shards import put_together
from bathyscope.core.stepping import copy_to_cpu, optimizer_label
from bathyscope.core.walks import is_sharded
from bathyscope.diagnosis.diagnose import diagnose
from bathyscope.diagnosis.diagnosis import Diagnosis
from bathyscope.diagnosis.helped import choose, judge
from bathyscope.diagnosis.race import ROUNDS, Race
from bathyscope.diagnosis.recipe_search import find_recipe
from bathyscope.diagnosis.supply import Supply
from bathyscope.diagnosis.trainer_arguments import trainer_arguments
from bathyscope.diagnosis.treatment import Treatment
from bathyscope.diagnosis.verification import Verification, verify_untreated
from bathyscope.foresight.baseline import fitted_baseline, label_baseline
from bathyscope.measure.loss_form import fit_constant_baseline
from bathyscope.remedies import CHANGE_LEVELS, ChangeLevel, Recipe
from bathyscope.remedies.recipe import optimizer_or_default

MEASURING = 90
"""Own steps set aside for diagnosing the network, reading it, copying it and diagnosing it again: the most
seen, of small flat networks."""

SMALLEST_SPEND = 300
"""Below this no race of at least six is possible."""


@hinted("bs.treat(model, bs.diagnose(model, x, y, optimizer=…), batches=loader)")
@preserve_random_state()
@autocast_in_passes_alone()
def treat(
    model: object,
    diagnosis: Diagnosis,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    batches: object = None,
    budget: int = 300,
    allow: str | Iterable[str] = CHANGE_LEVELS,
    spend: int = 400,
    seed: int = 0,
    notify: Callable[[str], None] | None = None,
) -> Treatment:
    """Find the smallest change with which a network trains, apply it in place, and show that it helps.

    Recipes of remedies race on copies over the user's batches: first settings and what answers a finding,
    then, where none of these passes, weights, activations and structure. Half of them drop out after 8, 16
    and 32 steps. Of the finalists that have learned, the one that changes least is trained again with other
    batches and another seed; where it does not pass, the next is. What passes is applied to the model, or
    else what ends best at your budget. A network that trains as it is, is left so.

    Args:
        model: the diagnosed model, or the Hugging Face `Trainer` or `LightningModule` that was diagnosed,
            whose batches are then used; changed in place if a recipe helps.
        diagnosis: what `diagnose` said of it; it keeps the batch and the loss.
        optimizer: the one meant for training; by default the one that was diagnosed with the model, or
            else SGD at 0.1 with momentum 0.9.
        batches: for the trainings, a list or a loader, used over and over if they are fewer than the
            steps; the diagnosis's own batch by default.
        budget: steps that you mean to train for: `helped` is judged by the loss expected at their end.
        allow: the levels that a recipe may use: settings, weights, activations, structure.
        spend: of the network's own steps, on the race and on measuring, the diagnosis before it included;
            at least 300. The verifying trainings, of at most 300 steps and 150 of the untreated network,
            are counted apart.
        seed: of the weights and the dropout of the race.
        notify: called with what is tried, for a progress display.

    Returns:
        The treatment: `recipe`, `code()`, the `optimizer` to continue with, `helped`, `undo()`.

    Raises:
        UsageError: the diagnosis is of another model, a batch cannot be used, a level is unknown, nothing
            is trained, or a copy cannot be made.
    """
    if is_trainer(model):
        alone = partial(treat, budget=budget, allow=allow, spend=spend, seed=seed, notify=notify)
        return _treat_trainer(model, diagnosis, optimizer, batches, alone)
    root, allowed = _check(model, diagnosis, allow)
    optimizer = _diagnosed_optimizer(root, diagnosis) if optimizer is None else optimizer
    if notify is not None:
        check_function("notify", notify)
    spend, seed = check_count("spend", spend, minimum=SMALLEST_SPEND), check_seed(seed)
    budget = check_count("budget", budget, minimum=1)
    given = _check_batches(diagnosis, batches)
    assert isinstance(model, nn.Module)
    if (group := processes_of(model)) is not None:
        alone = partial(treat, budget=budget, allow=allowed, spend=spend, seed=seed, notify=notify)
        whole = None if batches is None else given
        return treat_together(model, group, diagnosis, optimizer, whole, alone)
    if lacks_double(model):
        alone = partial(treat, budget=budget, allow=allowed, spend=spend, seed=seed, notify=notify)
        return _treat_on_copy(root, diagnosis, optimizer, given, alone)
    stepper = optimizer_or_default(root, optimizer)
    supply = Supply(root, given)
    course, loss = supply.take(ROUNDS[-1]), diagnosis.setting.loss
    constant, most = _constant(root, course, loss), spend - MEASURING
    race = Race(root, stepper, course, loss, constant, budget=most, seed=seed, notify=notify)
    search = find_recipe(race, diagnosis, allowed, supply, budget=budget)
    racers, verification = search.racers, search.verification
    chosen = choose(verification, racers[0].attempt, budget=budget)
    if chosen is not None:
        verification += verify_untreated(race, supply, racers[0], like=chosen)
    done = Treatment(
        before=diagnosis,
        after=diagnosis,
        recipe=None,
        attempts=tuple(r.attempt for r in racers),
        verification=verification,
        helped=False,
        optimizer=stepper,
        spent=math.ceil(race.spent) + MEASURING,
        notes=_notes(supply, verification),
        num_batches=supply.num_batches,
        untreated_by=optimizer_label(stepper),
    )
    if chosen is None:
        return done
    judgement = judge(chosen, verification, racers, budget=budget)
    return _applied(replace(done, judgement=judgement), root, chosen.recipe)


def _treat_trainer(
    trainer: object,
    diagnosis: Diagnosis,
    optimizer: torch.optim.Optimizer | None,
    batches: object,
    treat_one: Callable[..., Treatment],
) -> Treatment:
    """Treat what it trains; the settings of the recipe stand below the code as arguments of a `Trainer`."""
    with as_trained(trainer):
        call = read_call(trainer, batches, loss=None, optimizer=optimizer)
        done = treat_one(call.model, diagnosis, optimizer=call.optimizer, batches=call.batches)
    learning_rate = getattr(
        getattr(trainer, "args", None), "learning_rate", None
    )  # not of Lightning
    if done.recipe is None or not isinstance(learning_rate, float):
        return done
    arguments = trainer_arguments(done.recipe, learning_rate)
    text = f"\n# As arguments of the Trainer, in place of the optimizer above:\n# {arguments}\n"
    return replace(done, printed=done.code() + text * bool(arguments))


def _applied(found: Treatment, model: nn.Module, recipe: Recipe) -> Treatment:
    """The treatment with its recipe applied to the model, which is measured again."""
    before = found.before
    printed = recipe.code(model, before.setting.batch[0])
    change = recipe.apply_(model, found.optimizer)
    assert change.optimizer is not None
    assert found.judgement is not None
    return replace(
        found,
        printed=printed,
        after=_measured_again(model, before, change.optimizer),
        recipe=recipe,
        helped=found.judgement.helps,
        optimizer=change.optimizer,
        change=change,
    )


def _treat_on_copy(
    model: nn.Module,
    diagnosis: Diagnosis,
    optimizer: torch.optim.Optimizer | None,
    batches: Iterable[Batch] | None,
    treat_one: Callable[..., Treatment],
) -> Treatment:
    """Find the recipe on the CPU, where the model's device has no double precision, and apply it."""
    stepper = optimizer_or_default(model, optimizer)
    twin, there = copy_to_cpu(model, stepper)
    setting = replace(diagnosis.setting, batch=on_cpu(diagnosis.setting.batch))
    whole = None if batches is None else on_cpu(batches)
    done = treat_one(twin, replace(diagnosis, setting=setting), optimizer=there, batches=whole)
    done = replace(done, before=diagnosis, notes=(ON_A_COPY, *done.notes))
    if done.recipe is None:
        return replace(done, after=diagnosis, optimizer=stepper)
    change = done.recipe.apply_(model, stepper)
    assert change.optimizer is not None
    return replace(done, optimizer=change.optimizer, change=change)


def treat_together(
    model: nn.Module,
    group: Processes,
    diagnosis: Diagnosis,
    optimizer: torch.optim.Optimizer | None,
    batches: Iterable[Batch] | None,
    treat_one: Callable[..., Treatment],
) -> Treatment:
    """Treat a model of several processes: each runs the same race and comes to the same recipe.

    What DistributedDataParallel wraps is changed in place. `fully_shard` does not let a model be
    changed: the recipe is found on a whole copy, and the model is left as it was.
    """
    given = [diagnosis.setting.batch]
    with put_together(model, given, optimizer, what="treat") as (inner, _, stepper):
        whole = None if batches is None else common_batches(group, batches)
        done = treat_one(inner, diagnosis, optimizer=stepper, batches=whole)
    if done.recipe is None:
        return replace(done, optimizer=optimizer or done.optimizer)
    if is_sharded(unwrap(model)):
        note = (
            "The recipe was found on a whole copy; the model in shards was left as it was. Apply "
            "it with bathyscope.remedies.apply_(model, treatment.recipe) before fully_shard."
        )
        return replace(done, change=None, notes=(*done.notes, note))
    note = (
        "Wrap the model in DistributedDataParallel again: the old wrapper knows the old parameters."
    )
    return replace(done, notes=(*done.notes, note))


def _notes(supply: Supply, verification: Verification) -> tuple[str, ...]:
    """What a reader must know of the batches."""
    if supply.num_batches is None:
        return ()
    count = f"{supply.num_batches} batch{'es' * (supply.num_batches != 1)}"
    result = [
        f"Only {count} could be seen: the trainings repeat them, and nothing is known of others."
    ]
    asked = [a for a in verification.attempts if a.generalizes is not None]
    if asked and not any(a.generalizes for a in asked):
        result.append(
            "What is learned does not carry over to samples that were kept back: the targets may have "
            "nothing to do with the inputs, or the samples are too few; give more batches."
        )
    elif not asked:
        result.append("None could be kept back, so that learning by heart looks like learning.")
    return tuple(result)


def _diagnosed_optimizer(model: nn.Module, diagnosis: Diagnosis) -> torch.optim.Optimizer | None:
    """The optimizer that the model was diagnosed with; None where there was none, or it is another's."""
    known = diagnosis.setting.optimizer
    own = {id(p) for p in model.parameters()}
    if known is None or any(id(p) not in own for g in known.param_groups for p in g["params"]):
        return None
    return known


def _check_batches(diagnosis: Diagnosis, batches: object) -> Iterable[Batch]:
    """The batches given, or the one that was diagnosed.

    Raises:
        UsageError: something else was given.
    """
    given = [diagnosis.setting.batch] if batches is None else batches
    if not isinstance(given, Iterable):
        raise UsageError(
            f"The batches are a list or a loader of pairs (inputs, targets), but a "
            f"{type(given).__name__} was given."
        )
    return given


def _check(
    model: object, diagnosis: Diagnosis, allow: str | Iterable[str]
) -> tuple[nn.Module, tuple[ChangeLevel, ...]]:
    check_parameters(model)  # raises where it is not a module
    assert isinstance(model, nn.Module)
    if not isinstance(diagnosis, Diagnosis):
        raise UsageError(
            f"The diagnosis is what `diagnose` returned, but a {type(diagnosis).__name__} was given; "
            "diagnose the model first."
        )
    root = unwrap(model)
    missing = [b.name for b in diagnosis.blocks if b.name not in dict(root.named_modules())]
    if missing:
        raise UsageError(
            f"The diagnosis is of another model: this one has no block {missing[0]!r}; "
            "diagnose this model first."
        )
    names = check_names("allow", allow, minimum=1)
    for name in names:
        if name not in CHANGE_LEVELS:
            raise UnknownName("level", name, CHANGE_LEVELS)
    return root, tuple(level for level in CHANGE_LEVELS if level in names)


def _constant(model: nn.Module, course: list[Batch], loss: LossFn) -> float:
    """Loss of the constant baseline on some batches; of the untreated network where there is none."""
    inputs, targets = course[0]
    some = list({id(t): t for _, t in course}.values())[:16]
    with preserve_model(model, copy_parameters=False), torch.no_grad():
        model.train()
        output = run_forward(model, copy_tensors(inputs))
        result = None
        if isinstance(output, Tensor) and all(
            isinstance(t, Tensor) and t.shape == some[0].shape for t in some
        ):
            wide, pooled = output.repeat(len(some), *[1] * (output.ndim - 1)), torch.cat(some)
            result = label_baseline(wide, pooled, loss=loss)
            if result is None:
                result = fit_constant_baseline(wide, pooled, loss)
    if result is None and targets is not None:  # as a VAE's, whose output is a tuple
        fitted = fitted_baseline(output, course[:8], loss=loss)
        result = fitted
    if result is None:
        with torch.no_grad():
            value = loss_value(loss, output, targets, differentiable=False)
        result = float(value)
    return result if math.isfinite(result) else 1.0


def _measured_again(
    model: nn.Module, diagnosis: Diagnosis, optimizer: torch.optim.Optimizer
) -> Diagnosis:
    options = copy.copy(dict(diagnosis.setting.options))
    return diagnose(
        model,
        diagnosis.setting.batch,
        loss=diagnosis.setting.loss,
        optimizer=optimizer,
        title=diagnosis.title,
        **options,
    )
