import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope.core import UsageError
from bathyscope.diagnosis import Contender, compare, diagnose, treat
from tests.core.test_preserve import assert_same, state_of
from tests.diagnosis.networks import ResidualMLP, batch, chain


def plain(depth=24, width=64):
    """A ReLU chain with weights too small for its depth: the signal and the gradient fade."""
    torch.manual_seed(3)
    layers = [nn.Flatten()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
        nn.init.normal_(layers[-2].weight, std=0.6 * (2 / width) ** 0.5)
        nn.init.zeros_(layers[-2].bias)
    return nn.Sequential(*layers, nn.Linear(width, 10))


def loss_after(model, optimizer, examples, steps=60):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(examples[0]), examples[1])
        loss.backward()
        optimizer.step()
    return loss.item()


def test_a_network_that_does_not_train_does_after_treatment_and_can_be_put_back():
    model = plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    before = state_of(model)
    found = diagnose(model, batch(), optimizer=optimizer)
    assert found.findings
    treatment = treat(model, found, optimizer=optimizer, steps=15)
    assert treatment.helped
    assert treatment.applied is not None
    assert "loss after 15 steps" in treatment.before_after.index
    assert treatment.report().before is not None
    assert treatment.summary()["helped"]
    untreated = plain()
    alone = torch.optim.SGD(untreated.parameters(), lr=0.05, momentum=0.9)
    copied, its_own = copy.deepcopy((model, optimizer))
    assert loss_after(copied, its_own, batch()) < 0.5 * loss_after(untreated, alone, batch())
    treatment.undo()
    assert_same(before, state_of(model))
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_a_dead_block_is_reinitialised():
    torch.manual_seed(0)
    model = chain(6, norm=False)
    with torch.no_grad():
        model[5].bias.fill_(-1e3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    found = diagnose(model, batch(), optimizer=optimizer)
    assert (found.findings[0].code, found.findings[0].blocks[0]) == ("dead-units", "5")
    treatment = treat(model, found, optimizer=optimizer, steps=15)
    assert treatment.helped
    assert "dead-units" not in {f.code for f in treatment.after.findings}


def test_a_healthy_network_is_left_alone():
    torch.manual_seed(0)
    model = ResidualMLP(6)
    before = state_of(model)
    found = diagnose(model, batch())
    treatment = treat(model, found, steps=8)
    assert treatment.applied is None
    assert not treatment.helped
    assert_same(before, state_of(model))


def test_a_diagnosis_of_another_model_is_refused():
    found = diagnose(ResidualMLP(6), batch())
    with pytest.raises(UsageError, match="another model"):
        treat(ResidualMLP(3), found)


def test_remedies_that_start_slowly_get_more_steps():
    model = plain(depth=12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0005, momentum=0.9)
    found = diagnose(model, batch(), optimizer=optimizer)
    treatment = treat(model, found, optimizer=optimizer, steps=3)
    assert treatment.applied is not None
    lengths = {trial.name: len(trial.losses) for trial in treatment.trials}
    assert lengths["untreated"] == lengths[treatment.applied] == 12
    assert min(lengths.values()) == 3
    assert len(lengths) == len(treatment.trials)


def test_batches_come_from_any_loader_and_no_more_are_taken_than_there_are_steps(monkeypatch):
    monkeypatch.setattr("bathyscope.diagnosis.treatment.CANDIDATES", ())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    pair = torch.randn(8, 8), torch.randint(4, (8,))
    found = diagnose(model, pair)
    taken = []
    endless = (taken.append(1) or pair for _ in iter(int, 1))
    assert len(treat(model, found, batches=endless, steps=12).trials[0].losses) == 12
    assert len(taken) == 12
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*pair), batch_size=4)
    assert len(treat(model, found, batches=loader, steps=12).trials[0].losses) == 12
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    contenders = [Contender(name, model, optimizer) for name in ("one", "two")]
    courses = compare(contenders, (b for b in loader), loss=F.cross_entropy)
    assert [len(course.losses) for course in courses] == [2, 2]
