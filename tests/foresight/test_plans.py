"""A forecast knows schedules, clipping, accumulation, hooks and any loss; odd input gets one sentence."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)

import bathyscope as bs
from bathyscope.core import UsageError
from bathyscope.core.rate_plan import plan_rates
from bathyscope.core.stepping import train_steps
from bathyscope.foresight.course import TrainingPlan, take_course
from bathyscope.remedies.settings import clip_before_each_step_
from tests.unchecked import unchecked


def batches(count=40, *, size=32):
    generator = torch.Generator().manual_seed(1)
    result = []
    for _ in range(count):
        x = torch.randn(size, 8, generator=generator)
        result.append((x, x[:, :4].argmax(1)))
    return result


def mlp(width=32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))


def sgd(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: OneCycleLR(o, 0.5, total_steps=30),
        lambda o: LambdaLR(o, lambda step: 1 / (1 + step)),
        lambda o: SequentialLR(o, [LinearLR(o, 0.1, total_iters=5), CosineAnnealingLR(o, 25)], [5]),
    ],
)
def test_the_rates_of_a_scheduler_are_those_of_a_training_with_it(make):
    model = mlp()
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.01}], lr=0.1
    )
    scheduler = make(optimizer)
    state = copy.deepcopy(scheduler.state_dict())
    plan = plan_rates([optimizer], scheduler, 20)
    assert scheduler.state_dict() == state
    for step in range(20):
        assert plan.at(step) == pytest.approx([g["lr"] for g in optimizer.param_groups])
        optimizer.step()
        scheduler.step()


def test_a_function_is_a_factor_of_the_first_rates():
    optimizer = sgd(mlp(), 0.5)
    assert plan_rates([optimizer], lambda step: 0.1**step, 2).rates == ((0.5,), (0.05,))
    assert plan_rates([optimizer], None, 3).factors == [1.0, 1.0, 1.0]


def plain_losses(model, given, *, lr, factor=lambda step: 1.0, clip=None, accumulate=1):
    optimizer = sgd(model, lr)
    losses = []
    for step in range(len(given) // accumulate):
        optimizer.zero_grad()
        total = 0.0
        for x, y in given[step * accumulate : (step + 1) * accumulate]:
            value = F.cross_entropy(model(x), y) / accumulate
            value.backward()
            total += value.item()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.param_groups[0]["lr"] = lr * factor(step)
        optimizer.step()
        losses.append(total)
    return losses


@pytest.mark.parametrize(
    "options",
    [
        {"factor": lambda step: min(1.0, (step + 1) / 10)},
        {"clip": 0.05},
        {"accumulate": 4},
        {"factor": lambda step: 0.9**step, "clip": 0.5, "accumulate": 2},
    ],
)
def test_the_copy_takes_the_steps_of_a_plain_loop(options):
    given, model = batches(12), mlp()
    accumulate = options.get("accumulate", 1)
    expected = plain_losses(copy.deepcopy(model), given, lr=0.5, **options)
    optimizer = sgd(model, 0.5)
    factor = options.get("factor")
    plan = TrainingPlan(
        100,
        plan_rates([optimizer], factor, 100),
        factor is not None,
        options.get("clip"),
        accumulate,
    )
    seen = take_course(
        model,
        given,
        loss=F.cross_entropy,
        optimizers=[optimizer],
        plan=plan,
        steps=12 // accumulate,
    )
    assert seen.losses == pytest.approx(expected, rel=1e-4)
    assert seen.batch_size == 32 * accumulate


def test_accumulated_batches_make_one_step():
    model = mlp()
    steps = list(train_steps(model, sgd(model), batches(6), loss=F.cross_entropy, accumulate=3))
    assert [s.number for s in steps] == [1, 2]


def test_a_step_hook_that_clips_is_kept_on_the_copy():
    """SGD at 30 clipped to 0.003 trains to 98.9 % and was said to diverge."""
    model = mlp()
    optimizer = sgd(model, 30.0)
    clip_before_each_step_(optimizer, 0.003)
    seen = bs.forecast(model, batches(), optimizer=optimizer, budget=300)
    assert seen.verdict != "fails"
    assert seen.loss_at_budget < seen.baseline
    free = bs.forecast(model, batches(), optimizer=sgd(model, 30.0), budget=300)
    assert free.verdict == "fails"


def test_the_first_step_of_a_warm_up_is_not_taken_for_the_whole():
    """With the rate that the schedule leaves at step 0, a training that trains was said to fail."""
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30))
    seen = bs.forecast(model, batches(), optimizer=optimizer, scheduler=scheduler, budget=300)
    assert seen.verdict != "fails"
    assert seen.probability > 0.5
    assert not seen.notes
    blind = bs.forecast(model, batches(), optimizer=optimizer, budget=300)
    assert any("scheduler=" in note for note in blind.notes)


def test_binary_cross_entropy_has_the_entropy_of_its_labels_as_baseline():
    """It was scored as a regression of logits on 0 and 1."""
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    given = [(x, (x[:, :3] > 1).float()) for x, _ in batches()]
    seen = bs.forecast(
        model, given, loss=F.binary_cross_entropy_with_logits, optimizer=sgd(model), budget=300
    )
    rate = torch.cat([y for _, y in given[:32]]).mean(0)
    entropy = -(rate * rate.log() + (1 - rate) * (1 - rate).log()).mean()
    assert seen.baseline == pytest.approx(float(entropy), rel=0.02)
    assert "% of the way" not in " ".join(seen.because)


class Coder(nn.Module):
    """A small variational autoencoder: its output is a tuple."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(8, 4), nn.Linear(2, 8)

    def forward(self, x):
        mean, log_variance = self.inner(x).chunk(2, 1)
        return (
            self.out(mean + torch.randn_like(mean) * (0.5 * log_variance).exp()),
            mean,
            log_variance,
        )


