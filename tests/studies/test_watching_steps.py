"""When is measured, and what of a task's records a study reads."""

import math

import pytest
import torch
from torch import nn

from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.papers.shortcut_length.studies.convolutional import LengthTrial
from bathyscope.papers.shortcut_length.studies.networks import KINDS
from bathyscope.papers.shortcut_length.studies.watches import (
    linear_spectrum,
    norms,
    spectrum_row,
    unit_weights,
)
from bathyscope.papers.singularity.studies.watches import histogram
from bathyscope.runs import open_run
from bathyscope.studies.computation import Computation
from bathyscope.studies.examples import optimal_linear_loss, whitened_examples
from bathyscope.studies.store import Store
from bathyscope.studies.trial import TrainingTask
from bathyscope.studies.watcher import Watcher
from tests.unchecked import unchecked


class Loop:
    def __init__(self):
        self.model, self.step, self.epoch, self.records = nn.Linear(2, 2), 0, 0, []

    def log(self, record):
        self.records.append((record["kind"], record["step"]))


PROBE = (torch.zeros(1), torch.zeros(1))


def watch_run(*, num_steps, every=0, at=(), ending="finished", start=0, last=None):
    """Kind and step of what a run logs that is watched by one at any time and one at its end."""
    watches = dict.fromkeys(("norms", "deletion"), lambda model, probe: [{"value": 1.0}])
    seen = Watcher(
        watches, PROBE, every=every, at=frozenset(at), at_end_only=frozenset({"deletion"})
    )
    loop = Loop()
    if last is not None:
        seen.load_state_dict({"last": last})
    loop.step = start
    seen.on_start(loop)
    while loop.step < num_steps:
        loop.step += 1
        seen.on_step(loop, {})
    seen.on_end(loop, ending)
    return loop.records


@unchecked()
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, [0, 5]),
        ({"every": 2}, [0, 2, 4, 5]),
        ({"every": 5}, [0, 5]),  # the last step is not measured twice
        ({"at": (1, 3)}, [0, 1, 3, 5]),
        ({"every": 2, "at": (3,)}, [0, 2, 3, 4, 5]),
        ({"start": 2, "last": 2}, [5]),  # taken up again: its start was measured before
        ({"start": 5, "last": 5}, []),
    ],
)
def test_measured_at_the_start_the_end_and_between(options, steps):
    result = watch_run(num_steps=5, **options)
    assert [step for kind, step in result if kind == "norms"] == steps
    assert [step for kind, step in result if kind == "deletion"] == [5]


@unchecked()
def test_a_run_that_was_stopped_is_not_measured_at_its_end():
    result = watch_run(num_steps=2, ending="stopped by a signal")
    assert result == [("norms", 0)]


def test_norms_are_those_of_matrices_alone():
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 3))
    nn.init.constant_(model[0].weight, 3.0)
    nn.init.constant_(model[1].weight, 1.0)
    nn.init.constant_(model[0].bias, 100.0)
    (row,) = norms(model, PROBE)
    assert row["num_matrices"] == 2
    assert row["mean_norm"] == pytest.approx((math.sqrt(18) + math.sqrt(3)) / 2)


def test_a_histogram_of_nothing_finite_is_empty():
    result = histogram(torch.tensor([math.inf, math.nan]))
    assert result == {"low": 0.0, "high": 0.0, "counts": [0], "non_finite": 2}
    assert len(histogram(torch.arange(100.0))["counts"]) == 60


def test_a_spectrum_in_the_paper_s_numbers():
    values = torch.tensor([-5.0, -1.0, 0.0, *[2.0] * 8], dtype=torch.float64)
    row = spectrum_row(values)
    assert row["largest"] == 5.0
    assert row["percentile"] == 1.0  # the second of eleven sizes: a lower 10th percentile
    assert row["index"] == pytest.approx(2 / 11)


def test_a_spectrum_wants_a_linear_network():
    for model in (nn.Linear(2, 2), nn.Sequential(nn.Conv2d(1, 1, 1))):
        with pytest.raises(UsageError, match="linear n-shortcut network"):
            unit_weights(model)


