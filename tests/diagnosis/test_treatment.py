import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import remedies
from bathyscope.core import UsageError
from bathyscope.core.stepping import fuse_, train_over
from bathyscope.diagnosis import Contender, compare, diagnose, treat
from bathyscope.diagnosis.race import (
    ADDED,
    ROUNDS,
    SMALLEST_FINAL,
    Attempt,
    num_entrants,
    search_cost,
    step_cost,
)
from bathyscope.diagnosis.supply import Supply
from bathyscope.diagnosis.verification import falls_short
from bathyscope.measure.loss_form import fit_constant_baseline
from bathyscope.remedies import DrawWeights, Recipe
from bathyscope.report import from_json, to_html, to_json
from tests.diagnosis.networks import ResidualMLP, batch, chain
from tests.support.model_state import assert_same, state_of
from tests.unchecked import unchecked


def plain(depth=24, width=64):
    """A ReLU chain with weights too small for its depth: the signal and the gradient fade."""
    torch.manual_seed(3)
    layers = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
        nn.init.normal_(layers[-2].weight, std=0.6 * (2 / width) ** 0.5)
        nn.init.zeros_(layers[-2].bias)
    return nn.Sequential(*layers, nn.Linear(width, 10))


def digits_batches(count, seed=0, size=32):
    x, y = batch(size=1000)
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(len(x), (size,), generator=generator) for _ in range(count)]
    return [(x[r], y[r]) for r in rows]


def accuracy_after(model, optimizer, batches):
    model.train()
    fractions = []
    for x, y in batches:
        optimizer.zero_grad()
        output = model(x)
        F.cross_entropy(output, y).backward()
        optimizer.step()
        fractions.append((output.argmax(1) == y).float().mean().item())
    return sum(fractions[-16:]) / 16


def test_a_network_that_does_not_train_does_after_treatment_and_can_be_put_back(tmp_path):
    model = plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    before, settings = state_of(model), copy.deepcopy(optimizer.state_dict())
    result = diagnose(model, batch(), optimizer=optimizer)
    assert result.findings
    treatment = treat(model, result, optimizer=optimizer, batches=iter(digits_batches(400)))
    assert treatment.helped
    assert treatment.spent <= 400
    assert treatment.verification.steps <= 300
    assert not treatment.notes
    assert "It helped" in treatment.outcome
    draws = any(isinstance(step, DrawWeights) for step in treatment.recipe.steps)
    assert ('allow="settings" keeps' in treatment.outcome) is draws
    assert "Less was tried: settings" in treatment.lower_levels
    assert "problems found" in treatment.before_after.index
    report = treatment.report()
    assert report.before is not None
    assert "Take the change into your own code." in to_html(report)
    assert from_json(to_json(report)).code == treatment.code()
    assert treatment.summary()["level"] == treatment.level

    # the same cure on a fresh model, by the saved recipe and by the printed code
    x = batch()[0]
    fresh = plain()
    used = remedies.apply_(fresh, treatment.recipe.save(tmp_path / "recipe.json"))
    torch.testing.assert_close(fresh(x), model(x))
    other = plain()
    names = {"model": other, "optimizer": torch.optim.SGD(other.parameters(), lr=0.05)}
    exec(compile(treatment.code(), "recipe", "exec"), names)
    torch.testing.assert_close(names["model"](x), model(x))
    assert accuracy_after(fresh, used, digits_batches(150, seed=5)) > 0.8

    treatment.undo()
    assert_same(before, state_of(model))
    assert optimizer.state_dict() == settings


@unchecked()
def test_a_level_that_is_not_allowed_is_not_used():
    model = plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    result = diagnose(model, batch(), optimizer=optimizer)
    before = state_of(model)
    treatment = treat(
        model, result, optimizer=optimizer, batches=digits_batches(80), allow="settings", spend=300
    )
    assert {a.recipe.level for a in treatment.attempts} == {"settings"}
    if treatment.recipe is None:
        assert_same(before, state_of(model))
        assert "as it was" in treatment.outcome
    for allow, message in [((), "allow is empty"), (("weight",), "weights"), ((3,), "takes names")]:
        with pytest.raises(UsageError, match=message):
            treat(model, result, optimizer=optimizer, allow=allow)
    with pytest.raises(UsageError, match="at least 300, but 20"):
        treat(model, result, optimizer=optimizer, spend=20)


