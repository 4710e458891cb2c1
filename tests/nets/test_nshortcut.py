import pytest
import torch

from bathyscope import nets
from bathyscope.core.errors import UsageError

RELU = torch.relu


def _weights(block):
    return [m.weight for m in block.branch if isinstance(m, torch.nn.Linear)]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_linear_form_is_the_product_of_equation_2(length):
    network = nets.build(f"nshortcut-4-{length}", width=6, seed=0)
    product = torch.eye(6)
    for block in network.blocks:
        path = torch.eye(6)
        for weight in _weights(block):
            path = weight @ path
        product = (path + torch.eye(6)) @ product
    x = torch.randn(5, 6)
    torch.testing.assert_close(network(x), x @ product.T)


def test_activations_stand_where_definition_2_says():
    network = nets.build("nshortcut-1-2", pre="tanh", mid="relu", post="sigmoid", seed=0)
    w1, w2 = _weights(network.blocks[0])
    x = torch.randn(5, 10)
    expected = x + torch.sigmoid(RELU(torch.tanh(x) @ w1.T) @ w2.T)
    torch.testing.assert_close(network(x), expected)


def test_without_shortcuts_the_activations_stay():
    options = {"pre": "tanh", "mid": "relu", "post": "sigmoid", "seed": 0}
    free = nets.build("nshortcut-2-2", shortcut="none", **options)
    with_shortcut = nets.build("nshortcut-2-2", **options)
    x = torch.randn(5, 10)
    assert torch.equal(free.blocks[0](x), with_shortcut.blocks[0].branch(x))


def test_bias_is_that_of_equation_3():
    network = nets.build("nshortcut-3-2", mid="relu", bias=True, seed=0)
    x = expected = torch.randn(5, 10)
    for block in network.blocks:
        first, _, second = block.branch
        first.bias.data.normal_()
        assert second.bias is None
        expected = expected + RELU(expected @ first.weight.T + first.bias) @ second.weight.T
    torch.testing.assert_close(network(x), expected)


def test_general_form_of_equation_1():
    matrix = torch.randn(3, 4)
    network = nets.general_shortcut(
        [[4, 7, 2, 4], [4, 3], [3, 3, 3]], ["identity", matrix, None], mid="relu"
    )
    x = torch.randn(5, 4)
    a, b, c = _weights(network.blocks[0])
    h = x + RELU(RELU(x @ a.T) @ b.T) @ c.T
    h = h @ matrix.T + h @ _weights(network.blocks[1])[0].T
    d, e = _weights(network.blocks[2])
    torch.testing.assert_close(network(x), RELU(h @ d.T) @ e.T)
    assert [block.changes_dimension for block in network.blocks] == [False, True, False]
    assert sum(p.numel() for p in network.parameters()) == 28 + 14 + 8 + 12 + 18


@pytest.mark.parametrize(
    ("units", "shortcuts", "text"),
    [
        ([[2, 3]], ["identity"], "cannot be the identity"),
        ([[2, 3]], [torch.zeros(2, 3)], "3 × 2 matrix"),
        ([[2, 2], [3, 3]], [None, None], "takes 3 inputs"),
        ([[2, 2]], [], "needs a shortcut"),
        ([[2]], [None], "at least two"),
        ([], [], "needs a shortcut"),
    ],
)
def test_general_form_says_what_does_not_fit(units, shortcuts, text):
    with pytest.raises(UsageError, match=text):
        nets.general_shortcut(units, shortcuts)


def test_zero_weights_give_the_identity():
    network = nets.build("nshortcut-6-2", mid="relu")
    for parameter in network.parameters():
        parameter.data.zero_()
    x = torch.randn(3, 10)
    assert torch.equal(network(x), x)