def test_a_spectrum_of_a_run_that_diverged_is_none():
    model = KINDS["orthogonal"].build(4, width=3)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 3).double()
    assert len(list(linear_spectrum(model, (x, y)))) == 1
    assert list(linear_spectrum(model, (x * math.inf, y))) == []


def test_the_smallest_loss_of_a_linear_map():
    torch.manual_seed(0)
    x, y = torch.randn(30, 2).double(), torch.randn(30, 3).double()
    best = torch.linalg.pinv(x) @ y
    expected = (y - x @ best).square().sum() / 60
    assert optimal_linear_loss(x, y) == pytest.approx(expected.item(), abs=1e-12)


def test_whitened_samples_have_as_many_components_as_classes():
    with pytest.raises(UsageError, match="has 10 classes and 9 components"):
        whitened_examples("digits", 9, None)
    x, y = whitened_examples("digits", 10, 50)
    assert (x.shape, y.shape, x.dtype) == ((50, 10), (50, 10), torch.float64)
    assert y.sum(dim=1).eq(1).all()


class Squares(Computation):
    up_to: int = 3
    fails: bool = False

    def rows(self):
        for n in range(self.up_to):
            if self.fails:
                raise RuntimeError("no squares today")
            yield {"n": n, "square": n * n}

    def seeds_used(self):
        return (4,)


def test_records_of_one_kind_with_fields_of_the_task(tmp_path):
    store, tasks = Store(tmp_path), [Squares(up_to=2), Squares(up_to=3)]
    store.perform(tasks)
    frame = store.frame(tasks, keys=("up_to",))
    assert frame["square"].tolist() == [0, 1, 0, 1, 4]
    assert frame["up_to"].tolist() == [2, 2, 3, 3, 3]
    assert "kind" not in frame
    assert store.frame(tasks, kind="other").empty
    assert tuple(store.manifest(tasks[0]).seeds) == (4,)
    assert store.endings(tasks)["status"].tolist() == ["finished"] * 2


def test_numbers_that_are_non_finite_come_back_as_such(tmp_path):
    store, task = Store(tmp_path), Squares(up_to=1)
    with open_run(store.location(task), task, seeds=()) as run:
        run.end("finished", result={"loss": math.inf, "name": "a"})
    (row,) = store.endings([task], keys=("up_to",)).to_dict("records")
    assert row["loss"] == math.inf
    assert (row["name"], row["up_to"]) == ("a", 1)


def test_a_task_that_fails_is_counted_among_all(tmp_path):
    tasks = [Squares(up_to=1), Squares(fails=True), Squares(fails=True, up_to=9)]
    with pytest.raises(BathyscopeError, match=r"2 of 3 runs failed; the first: .*no squares today"):
        Store(tmp_path).perform(tasks)


def test_threads_are_as_they_were(tmp_path):
    before = torch.get_num_threads()
    seen = []

    class Threads(Squares):
        def rows(self):
            seen.append(torch.get_num_threads())
            return iter(())

    torch.set_num_threads(2)
    try:
        Store(tmp_path).perform([Threads()])
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_what_a_task_does_while_it_trains():
    data = (torch.zeros(9, 2), torch.zeros(9))
    settings = {"model": "resnet-8", "probe_size": 4}
    assert TrainingTask(**settings).callbacks(data) == []
    watched = LengthTrial(
        **settings, depth=8, length=2, watch=("norms",), watch_every=3, watch_at=(7,)
    )
    (seen,) = watched.callbacks(data)
    assert seen.watches == {"norms": norms}
    assert (seen.every, seen.at, len(seen.probe[0]), len(seen.probe[1])) == (3, {7}, 4, 4)
    (kept,) = TrainingTask(**settings, projection="relu").callbacks(data)
    assert (kept.gain, kept.every) == ("relu", 2)
    task = TrainingTask(**settings, lr=0.05, seed=3)
    assert task.prefix() == "resnet-8-digits-lr0.05-seed3"
    assert (task.data_sets(), task.seeds_used()) == (("digits",), (3,))
