import torch

from bathyscope.nets.gates import Gates
from bathyscope.nets.shortcut import Place


def _tensors():
    return torch.randn(2, 3, 4, 4), torch.randn(2, 5, 2, 2), torch.randn(2, 5, 2, 2)


def test_coupled_gates_carry_what_is_not_transformed():
    gates = Gates(Place(3, 5, 2), coupled=True, bias=-1.0)
    h, branch, shortcut = _tensors()
    opening = torch.sigmoid(gates.transform.weights(h) - 1.0)
    expected = opening * branch + (1 - opening) * shortcut
    torch.testing.assert_close(gates(h, branch, shortcut), expected)
    torch.testing.assert_close(gates.without_branch(h, shortcut), (1 - opening) * shortcut)


def test_independent_gates_have_weights_of_their_own():
    gates = Gates(Place(3, 5, 2), coupled=False, bias=-1.0)
    h, branch, shortcut = _tensors()
    transform = torch.sigmoid(gates.transform.weights(h) - 1.0)
    carry = torch.sigmoid(gates.carry.weights(h) + 1.0)
    expected = transform * branch + carry * shortcut
    torch.testing.assert_close(gates(h, branch, shortcut), expected)
    torch.testing.assert_close(gates.without_branch(h, shortcut), carry * shortcut)
    assert not torch.allclose(transform + carry, torch.ones(()))
