"""A treatment claims no more than it saw: one batch, shuffled labels, frequent classes, weight decay."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.diagnosis import diagnose, treat
from bathyscope.diagnosis.candidates import Candidate, candidates
from bathyscope.diagnosis.helped import choose, expected_end, judge
from bathyscope.diagnosis.race import Attempt, Race, Search
from bathyscope.diagnosis.recipe_search import is_on_its_way
from bathyscope.diagnosis.supply import Supply, generalizes
from bathyscope.diagnosis.treat import _constant
from bathyscope.diagnosis.verification import Verification
from bathyscope.remedies import AddNorms, Recipe, ReplaceOptimizer, ScaleRate
from bathyscope.rules.targeted.context import Context
from tests.diagnosis.networks import batch


def dead(seed=0):
    """A network whose rate is far too low: settings alone make it train."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def treated(labels, *, lr=1e-7):
    model = dead()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x, _ = batch(size=128)
    given = x, labels
    result = diagnose(model, given, optimizer=optimizer)
    return treat(model, result, optimizer=optimizer, allow=["settings"], spend=300)


def test_shuffled_labels_are_learned_by_heart_and_not_helped():
    generator = torch.Generator().manual_seed(0)
    done = treated(torch.randint(10, (128,), generator=generator))
    assert not done.helped
    assert any("nothing to do with the inputs" in note for note in done.notes)


def test_one_batch_is_said_to_be_all_that_was_seen():
    done = treated(batch(size=128)[1])
    assert done.helped
    assert "one batch that could be seen" in done.outcome
    assert "Other batches were not seen" in done.outcome
    assert "other batches and another seed" not in done.outcome
    assert any("Only 1 batch could be seen" in note for note in done.notes)


def test_a_network_that_fits_few_samples_is_not_said_to_fail():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    x, optimizer = torch.randn(32, 6), torch.optim.Adam(model.parameters(), lr=0.01)
    given = x, torch.randint(3, (32,))
    result = diagnose(model, given, optimizer=optimizer)
    done = treat(model, result, optimizer=optimizer, spend=300)
    assert done.recipe is None
    assert not done.helped
    assert done.outcome.startswith("The network learns the samples that it is given")


def attempt(recipe=(), *, losses=(1.0,) * 40, constant=1.0, accuracy=None, **options):
    accuracies = () if accuracy is None else (accuracy,) * len(losses)
    return Attempt(Recipe(steps=recipe), losses, constant, accuracies=accuracies, **options)


def test_the_answer_of_a_frequent_class_does_not_pass():
    """85 % background made 80 % accuracy a constant's answer."""
    assert not attempt(losses=(0.44,) * 40, constant=0.45, accuracy=0.85).passes
    assert attempt(losses=(0.1,) * 40, constant=0.45, accuracy=0.95).passes
    assert not attempt(losses=(0.1,) * 40, constant=0.45, accuracy=0.95, generalizes=False).passes


def test_a_fall_from_above_that_goes_on_is_not_given_up():
    """Settings that had taken a loss from 551 to 403, above a baseline of 378, were not trained further."""
    falling = tuple(378 + 180 * 0.88**t for t in range(16))
    assert is_on_its_way(attempt(losses=falling, constant=378.0))
    assert not is_on_its_way(attempt(losses=(551.0,) * 16, constant=378.0))
    assert not is_on_its_way(attempt(losses=(379.0, 378.0) * 8, constant=378.0))  # at the baseline
    assert not is_on_its_way(
        attempt(losses=falling, constant=450.0)
    )  # below it: its promise counts
    assert not is_on_its_way(attempt(losses=(551.0,), constant=378.0))
    assert not is_on_its_way(attempt(losses=(*falling[:-1], float("nan")), constant=378.0))


RATE = (ScaleRate(factor=0.1),)


def judged(treated, untreated, again=None, *, generalizes=None, budget=300, other=None):
    """The judgement of curves: a recipe's training, the race's untreated copy, its second seed."""
    chosen = attempt(RATE, losses=treated, constant=2.3, generalizes=generalizes)
    second = [] if again is None else [attempt(losses=again, constant=2.3)]
    racers = [search((), untreated, 2.3), search(RATE, other or treated, 2.3)]
    return judge(chosen, Verification((chosen, *second), 0), racers, budget=budget)