@pytest.mark.slow
def test_a_dead_block_is_drawn_anew():
    torch.manual_seed(0)
    model = chain(6, norm=False)
    with torch.no_grad():
        model[5].bias.fill_(-1e3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    result = diagnose(model, batch(), optimizer=optimizer)
    assert (result.findings[0].code, result.findings[0].blocks[0]) == ("dead-units", "5")
    treatment = treat(model, result, optimizer=optimizer, batches=digits_batches(380))
    assert treatment.helped
    assert treatment.level == "weights"
    assert "dead-units" not in {f.code for f in treatment.after.findings}


def test_a_healthy_network_is_left_alone():
    torch.manual_seed(0)
    model = ResidualMLP(6)
    before = state_of(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    result = diagnose(model, batch(), optimizer=optimizer)
    treatment = treat(model, result, optimizer=optimizer, batches=digits_batches(80))
    assert treatment.recipe is None
    assert treatment.applied is None
    assert not treatment.helped
    assert "trains as it is" in treatment.outcome
    assert treatment.optimizer is optimizer
    assert_same(before, state_of(model))


def test_a_diagnosis_of_another_model_is_refused():
    result = diagnose(ResidualMLP(6), batch())
    with pytest.raises(UsageError, match="another model"):
        treat(ResidualMLP(3), result)


class Uncopied(nn.Sequential):
    def __deepcopy__(self, memo):
        raise TypeError("a handle of a camera")


class Signs(torch.optim.Optimizer):
    """An optimizer that nobody knows, without a setting called lr."""

    def __init__(self, parameters):
        super().__init__(parameters, {"size": 0.001})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(group["size"] * p.grad.sign())


@unchecked()
def test_bad_input_is_told_in_a_sentence_and_an_unknown_optimizer_is_worked_with():
    torch.manual_seed(0)
    pair = torch.randn(16, 8), torch.randint(4, (16,))
    model = Uncopied(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    with pytest.raises(UsageError, match=r"cannot be copied.*camera"):
        treat(model, diagnose(model, pair))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    result = diagnose(model, pair)
    with pytest.raises(UsageError, match=r"a torch.optim.Optimizer, but a str"):
        treat(model, result, optimizer="adam")
    treatment = treat(model, result, optimizer=Signs(model.parameters()), spend=300)
    assert not any("learning rate" in a.name for a in treatment.attempts)
    assert "Only 1 batch could be seen" in treatment.notes[0]
    model.requires_grad_(False)
    with pytest.raises(UsageError, match="unfreeze"):
        treat(model, result)


@pytest.mark.slow
def test_frozen_parameters_stay_as_they_are():
    model = plain(depth=10)
    model[1].requires_grad_(False)
    frozen = model[1].weight.clone()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1e-5)
    result = diagnose(model, batch(), optimizer=optimizer)
    treat(model, result, optimizer=optimizer, batches=digits_batches(380), allow=("weights",))
    assert torch.equal(model[1].weight, frozen)


def test_batches_come_from_any_loader_and_are_taken_as_they_are_needed():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    pair = torch.randn(8, 8), torch.randint(4, (8,))
    taken = []
    endless = (taken.append(1) or pair for _ in iter(int, 1))
    supply = Supply(model, endless)
    assert len(supply.take(12)) == len(taken) == 12
    assert not supply.is_repeating
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*pair), batch_size=4)
    supply = Supply(model, loader)
    assert len(supply.take(5)) == 5
    assert supply.is_repeating
    with pytest.raises(UsageError, match="No batch"):
        Supply(model, []).take(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    contenders = [Contender(name, model, optimizer) for name in ("one", "two")]
    courses = compare(contenders, (b for b in loader), loss=F.cross_entropy)
    assert [len(course.losses) for course in courses] == [2, 2]


def test_the_best_constant_is_the_entropy_of_labels_and_the_variance_of_numbers():
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    fractions = torch.tensor([3, 1, 2]) / 6
    entropy = -(fractions * fractions.log()).sum().item()
    result = fit_constant_baseline(torch.randn(6, 3), labels, F.cross_entropy)
    assert result == pytest.approx(entropy, rel=1e-4)
    y = torch.randn(50, 2)
    expected = y.var(0, correction=0).mean().item()
    assert fit_constant_baseline(torch.randn(50, 2), y, F.mse_loss) == pytest.approx(
        expected, rel=1e-4
    )
    assert fit_constant_baseline(torch.randn(4, 2), None, F.mse_loss) is None


@pytest.mark.parametrize("entrants", [2, 5, 9, 14])
def test_a_search_costs_no_more_than_was_planned_whoever_survives(entrants):
    """Against the halving written out, over random survivors; the dearest ones cost just as much."""
    generator = torch.Generator().manual_seed(entrants)
    costs = [1 + float(torch.rand((), generator=generator)) for _ in range(entrants)]
    halves = [entrants, math.ceil(entrants / 2), math.ceil(math.ceil(entrants / 2) / 2)]
    alive = [*halves, min(2, halves[-1])]

    def cost_of(order):
        ends = [0, *ROUNDS[:-1], SMALLEST_FINAL]
        return sum(
            (end - start) * sum(costs[i] for i in order[:count])
            for start, end, count in zip(ends, ends[1:], alive, strict=False)
        )

    planned = search_cost(costs)
    for _ in range(50):
        assert cost_of(torch.randperm(entrants, generator=generator).tolist()) <= planned + 1e-9
    dearest = sorted(range(entrants), key=lambda i: -costs[i])
    assert cost_of(dearest) == pytest.approx(planned)
    assert num_entrants(costs, planned) == entrants
    assert num_entrants([*costs, 1.0], planned) == entrants


def test_a_step_under_a_recipe_costs_more_by_what_is_added_to_a_pass():
    model = plain(depth=6)  # a flattening, six maps and activations, a head: 14 layers
    assert step_cost(model, Recipe()) == 1
    around = remedies.AddShortcuts(spans=tuple((f"{i}", f"{i + 1}") for i in (3, 5, 7)))
    norms = remedies.AddNorms(layers=("3", "5", "7", "9"))
    assert step_cost(model, Recipe(steps=(around, norms))) == pytest.approx(1 + ADDED * 7 / 14)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_fused_steps_are_the_optimizer_s_own_to_rounding(name):
    def after(fused):
        torch.manual_seed(0)
        model = plain(depth=3)
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)(
            model.parameters(), lr=0.01, weight_decay=0.1, **options
        )
        train_over(model, optimizer, digits_batches(3), loss=F.cross_entropy)
        if fused:  # also midway, with a state of its own
            fuse_(model, optimizer)
            assert optimizer.param_groups[0]["fused"]
        train_over(model, optimizer, digits_batches(5, seed=1), loss=F.cross_entropy)
        return list(model.parameters())

    for ours, theirs in zip(after(True), after(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_what_the_fused_kernels_do_not_take_is_left_alone():
    text = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Flatten(), nn.Linear(6, 2))
    waves = nn.Linear(3, 3, dtype=torch.complex64)
    chosen = nn.Linear(3, 3)
    for model, optimizer in [
        (text, torch.optim.SGD(text.parameters(), lr=0.1)),
        (waves, torch.optim.Adam(waves.parameters(), lr=0.1)),
        (chosen, torch.optim.Adam(chosen.parameters(), lr=0.1, foreach=True)),
        (chosen, torch.optim.RMSprop(chosen.parameters(), lr=0.1)),
        (chosen, Signs(chosen.parameters())),
    ]:
        before = [dict(group) for group in optimizer.param_groups]
        fuse_(model, optimizer)
        after = [dict(group) for group in optimizer.param_groups]
        assert [{k: v for k, v in g.items() if k != "params"} for g in after] == [
            {k: v for k, v in g.items() if k != "params"} for g in before
        ]


@pytest.mark.parametrize(
    ("accuracies", "loss", "short"),
    [
        ([0.76] * 150, 0.3, True),  # flat below eight tenths: the next finalist has the other half
        ([0.76] * 100, 0.3, False),  # too early to ask
        ([0.76] * 175, 0.3, False),  # asked half-way alone
        ([0.5] * 50 + [0.6] * 50 + [0.7] * 50, 0.3, False),  # on its way: 0.7 + 0.1 / 50 * 175
        ([0.5] * 50 + [0.74] * 50 + [0.75] * 50, 0.3, True),  # 0.75 + 0.01 / 50 * 175 = 0.785
        ([0.5] * 50 + [0.74] * 50 + [0.76] * 50, 0.3, False),  # 0.76 + 0.02 / 50 * 175 = 0.83
        ([0.76] * 150, 0.6, False),  # not yet learned: it may start late
        ([], 0.3, False),  # no labels
    ],
)
def test_a_training_that_would_not_pass_at_its_pace_leaves_its_steps_to_the_next(
    accuracies, loss, short
):
    losses = (loss,) * (len(accuracies) or 150)
    attempt = Attempt(Recipe(), losses, 1.0, accuracies=tuple(accuracies))
    assert falls_short(attempt, 300) is short


def test_a_recipe_with_which_no_step_can_be_taken_is_out_of_the_race():
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(20, 8, sparse=True), nn.ReLU(), nn.Linear(8, 2))
    labels = torch.arange(64) % 2
    given = torch.randint(10, (64, 5)) + 10 * labels[:, None], labels
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)  # Adam takes no sparse gradients
    before = diagnose(model, given, loss=F.cross_entropy, optimizer=optimizer)
    treated = treat(model, before, optimizer=optimizer)
    assert treated.helped
