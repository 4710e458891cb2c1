"""The edge is where the theorem says, on the case in which it was first found."""

import pandas as pd
import pytest

from bathyscope.papers.nests.studies import bottleneck


def point(offset, basis):
    task = bottleneck.WidthPoint(
        data=bottleneck.GENERATED,
        num_train=None,
        offset=offset,
        feature_sizes=(4, 4, 4, 4),
        basis=basis,
        seed=5,
    )
    (row,) = task.rows()
    return row | {"basis": basis, "offset": offset, "seed": 5}


def test_one_dimension_decides_for_learned_features():
    enough, less = point(1, "learned"), point(-1, "learned")
    assert (enough["width"], enough["needed"], enough["rank"]) == (19, 18, 18)
    assert (enough["guaranteed"], less["guaranteed"]) == (True, False)
    assert abs(enough["attainable"]) < 1e-9 < less["attainable"]


@pytest.mark.slow
def test_one_dimension_decides_at_local_minima():
    table = pd.DataFrame([point(offset, "drawn") for offset in (-1, 0, 2)])
    assert len(bottleneck.minima(table)) >= 2
    checks = bottleneck.checks(table, bottleneck.BottleneckPreset())
    assert all(check.passed is not False for check in checks), checks
    assert bottleneck.draw(table, bottleneck.BottleneckPreset()).axes