def test_what_learns_where_the_untreated_does_not_has_helped():
    """CIFAR-10 from 10 to 68 % was "helped: no"."""
    far, flat = (0.9,) * 150, (2.3,) * 64
    assert judged(far, flat).helps
    assert not judged(far, flat, generalizes=False).helps
    assert not judged(flat, flat).helps
    assert not judged((2.25,) * 150, (9.0,) * 64).helps  # it still fails


def test_a_gain_must_be_larger_than_what_two_seeds_differ_by():
    assert judged((1.0,) * 64, (1.5,) * 64, (1.6,) * 64).helps
    assert not judged((1.0,) * 64, (1.5,) * 64, (2.2,) * 64, other=(1.9,) * 64).helps
    result = judged((1.0,) * 64, (1.5,) * 64, (1.7,) * 64)
    assert result.noise == pytest.approx(0.2)
    assert (result.treated, result.untreated) == pytest.approx((1.0, 1.5))


def test_the_end_of_the_budget_is_what_counts():
    steps = range(1, 151)
    falling = attempt(RATE, losses=tuple(2.3 * t**-0.3 for t in steps), constant=2.3)
    truth = 1000**-0.3 - 1
    assert expected_end(falling, 150) == pytest.approx(150**-0.3 - 1, abs=0.02)
    # half-way between what was seen and the power law
    assert expected_end(falling, 1000) == pytest.approx((truth + 150**-0.3 - 1) / 2, abs=0.03)
    assert expected_end(attempt(losses=(1.0, float("nan"))), 300) == 3.0
    # a fall from above to the constant baseline says nothing of what lies below it
    down = attempt(RATE, losses=tuple(2.3 + 3 * 0.95**t for t in range(150)), constant=2.3)
    assert expected_end(down, 1000) >= 0


def test_a_reward_far_beyond_its_small_baseline_is_expected_where_it_was_seen():
    """A surrogate that reached −0.66 was expected at −0.0025: its baseline was 0.001 in size."""
    result = judged_around(-0.001, treated=(0.08, *(-0.66,) * 99), untreated=(0.08,) * 64)
    assert result.helps
    assert result.treated == pytest.approx(-0.66)


def judged_around(constant, *, treated, untreated):
    chosen = attempt(RATE, losses=treated, constant=constant)
    racers = [search((), untreated, constant), search(RATE, treated, constant)]
    return judge(chosen, Verification((chosen,), 0), racers, budget=100)


def test_no_cross_entropy_is_expected_below_zero():
    """After 200 steps a loss of -0.0212 was expected."""
    falling = tuple(2.3 - 0.55 * t**0.25 for t in range(1, 151))
    free, bounded = (attempt(RATE, losses=falling, constant=2.3, lowest=f) for f in (-9.0, 0.0))
    assert 2.3 * (1 + expected_end(free, 4000)) < 0
    assert 0 < 2.3 * (1 + expected_end(bounded, 4000)) < falling[-1]
    below = attempt(RATE, losses=(*falling, *(-1.0,) * 40), constant=2.3, lowest=0.0)
    assert expected_end(below, 4000) < -1.4  # what was seen to be negative may be so
    model = dead()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    [racer] = Race(model, optimizer, [batch()], F.cross_entropy, 2.3).enter([Candidate(Recipe())])
    assert racer.attempt.lowest == 0


def test_the_smaller_change_is_applied_where_it_gets_nearly_as_far():
    flat = attempt(losses=(2.3,) * 64, constant=2.3)
    settings = attempt(RATE, losses=(1.5,) * 150, constant=2.3)
    structure = attempt((AddNorms(layers=("a",)),), losses=(1.45,) * 150, constant=2.3)
    far = attempt((AddNorms(layers=("a",)),), losses=(1.3,) * 150, constant=2.3)
    near, ahead = Verification((settings, structure), 0), Verification((settings, far), 0)
    assert choose(near, flat, budget=300) is settings
    assert choose(ahead, flat, budget=300) is far
    same = attempt(losses=(1.5,) * 64, constant=2.3)
    assert choose(Verification((settings,), 0), same, budget=300) is None


