"""The Krylov basis: orthonormal at any number of steps, exact when it spans everything."""

import numpy as np
import pytest
import torch

from bathyscope.linalg import KrylovBasis


def symmetric(eigenvalues, *, seed=0, dtype=torch.float64):
    """A dense matrix with given eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.as_tensor(eigenvalues, dtype=dtype)
    q = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=dtype)).Q
    return (q * values) @ q.T


def start(dim, num=1, *, seed=1, dtype=torch.float64):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def krylov(operator, starts, **options):
    return KrylovBasis(operator, starts, generator=torch.Generator().manual_seed(5), **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_basis_stays_orthonormal_long_after_eigenvalues_converged(dtype):
    values = np.concatenate([[100.0, 50.0, 20.0], np.linspace(-0.1, 0.1, 197)])
    basis = krylov(symmetric(values, dtype=dtype), start(200, dtype=dtype))
    basis.grow(150)
    q = basis.lift(0, np.eye(150))
    assert (q @ q.T - torch.eye(150, dtype=dtype)).abs().max() < 50 * torch.finfo(dtype).eps


@pytest.mark.parametrize("steps", [5, 20, 60, 119])
def test_no_ghosts_at_any_number_of_steps(steps):
    values = np.concatenate([[10.0, 7.0], np.linspace(-1, 1, 118)])
    basis = krylov(symmetric(values), start(120))
    basis.grow(steps)
    result, _ = basis.ritz(0)
    assert (result > 6).sum() == 2


def test_whole_space_gives_every_eigenvalue_with_its_multiplicity():
    values = np.sort(np.concatenate([np.full(7, 3.0), np.zeros(5), np.linspace(-2, 2, 18)]))
    basis = krylov(symmetric(values), start(30))
    basis.grow(1000)
    assert basis.size == 30
    assert basis.room == 0
    result, vectors = basis.ritz(0)
    np.testing.assert_allclose(result, values, atol=1e-9)
    assert basis.residuals(0, vectors).max() == 0


def test_residuals_are_those_of_the_ritz_vectors():
    a = symmetric(np.linspace(-1, 4, 80))
    basis = krylov(a, start(80))
    basis.grow(12)
    values, vectors = basis.ritz(0)
    u = basis.lift(0, vectors)
    true = (u @ a - torch.as_tensor(values)[:, None] * u).norm(dim=1)
    np.testing.assert_allclose(basis.residuals(0, vectors), true.numpy(), atol=1e-10)


def test_several_starts_are_several_runs():
    a, starts = symmetric(np.linspace(-1, 4, 40)), start(40, 3)
    together = krylov(a, starts)
    together.grow(9)
    for i in range(3):
        alone = krylov(a, starts[i : i + 1])
        alone.grow(9)
        np.testing.assert_allclose(together.ritz(i)[0], alone.ritz(0)[0], atol=1e-10)


def test_locked_vectors_are_never_entered():
    a = symmetric(np.linspace(0, 5, 30))
    values, vectors = torch.linalg.eigh(a)
    basis = krylov(a, start(30), locked=vectors[:, -3:].T.contiguous())
    basis.grow(100)
    np.testing.assert_allclose(basis.ritz(0)[0], values[:-3].numpy(), atol=1e-9)


def test_zero_operator():
    basis = krylov(torch.zeros(6, 6), start(6, dtype=torch.float32))
    basis.grow(10)
    assert basis.size == 6
    assert np.abs(basis.ritz(0)[0]).max() == 0
