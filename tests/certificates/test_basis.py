from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

from bathyscope.certificates.basis import nested_basis
from bathyscope.certificates.losses import Squared
from bathyscope.certificates.predictor import best_predictor


def features(seed=0, n=60):
    g = torch.Generator().manual_seed(seed)
    first = torch.randn(n, 5, generator=g, dtype=torch.float64)
    first[:, 3] = 2.0**24 * first[:, 0] + 2.0**24  # collinear, huge, far from zero
    first[:, 4] = 7.0  # constant
    second = torch.randn(n, 4, generator=g, dtype=torch.float64)
    second[:, 0] = first[:, 1] - 3 * second[:, 2]
    second[:, 1] = 2 * first[:, 2] - 1  # linear in the first feature
    return first, second


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_columns_are_orthonormal_and_span_the_features(weighted, intercept):
    first, second = features()
    first[:, 3] = first[:, 0] * 2
    weights = torch.rand(60, dtype=torch.float64) + 0.1 if weighted else None
    basis = nested_basis([first, second], weights=weights, intercept=intercept)
    Q = basis.design()
    torch.testing.assert_close(
        Q.T @ (basis.weights[:, None] * Q), torch.eye(Q.shape[1], dtype=Q.dtype), atol=1e-12, rtol=0
    )
    whole = torch.cat([first, second], dim=1)
    if intercept:
        whole = torch.cat([torch.ones(60, 1, dtype=Q.dtype), whole], dim=1)
    assert Q.shape[1] == np.linalg.matrix_rank(whole.numpy())
    onto = Q @ (Q.T @ (basis.weights[:, None] * whole))
    torch.testing.assert_close(onto, whole)


def test_ranks_count_what_is_new():
    basis = nested_basis(features())
    assert [stage.rank for stage in basis.stages] == [3, 2]
    assert basis.size(0) == 1
    assert basis.size() == 6


def test_coordinates_become_prediction_weights():
    first, second = features()
    basis = nested_basis([first, second])
    C = torch.randn(basis.size(), 2, dtype=torch.float64)
    (H0, H1), constant = basis.prediction_weights(C)
    torch.testing.assert_close(first @ H0 + second @ H1 + constant, basis.design() @ C)


def test_unpredicted_share_is_one_minus_r_squared():
    first, second = features()
    from sklearn.linear_model import LinearRegression

    basis = nested_basis([first[:, :3], second])
    model = LinearRegression().fit(first[:, :3].numpy(), second.numpy())
    left = second.numpy() - model.predict(first[:, :3].numpy())
    fraction = (left**2).sum() / ((second - second.mean(0)).numpy() ** 2).sum()
    assert basis.stages[1].unpredicted == pytest.approx(fraction, rel=1e-10)
    assert nested_basis([first, first[:, :2]]).stages[1].unpredicted < 1e-20


def nearly_linear(*, novelty, intercept=True):
    """The second feature is linear in the first but for a fraction of its size, and the third in both."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    first = 3 * intercept + draw(300, 20)
    second = first @ draw(20, 12) + novelty * draw(300, 12)
    third = torch.cat([first, second], dim=1) @ draw(32, 6) + 1e-6 * draw(300, 6)
    return [first, second, third]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("novelty", [1e-14, 1e-13, 1e-12, 1e-9, 1e-3])
def test_directions_that_are_hardly_new_are_orthogonal_to_the_former_ones(novelty, intercept):
    features = nearly_linear(novelty=novelty, intercept=intercept)
    basis = nested_basis(features, intercept=intercept)
    Q = basis.design()
    gram = Q.T @ (basis.weights[:, None] * Q)
    torch.testing.assert_close(gram, torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-12)
    C = torch.ones(Q.shape[1], 2, dtype=torch.float64)
    weights, constant = basis.prediction_weights(C)
    result = constant + sum(v @ H for v, H in zip(features, weights, strict=True))
    # weights have the size of 1/novelty, and that many digits are lost in the sum
    assert float((result - Q @ C).abs().max()) <= 1e-12 / min(max(novelty, 1e-14), 1e-6)


@pytest.mark.parametrize("novelty", [1e-14, 1e-12, 1e-9])
def test_the_risk_of_a_feature_that_is_hardly_new_does_not_rise(novelty):
    features = nearly_linear(novelty=novelty)
    targets = torch.randn(300, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    basis, loss = nested_basis(features), Squared(targets)
    risks = [best_predictor(basis, loss, num_features=i, num_outputs=3).objective for i in range(4)]
    assert all(later <= earlier + 1e-14 for earlier, later in pairwise(risks))
    Q = basis.design().numpy()  # the same by numpy's least squares
    exact = np.linalg.lstsq(Q, targets.numpy(), rcond=None)[1].sum() / targets.numel()
    assert risks[-1] == pytest.approx(exact, rel=1e-10)
