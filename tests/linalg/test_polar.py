import pytest
import torch

from bathyscope.linalg.polar import inverse_square_root, newton_schulz, polar_factor

METHODS = ["eigh", "svd", "newton-schulz"]


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_definition(matrix):
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5), (4, 2, 6, 3), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_every_method_is_the_polar_factor(method, shape, dtype):
    matrix = gaussian(*shape, dtype=dtype)
    factor = polar_factor(matrix, method=method)
    assert (factor - by_definition(matrix)).abs().max() < 1e-7


def test_it_is_the_nearest_isometry():
    matrix = gaussian(6, 3)
    factor = polar_factor(matrix)
    distance = torch.linalg.matrix_norm(matrix - factor)
    for seed in range(20):
        other = torch.linalg.qr(factor + 0.1 * gaussian(6, 3, seed=seed + 1)).Q
        signs = torch.sign((other * factor).sum(0))
        assert torch.linalg.matrix_norm(matrix - other * signs) > distance


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_ill_conditioned_in_single_precision(dtype):
    scales = torch.logspace(0, -6, 8)
    matrix = gaussian(16, 8, dtype=dtype) * scales
    factor = polar_factor(matrix)
    eye = torch.eye(8, dtype=dtype)
    assert (factor.mH @ factor - eye).abs().max() < 1e-5


def test_without_full_rank_an_isometry_is_returned_and_zero_stays_zero():
    matrix = torch.zeros(3, 4, 2)
    matrix[0] = gaussian(4, 2).float()
    matrix[1, :, 0] = 1
    factor = polar_factor(matrix)
    gram = factor.mT @ factor
    torch.testing.assert_close(gram[:2], torch.eye(2).expand(2, 2, 2))
    assert not factor[2].any()
    assert not newton_schulz(torch.zeros(3, 2)).any()


def test_newton_schulz_starts_from_any_size():
    # Unnormalized, the iteration diverges for singular values above √3.
    matrix = 1e6 * gaussian(5, 3)
    torch.testing.assert_close(newton_schulz(matrix), by_definition(matrix), atol=1e-8, rtol=0)


def test_coupled_iteration_inverts_the_root():
    matrix = gaussian(4, 9, 3)
    gram = matrix.mT @ matrix
    root = inverse_square_root(gram, steps=40)
    torch.testing.assert_close(root @ gram @ root, torch.eye(3).double().expand(4, 3, 3))


def test_newton_schulz_needs_products_only(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("no decomposition is taken")

    expected = polar_factor(gaussian(6, 4), method="svd")
    for name in ("eigh", "svd"):
        monkeypatch.setattr(torch.linalg, name, refused)
    torch.testing.assert_close(polar_factor(gaussian(6, 4), method="newton-schulz"), expected)
    with pytest.raises(AssertionError):
        polar_factor(gaussian(6, 4), method="eigh")