def bound(output, x):
    made, mean, log_variance = output
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
    return ((made - x).square().sum(1) + divergence).mean()


def test_a_tuple_of_outputs_has_a_constant_baseline():
    """The baseline of a VAE was the untrained loss, so that any fall was a success."""
    torch.manual_seed(0)
    given = [(x + 3, x + 3) for x, _ in batches()]
    model = Coder()
    seen = bs.forecast(model, given, loss=bound, optimizer=sgd(model, 1e-3), budget=400)
    pooled = torch.cat([x for x, _ in given[:8]])
    variance = float((pooled - pooled.mean(0)).square().sum(1).mean())
    assert seen.baseline == pytest.approx(variance, rel=0.05)


def test_a_model_that_returns_its_loss_alone():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp()

        def forward(self, x, y):
            return F.cross_entropy(self.inner(x), y)

    model = Whole()
    given = [{"x": x, "y": y} for x, y in batches()]
    seen = bs.forecast(model, given, loss=None, optimizer=sgd(model), budget=300)
    assert seen.baseline is None
    assert "baseline=" in " ".join(seen.outside)
    told = bs.forecast(model, given, loss=None, optimizer=sgd(model), budget=300, baseline=1.386)
    assert told.baseline == pytest.approx(1.386)


def test_two_optimizers_step_together():
    model = mlp()
    both = [
        torch.optim.SGD(model[0].parameters(), lr=0.1),
        torch.optim.Adam(model[2].parameters(), lr=1e-2),
    ]
    seen = bs.forecast(model, batches(), optimizer=both, budget=300)
    alone = bs.forecast(model, batches(), optimizer=both[0], budget=300)
    assert seen.loss_at_budget < alone.loss_at_budget


def test_negative_losses_are_followed():
    model = mlp()
    given = batches()
    seen = bs.forecast(
        model, given, loss=lambda out, y: F.cross_entropy(out, y) - 5, optimizer=sgd(model, 0.3)
    )
    assert seen.baseline == pytest.approx(1.386 - 5, abs=0.05)
    assert seen.interval[0] <= seen.loss_at_budget <= seen.interval[1]


def test_an_interval_and_probabilities_are_given():
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=sgd(model, 0.3), budget=500, clip=1.0)
    assert set(seen.probabilities) == {"trains", "lags", "fails"}
    assert sum(seen.probabilities.values()) == pytest.approx(1.0, abs=1e-3)
    assert seen.probability == pytest.approx(1 - seen.probabilities["fails"])
    assert set(seen.gains) == {"0.1", "10"}
    assert "80 %" in str(seen)


