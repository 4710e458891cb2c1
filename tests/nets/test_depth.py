import pytest

from bathyscope.nets.depth import Arithmetic, OneOf


@pytest.mark.parametrize(
    "rule", [Arithmetic(6, 2), Arithmetic(9, 4), Arithmetic(1), Arithmetic(24, 2)]
)
def test_argument_inverts_the_formula(rule):
    depths = {rule.per * n + rule.plus: n for n in range(1, 12)}
    for depth in range(1, max(depths) + 1):
        assert rule.argument(depth) == depths.get(depth)
        if depth not in depths:
            near = rule.nearest(depth)
            by_distance = sorted(depths, key=lambda d: abs(d - depth))
            assert by_distance[0] in near
            assert set(near) <= set(depths)


def test_listed_depths():
    rule = OneOf((18, 34, 50))
    assert rule.argument(34) == 34
    assert rule.argument(35) is None
    assert rule.nearest(2) == (18,)
    assert rule.nearest(35) == (34, 50)
    assert rule.nearest(400) == (50,)
