"""Grid × build × train × measure in one call."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import measure
from bathyscope.core.errors import UsageError
from bathyscope.sweep import Grid, local, measure_over

GRID = Grid(product={"depth": [1, 3]}, seeds=2)
BATCH = (torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4)


def build(point):
    torch.manual_seed(point["seed"])
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(point["depth"])))


def train(model, point):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    optimizer.step()


def ratios(model, point):
    return measure.gradients(model, BATCH, loss=F.cross_entropy)


def loss(model, point):
    with torch.no_grad():
        return {"loss": float(F.cross_entropy(model(BATCH[0]), BATCH[1]))}


def test_rows_are_points_and_blocks():
    table = measure_over(GRID, build=build, measure=ratios)
    assert len(table) == 2 * (1 + 3)
    own = build({"seed": 1, "depth": 3})
    wanted = ratios(own, {})
    part = table[(table["depth"] == 3) & (table["seed"] == 1)]
    assert part["block"].to_list() == [block.label for block in wanted.blocks]
    assert part["norm_in"].to_list() == pytest.approx(list(wanted["norm_in"]))


def test_training_comes_before_measuring_and_a_mapping_is_one_row():
    start, end = (
        measure_over(GRID, build=build, measure=loss, train=step) for step in (None, train)
    )
    assert list(start.columns) == ["depth", "seed", "loss"]
    assert (end["loss"] < start["loss"]).all()


def test_workers_give_the_same_table():
    here = measure_over(GRID, build=build, measure=loss)
    there = measure_over(GRID, build=build, measure=loss, backend=local(1))
    assert here["loss"].to_list() == pytest.approx(there["loss"].to_list())


def test_something_else_is_refused():
    with pytest.raises(UsageError, match="mapping from names to numbers"):
        measure_over(GRID, build=build, measure=lambda model, point: 3.0)