def test_a_loss_of_either_sign_is_followed():
    """The loss of a policy gradient is a negative reward."""
    found = attempt(RATE, losses=(-0.9,) * 64, constant=-0.5)
    assert found.learned == pytest.approx(0.8)
    assert found.fits
    assert attempt(losses=(-0.45,) * 64, constant=-0.5).learned == pytest.approx(-0.1)


def context(optimizer_class=torch.optim.AdamW, **options):
    model = dead()
    optimizer = optimizer_class(model.parameters(), lr=1e-3, **options)
    given = batch(size=32)
    found = diagnose(model, given, optimizer=optimizer)
    return Context(model, optimizer, given, found.blocks, found.findings, F.cross_entropy)


def test_weight_decay_is_kept():
    entrants = candidates(context(weight_decay=0.01), ("settings", "weights", "structure"), 32)
    steps = [s for c in entrants for s in c.recipe.steps if isinstance(s, ReplaceOptimizer)]
    assert steps
    assert {s.weight_decay for s in steps if s.kind != "sgd"} == {0.01}
    assert {s.kind for s in steps} <= {"adamw", "sgd"}
    plain = candidates(context(torch.optim.SGD), ("settings",), 32)
    assert {
        s.weight_decay for c in plain for s in c.recipe.steps if isinstance(s, ReplaceOptimizer)
    } == {0.0}


def test_what_a_person_would_try_enters_first():
    entrants = candidates(context(torch.optim.SGD), ("settings", "weights", "structure"), 8)
    names = [c.recipe.description for c in entrants]
    for name in ("learning rate × 0.1", "learning rate × 10", "Adam at 0.0003"):
        assert name in names


def search(recipe, losses, constant=1.0):
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Search(Recipe(steps=recipe), model, optimizer, constant, losses=list(losses))


def test_settings_are_tried_before_anything_else_is_touched():
    done = treated(batch(size=128)[1])
    assert done.level == "settings"
    torch.manual_seed(0)
    model = dead()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    x, y = batch(size=128)
    found = diagnose(model, (x, y), optimizer=optimizer)
    whole = treat(model, found, optimizer=optimizer, budget=100)
    assert whole.level == "settings"
    assert {a.recipe.level for a in whole.attempts if a.recipe.steps} == {"settings"}
    assert whole.judgement is not None
    assert whole.judgement.budget == 100
    assert all(len(a.losses) <= 100 for a in whole.verification.attempts)


def test_few_batches_are_shared_and_many_are_not():
    model = dead()
    x, y = batch(size=64)
    one = Supply(model, [(x, y)])
    one.take(3)
    [(held, _)] = one.reserve()
    assert torch.equal(held, x[32:])
    [(kept, _)] = one.take(1)
    assert torch.equal(kept, x[:32])
    few = Supply(model, [(x + i, y) for i in range(8)])
    few.take(20)
    assert len(few.reserve()) == 2
    assert not any(torch.equal(b[0], x + 7) for b in few.take(30))
    many = Supply(model, [(x, y)] * 50)
    many.take(20)
    assert many.reserve() == []
    small = Supply(model, [(x[:8], y[:8])])
    small.take(3)
    assert small.reserve() == []


def test_held_out_numbers_must_be_better_than_a_constant():
    found = search((), [1.0])
    x = torch.randn(64, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found.model.weight.fill_(1.0)
        found.model.bias.zero_()
    assert generalizes(found, [(x, x)], loss=F.mse_loss)
    assert not generalizes(found, [(x, x.flip(0))], loss=F.mse_loss)
    assert generalizes(found, [], loss=F.mse_loss) is None


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        made = self.inner(x)
        return made, made.mean(1)


def test_a_tuple_of_outputs_is_measured_against_its_constant():
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)) + 5
    variance = float((x - x.mean(0)).square().mean())
    constant = _constant(Pair(), [(x, x)], lambda out, y: F.mse_loss(out[0], y))
    assert constant == pytest.approx(variance, rel=0.02)
