import math
from itertools import permutations

import pytest
import torch

from bathyscope.measure.inputs_and_labels import permutation_variance, relation_score


def centered(n, seed):
    a = torch.randn(n, n, generator=torch.Generator().manual_seed(seed)).double()
    h = torch.eye(n).double() - 1 / n
    return h @ (a + a.T) @ h


def test_the_variance_is_that_over_all_permutations():
    a, b = centered(6, 0), centered(6, 1)
    values = [float((a * b[list(p)][:, list(p)]).sum()) for p in permutations(range(6))]
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    assert mean == pytest.approx(float(a.trace() * b.trace()) / 5)
    assert permutation_variance(a, b) == pytest.approx(variance)


def test_shuffled_targets_score_near_zero_and_related_ones_far_above():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=g)
    y = (x[:, 0] > 0).long()
    shuffled = [relation_score(x, y[torch.randperm(64, generator=g)]) for _ in range(200)]
    assert relation_score(x, y) > 5
    assert abs(sum(shuffled) / 200) < 0.3
    assert math.sqrt(sum(s**2 for s in shuffled) / 200) == pytest.approx(1, abs=0.25)


def test_no_number_for_few_samples_or_targets_that_do_not_differ():
    assert relation_score(torch.randn(4, 2), torch.arange(4)) is None
    assert relation_score(torch.randn(16, 2), torch.zeros(16).long()) is None