def test_one_batch_taken_again_costs_certainty():
    model = mlp()
    fresh = bs.forecast(model, batches(), optimizer=sgd(model, 0.3), budget=500, clip=1.0)
    same = bs.forecast(model, batches(1), optimizer=sgd(model, 0.3), budget=500, clip=1.0)
    assert abs(same.probabilities["fails"] - 1 / 3) < 1 / 3
    assert fresh.probabilities["fails"] < same.probabilities["fails"]
    assert "taken again" in same.notes[0]


def test_a_one_cycle_that_was_not_given_is_noted():
    model = mlp()
    optimizer = sgd(model, 0.1)
    OneCycleLR(optimizer, 0.1, total_steps=600)
    seen = bs.forecast(model, batches(), optimizer=optimizer, budget=600)
    assert "holds the learning rate at 0.004 of 0.1" in seen.notes[0]


def test_a_constant_loss_is_said_to_stay():
    model = mlp()
    seen = bs.forecast(model, batches(), loss=lambda out, y: 0 * out.sum() + 2.0)
    assert (seen.verdict, seen.kind) == ("fails", "stuck")
    assert "its gradient is zero" in seen.because[0]


def test_what_is_stuck_is_expected_to_end_where_it_is():
    """ "fails (stuck)" stood over a loss that was expected to be half gone."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(m for _ in range(30) for m in (nn.Linear(8, 8), nn.Sigmoid())), nn.Linear(8, 4)
    )
    seen = bs.forecast(model, batches(), optimizer=sgd(model, 1e-6), budget=300)
    assert (seen.verdict, seen.kind) == ("fails", "stuck")
    assert seen.baseline is not None
    assert seen.interval is not None
    assert seen.loss_at_budget is not None
    assert seen.loss_at_budget > 0.95 * seen.baseline
    assert seen.interval[0] <= seen.loss_at_budget <= seen.interval[1]


def test_a_budget_of_one_is_taken_whole():
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=sgd(model), budget=1)
    assert (seen.spent, seen.verdict) == (1, "fails")
    assert seen.because[0].startswith("the one step of the budget was taken")
    assert seen.sentence().startswith("Within 1 step: fails")


def test_a_loss_without_a_lowest_constant_has_no_baseline():
    model = mlp()
    seen = bs.forecast(
        model, batches(), loss=lambda out, y: -F.cross_entropy(out, y), optimizer=sgd(model)
    )
    assert seen.baseline is None
    assert any("constant baseline is not known" in text for text in seen.outside)


def test_only_the_likelier_of_two_other_rates_is_recommended():
    model = mlp()
    seen = bs.forecast(model, batches(), optimizer=sgd(model, 0.3), budget=500, clip=1.0)
    torn = replace(seen, gains={"0.1": (0.2, 0.6), "10": (0.1, 0.8)})
    (line,) = [line for line in torn.details() if "learning rate" in line]
    assert line.startswith("With the learning rate × 10 ")
    assert "(a clear gain with 80 %)" in line
    unsure = replace(seen, gains={"0.1": (0.2, 0.4), "10": (-0.1, 0.3)})
    assert not [line for line in unsure.details() if "learning rate" in line]


@unchecked()
def test_bad_input_is_one_sentence():
    model, other = mlp(), mlp()
    optimizer = sgd(model)
    with pytest.raises(UsageError, match="belongs to another optimizer"):
        bs.forecast(
            model,
            batches(),
            optimizer=optimizer,
            scheduler=LambdaLR(sgd(other), lambda step: 1.0),
        )
    with pytest.raises(UsageError, match="a function from step to factor"):
        bs.forecast(model, batches(), optimizer=optimizer, scheduler=3)
    with pytest.raises(UsageError, match="cannot be asked for step 0"):
        bs.forecast(model, batches(), optimizer=optimizer, scheduler=lambda: 1.0)
    with pytest.raises(UsageError, match=r"losses that are to fall"):
        climbs = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
        bs.forecast(model, batches(), optimizer=climbs)
    with pytest.raises(UsageError, match="The list of optimizers is empty"):
        bs.forecast(model, batches(), optimizer=[])
    plateau = bs.forecast(
        model, batches(), optimizer=optimizer, scheduler=ReduceLROnPlateau(optimizer)
    )
    assert "losses to come" in plateau.notes[0]
    ends = bs.forecast(model, iter(batches(3)), optimizer=optimizer)
    assert "3 batches for 40 steps" in ends.notes[0]
