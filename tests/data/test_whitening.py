import pytest
import torch

from bathyscope.core.errors import UsageError
from bathyscope.data import load, whiten


def _sample(n=400, d=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, d, dtype=torch.float64, generator=generator)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator)
    return z @ mixing + 5


def test_whitened_data_has_zero_mean_and_identity_covariance():
    x = _sample()
    z = whiten(x, 4)(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(4, dtype=x.dtype), atol=1e-12, rtol=0)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(4, dtype=x.dtype), atol=1e-12, rtol=0)


def test_the_components_are_those_of_a_singular_value_decomposition():
    x = _sample()
    left, singular, _ = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    transform = whiten(x, 3)
    reference = left[:, :3] * len(x) ** 0.5
    overlap = (transform(x) * reference).mean(0)
    torch.testing.assert_close(overlap.abs(), torch.ones(3, dtype=x.dtype))
    torch.testing.assert_close(transform.variances, singular[:3] ** 2 / len(x))


def test_the_sign_does_not_depend_on_the_order_of_the_samples():
    x = _sample()
    torch.testing.assert_close(whiten(x, 3).components, whiten(x.flip(0), 3).components)


def test_the_map_of_the_training_data_is_used_on_test_data():
    train, test = _sample(), _sample(50, seed=1)
    transform = whiten(train, 2)
    together = transform(torch.cat([train, test]))
    torch.testing.assert_close(together[-50:], transform(test))
    assert (transform(test).mean(0).abs() > 1e-6).all()


@pytest.mark.parametrize("constant", [0.0, 1e8])
def test_constant_and_repeated_columns_do_no_harm(constant):
    x = _sample(d=4)
    x = torch.cat([x, torch.full((len(x), 2), constant, dtype=x.dtype), x[:, :1]], 1)
    transform = whiten(x, 4)
    assert transform.numerical_rank == 4
    z = transform(x)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(4, dtype=x.dtype), atol=1e-6, rtol=0)
    with pytest.raises(UsageError, match="between 1 and 4"):
        whiten(x, 5)


def test_more_components_than_samples_and_identical_samples_are_refused():
    with pytest.raises(UsageError, match="between 1 and 2"):
        whiten(_sample(n=3), 3)
    with pytest.raises(UsageError, match="the same"):
        whiten(torch.full((5, 3), 0.1), 1)


def test_samples_of_another_length_are_refused():
    with pytest.raises(UsageError, match="6 numbers"):
        whiten(_sample(), 2)(torch.zeros(3, 5, dtype=torch.float64))


def test_images_are_flattened_and_keep_their_dtype():
    digits = load("digits")
    z = whiten(digits.train_inputs, 10)(digits.train_inputs)
    assert z.shape == (len(digits.train_labels), 10)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(10), atol=1e-5, rtol=0)


def test_the_cutoff_is_the_rounding_of_covariance_and_mean():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 4, dtype=torch.float64, generator=generator) + 1e7
    eps = torch.finfo(torch.float64).eps
    largest = torch.linalg.eigvalsh(torch.cov(x.T, correction=0))[-1].item()
    by_hand = 30 * eps * largest + 4 * (eps * x.mean(0).abs().max().item()) ** 2
    assert whiten(x, 1).tolerance == pytest.approx(by_hand, rel=1e-6)
    centered = x - x.mean(0)
    assert whiten(1e6 * centered, 1).tolerance == pytest.approx(
        1e12 * whiten(centered, 1).tolerance, rel=1e-6
    )


def test_the_rounding_of_a_mean_is_no_direction():
    """0.1 + 0.1 + 0.1 over 3 is not 0.1: of eight such columns the covariance is 8 times its square."""
    x = torch.full((3, 8), 0.1, dtype=torch.float64)
    assert (x.mean(0) != 0.1).all()
    with pytest.raises(UsageError, match="All samples are the same"):
        whiten(x, 1)
