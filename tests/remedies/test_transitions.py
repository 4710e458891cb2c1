import pytest
from torch import nn

from bathyscope.remedies import transition_layers


class TorchvisionBottleneck(nn.Module):
    """Children in the order and with the names that torchvision gives them."""

    def __init__(self, c, width, *, stride=1, downsample=True):
        super().__init__()
        self.conv1 = nn.Conv2d(c, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1)
        self.conv3 = nn.Conv2d(width, 4 * width, 1)
        if downsample:
            self.downsample = nn.Sequential(
                nn.Conv2d(c, 4 * width, 1, stride=stride), nn.BatchNorm2d(4 * width)
            )


class ShortcutFirst(nn.Module):
    def __init__(self, c, d, stride):
        super().__init__()
        self.residual_connection = nn.Conv2d(c, d, 1, stride=stride)
        self.body = nn.Sequential(
            nn.Conv2d(c, d, 3, stride=stride), nn.ReLU(), nn.Conv2d(d, d, 3, padding=1)
        )


class SqueezeExcite(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.conv1 = nn.Conv2d(c, d, 3, stride=2)
        self.fc1, self.fc2 = nn.Conv2d(d, 4, 1), nn.Conv2d(4, d, 1)
        self.shortcut = nn.Conv2d(c, d, 1, stride=2)


class ResidualLinear(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.lin1, self.lin2, self.skip = nn.Linear(c, d), nn.Linear(d, d), nn.Linear(c, d)


@pytest.mark.parametrize(
    ("block", "wanted"),
    [
        (TorchvisionBottleneck(16, 16), "1.downsample.0"),
        (TorchvisionBottleneck(64, 32, stride=2), "1.downsample.0"),
        (ShortcutFirst(8, 16, 2), "1.residual_connection"),
        (SqueezeExcite(8, 16), "1.shortcut"),
        (ResidualLinear(8, 16), "1.skip"),
    ],
)
def test_a_projection_beside_a_chain_is_found_whatever_its_name_or_order(block, wanted):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), block, nn.Linear(16, 10))
    result = transition_layers(model)
    assert list(result) == [wanted]
    assert result[wanted] is model.get_submodule(wanted)


def test_blocks_with_an_identity_shortcut_have_none_of_their_own():
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3),
        TorchvisionBottleneck(64, 16, downsample=False),
        TorchvisionBottleneck(64, 32, stride=2),
        TorchvisionBottleneck(128, 32, downsample=False),
    )
    assert list(transition_layers(model)) == ["2.downsample.0"]


def test_a_plain_network_gives_its_trunk_without_first_and_last():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 16, 3), nn.Conv2d(16, 16, 3, stride=2),
        nn.Linear(16, 10),
    )  # fmt: skip
    assert list(transition_layers(model)) == ["2", "3"]


def test_a_network_that_declares_its_layers_is_believed():
    class Declares(nn.Sequential):
        def transition_layers(self):
            return {"0": self[0]}

    assert list(transition_layers(Declares(nn.Linear(2, 3), nn.Linear(3, 4)))) == ["0"]


def test_nothing_to_find():
    assert transition_layers(nn.ReLU()) == {}
    assert transition_layers(nn.Linear(2, 3)) == {}
