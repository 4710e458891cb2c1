"""The random trainings: a number is a training, exactly, and its end is what it says."""

import itertools
from collections import Counter

import pytest
import torch

from bathyscope.core import UsageError
from bathyscope.sweep import backend_of
from tools.forecast_table.draw import FAMILIES, Draw, draw
from tools.forecast_table.labels import (
    batches,
    course,
    label,
    optimizer_of,
    outcome,
    scheduled,
)
from tools.forecast_table.networks import network
from tools.forecast_table.observation import observe
from tools.forecast_table.parts import Labeling, label_all, read_rows, work, write_rows
from tools.forecast_table.tasks import task

SMALL = Draw(
    number=8,  # one of those that go to the end
    family="mlp",
    blocks=2,
    width=16,
    layers=1,
    norm="none",
    order="mid",
    shortcut="none",
    activation="relu",
    start="he",
    task="clouds",
    optimizer="sgd",
    rate=0.1,
    schedule="step",
)


def test_every_choice_is_drawn():
    drawn = [draw(number) for number in range(600)]
    assert Counter(d.family for d in drawn).keys() == set(FAMILIES)
    assert len({d.task for d in drawn}) == 9
    assert max(d.blocks * d.layers for d in drawn) > 150
    assert {d.held_out for d in drawn} == {True, False}
    assert all((d.task in ("counting", "echo")) == (d.family == "gpt") for d in drawn)


def of_each_family():
    numbers = itertools.groupby(
        sorted(range(200), key=lambda n: draw(n).family), key=lambda n: draw(n).family
    )
    return [min(group, key=lambda n: draw(n).blocks) for _, group in numbers]


@pytest.mark.parametrize("number", of_each_family())
def test_a_network_is_rebuilt_exactly_and_the_random_state_is_left(number):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, two = network(draw(number)), network(draw(number))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    other = network(draw(number), seed=1)
    assert any(
        not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)
    )
    inputs, targets = next(batches(draw(number), seed=0))
    data = task(draw(number).task)
    output = one(inputs)
    assert torch.isfinite(data.loss(output, targets))
    assert data.score(output, targets) <= 1


@pytest.mark.parametrize("name", ["digits", "stripes", "waves", "counting"])
def test_a_task_can_be_answered_perfectly(name):
    data = task(name)
    if data.targets.is_floating_point():
        assert data.score(data.targets, data.targets) == 1.0
        assert data.score(0 * data.targets, data.targets) == pytest.approx(0.0, abs=1e-2)
    else:
        perfect = torch.nn.functional.one_hot(data.targets.clamp_min(0), data.num_outputs)
        assert data.score(perfect.movedim(-1, 1).float(), data.targets) == 1.0


def test_a_course_is_that_of_a_plain_loop():
    result = course(SMALL, seed=1)
    data, model = task("clouds"), network(SMALL, seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, scores = [], []
    for step, (x, y) in enumerate(itertools.islice(batches(SMALL, seed=1), 1000), 1):
        optimizer.param_groups[0]["lr"] = 0.1 * (1.0 if step <= 150 else 0.1)
        optimizer.zero_grad()
        output = model(x)
        loss = torch.nn.functional.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        scores.append(float((output.argmax(1) == y).float().mean()))
    assert result.ended == 1000
    assert result.first_loss == pytest.approx(losses[0])
    wanted = [sum(scores[s - 10 : s]) / 10 for s in (100, 300, 1000)]
    assert result.scores == pytest.approx(
        wanted, abs=0.02
    )  # fused and plain steps round differently
    assert result.losses[0] == pytest.approx(sum(losses[90:100]) / 10, rel=1e-2)
    assert data.num_outputs == 10


def test_a_training_that_is_non_finite_ends_and_fails():
    from dataclasses import replace

    result = course(replace(SMALL, number=9, rate=1e30), seed=0)
    assert result.why == "non-finite"
    assert result.ended < 100
    assert result.scores == (0.0, 0.0, 0.0)


def test_both_seeds_decide():
    def row(first, second):
        return {"scores": [[first] * 3, [second] * 3]}

    assert outcome(row(0.8, 0.9), 300) == "trains"
    assert outcome(row(0.79, 0.9), 300) == "between"
    assert outcome(row(0.1, 0.49), 100) == "fails"
    assert outcome(row(0.1, 0.5), 1000) == "between"


def test_schedules():
    assert [scheduled("warmup", s) for s in (1, 25, 50, 900)] == [0.02, 0.5, 1.0, 1.0]
    assert scheduled("cosine", 1) == 1.0
    assert scheduled("cosine", 501) == pytest.approx(0.5)
    assert [scheduled("step", s) for s in (150, 151)] == [1.0, 0.1]


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adamw", "rmsprop"])
def test_every_optimizer_moves_the_weights(kind):
    from dataclasses import replace

    model = network(SMALL)
    optimizer = optimizer_of(replace(SMALL, optimizer=kind), model)
    before = [p.detach().clone() for p in model.parameters()]
    x, y = next(batches(SMALL, seed=0))
    task("clouds").loss(model(x), y).backward()
    optimizer.step()
    assert all(
        not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True) if p.ndim > 1
    )


@pytest.fixture
def cheap(monkeypatch):
    """Labels at once: what is tested is where they go."""
    import tools.forecast_table.parts as parts

    made = []

    def quick(number):
        made.append(number)
        return {"number": number, "scores": [[0.9] * 3] * 2}

    monkeypatch.setattr(parts, "label", quick)
    return made


def test_the_table_goes_on_where_it_stopped(tmp_path, cheap):
    from concurrent.futures import ThreadPoolExecutor

    from bathyscope.sweep import on_executor

    parts, runs = tmp_path / "parts", tmp_path / "runs"
    work(Labeling(number=1), runs / Labeling(number=1).folder_name())  # an earlier start's
    write_parts = {"number": 0, "scores": []}
    parts.mkdir()
    write_rows(parts / "part-000.jsonl", [write_parts])
    with ThreadPoolExecutor(1) as pool:
        held = label_all([0, 1, 2, 60], parts=parts, runs=runs, backend=on_executor(pool))
    assert held == 4
    assert cheap == [1, 2, 60]
    assert [row["number"] for row in read_rows(parts)] == [0, 1, 2, 60]
    assert sorted(p.name for p in parts.iterdir()) == ["part-000.jsonl", "part-001.jsonl"]


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "part-000.jsonl").write_text('{"number":1}\n{"num\n')
    with pytest.raises(UsageError, match=r"Line 2 of .*part-000\.jsonl is not a row"):
        list(read_rows(tmp_path))


@pytest.mark.slow
def test_a_label_on_a_process_pool(tmp_path):
    number = min(range(40), key=lambda n: (draw(n).family != "mlp", draw(n).blocks))
    backend = backend_of("local", workers=1)
    assert label_all([number], parts=tmp_path / "p", runs=tmp_path / "r", backend=backend) == 1
    row = next(read_rows(tmp_path / "p"))
    again = label(number)
    assert row["scores"] == again["scores"]


def test_features_of_a_number_are_the_same_again():
    number = min(range(40), key=lambda n: (draw(n).family != "mlp", draw(n).blocks))
    assert observe(number) == observe(number)
