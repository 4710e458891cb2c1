"""Many runs at once against each run alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import stack_module_state

from bathyscope.core.errors import UsageError
from bathyscope.curvature import dense_matrix, hessian, stacked_hessians


def test_equals_each_run_alone():
    torch.manual_seed(0)
    runs = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).double() for _ in range(4)]
    batch = (torch.randn(11, 3, dtype=torch.float64), torch.randint(0, 3, (11,)))
    parameters, _ = stack_module_state(runs)
    shell = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).train()
    found = stacked_hessians(shell.double(), parameters, batch, loss=F.cross_entropy)
    for run, matrix in zip(runs, found, strict=True):
        torch.testing.assert_close(matrix, hessian(run, batch).dense(), rtol=1e-9, atol=1e-12)
    assert shell.training


def test_batchnorm_is_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with pytest.raises(UsageError, match="without BatchNorm"):
        stacked_hessians(
            model, {"0.weight": torch.zeros(2, 2, 2)}, (torch.ones(3, 2), None), loss=F.mse_loss
        )


@pytest.mark.parametrize(("free", "fits"), [(4_000, True), (3_500, False)])
def test_dense_matrices_leave_a_tenth_of_the_memory_free(monkeypatch, free, fits):
    """Two matrices of 20 × 20 in float32 are 3,200 bytes."""
    monkeypatch.setattr(dense_matrix, "available_bytes", lambda device: free)
    if fits:
        dense_matrix.check_room_for_matrices(2, 20, torch.zeros(1))
    else:
        with pytest.raises(UsageError, match="2 dense matrices of 20 parameters need"):
            dense_matrix.check_room_for_matrices(2, 20, torch.zeros(1))
