"""The matrix is that of the model and the data as they stand, however they were changed."""

import pytest
import torch
from curvature_cases import case, reference
from torch import nn

from bathyscope.core.errors import UsageError
from bathyscope.curvature import hessian
from bathyscope.curvature.fingerprint import checksum


def forward_in_train_mode(model, x, y):
    model.train()(x + 1)


def assigned_statistics(model, x, y):
    model[1].running_mean = model[1].running_mean + 1


def columns_flipped(model, x, y):
    model[7].weight.data.copy_(model[7].weight.data.flip(1))  # the same sum, no version counted


def inputs_in_place(model, x, y):
    x.mul_(1.5)


def inputs_behind_autograd(model, x, y):
    x.numpy()[:] = x.numpy()[::-1].copy()[:, :, ::-1]  # shares its memory: no version is counted


def targets_in_place(model, x, y):
    y.add_(1).remainder_(3)


def frozen(model, x, y):
    model[0].weight.requires_grad_(False)


@pytest.mark.parametrize(
    "change",
    [
        forward_in_train_mode,
        assigned_statistics,
        columns_flipped,
        inputs_in_place,
        inputs_behind_autograd,
        targets_in_place,
        frozen,
    ],
)
def test_the_matrix_follows(change):
    model, (x, y) = case("conv")
    for parameter in model.parameters():
        parameter.data.mul_(64).round_().div_(64)  # sums without rounding, in any order
    H = hessian(model, (x, y), batchnorm="running")
    before = H.dense()
    change(model, x, y)
    after, truth = H.dense(), reference(model, [(x, y)], batchnorm="running")
    torch.testing.assert_close(after, truth, rtol=1e-9, atol=1e-11)
    assert float((after - before).abs().max()) > 1e-6


def test_unfrozen_parameters_come_back():
    model, batch = case("mlp")
    model[0].weight.requires_grad_(False)
    H = hessian(model, batch)
    H.dense()
    model[0].weight.requires_grad_(True)
    torch.testing.assert_close(H.dense(), reference(model, [batch]), rtol=1e-9, atol=1e-11)


def test_nothing_changed_keeps_the_graph():
    model, batch = case("conv")
    H = hessian(model, batch)
    H.dense()
    generation = H.operator.generation
    for _ in range(3):
        H.trace(exact=False, probes=2)
    assert H.operator.generation == generation == 1


def test_a_replaced_parameter_is_an_error():
    model, batch = case("mlp")
    H = hessian(model, batch)
    H.trace(exact=False, probes=2)
    model[0] = nn.Linear(3, 5).double()
    with pytest.raises(UsageError, match=r"0\.weight was taken out"):
        H.trace(exact=False, probes=2)


def test_a_model_that_overwrites_its_input_leaves_the_data_alone():
    model, (x, y) = case("mlp")
    kept = x.clone()
    H = hessian(nn.Sequential(nn.ReLU(inplace=True), model), (x, y))
    matrix = H.dense()
    assert torch.equal(x, kept)
    torch.testing.assert_close(matrix, reference(model, [(x.relu(), y)]), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[1.0, -1.0], [0.0, 2.0]]).to_sparse(),
        torch.tensor([[1.0, -1.0], [0.0, 2.0]], dtype=torch.bfloat16),
        torch.tensor([[1.0, -1.0], [0.0, 2.0]]).T,
        torch.tensor([[1 + 1j, -1.0], [0.0, 2.0]]),
        torch.tensor([[True, False]]),
    ],
    ids=["sparse", "bfloat16", "transposed", "complex", "bool"],
)
def test_checksums_of_any_tensor_tell_positions_apart(tensor):
    swapped = tensor.to_dense().flip(1)
    assert checksum(tensor) == checksum(tensor.clone())
    other = swapped.to_sparse() if tensor.is_sparse else swapped
    assert checksum(tensor) != checksum(other)


def test_checksum_of_scalars_and_of_nothing():
    assert checksum(torch.tensor(3)) != checksum(torch.tensor(4))
    assert checksum(torch.zeros(0, 3)) == checksum(torch.zeros(0))
