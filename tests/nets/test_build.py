import pytest
import torch

from bathyscope import nets
from bathyscope.core.errors import UnknownName, UsageError


@pytest.mark.parametrize("name", nets.names())
def test_names_can_be_built(name):
    assert len(nets.skeleton(name).block_names()) > 0


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [
        ("resnet56", "resnet-56"),
        ("resnt-56", "resnet-56"),
        ("ResNet-56", "resnet-56"),
        ("procresnet164", "procresnet-"),
        ("imagenet_resnet_50", "imagenet-resnet-50"),
        ("resnet", "resnet-20"),
    ],
)
def test_unknown_name_suggests_the_nearest(wrong, suggestion):
    with pytest.raises(UnknownName) as caught:
        nets.build(wrong)
    assert suggestion in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("impossible", "formula", "near"),
    [
        ("resnet-57", "6n + 2", ("resnet-56", "resnet-62")),
        ("resnet-2", "6n + 2", ("resnet-8",)),
        ("preresnet-165", "9n + 2", ("preresnet-164", "preresnet-173")),
        ("procresnet-164", "9n + 4", ("procresnet-157", "procresnet-166")),
        ("wrn-17-8", "6n + 4", ("wrn-16-8", "wrn-22-8")),
        ("convshortcut-40-4", "12k + 2", ("convshortcut-38-4", "convshortcut-50-4")),
        ("imagenet-resnet-51", "18, 34, 50, 101 or 152", ("imagenet-resnet-50",)),
        ("resnet-57-erased", "6n + 2", ("resnet-56-erased", "resnet-62-erased")),
        ("linear-plain-5", "2n", ("linear-plain-4", "linear-plain-6")),
    ],
)
def test_impossible_depth_names_the_formula_and_its_neighbors(impossible, formula, near):
    with pytest.raises(UsageError) as caught:
        nets.build(impossible)
    message = str(caught.value)
    assert formula in message
    for name in near:
        assert name in message
        nets.skeleton(name)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("resnet-20", {"wdth": 3}, ("wdth", "width", "num_classes")),
        ("resnet-20", {"width": 0}, ("width", "at least 1", "0")),
        ("resnet-20", {"num_classes": 2.5}, ("num_classes", "2.5")),
        ("resnet-20", {"num_classes": True}, ("num_classes", "True")),
        ("resnet-20", {"shortcut": "C"}, ("shortcut", "'A' or 'B'")),
        ("preresnet-20", {"shortcut_norm": 1}, ("shortcut_norm", "True or False")),
        ("resnet-20", {"erased": True}, ("erased",)),
        ("wrn-16", {}, ("wrn-D-K",)),
        ("resnet-0", {}, ("at least 1",)),
        ("densenet-22-erased", {}, ("EraseReLU",)),
        ("resnet-20", {"seed": 0, "generator": torch.Generator()}, ("seed", "generator")),
        ("resnet-20", {"init": "hee"}, ("hee", "he")),
    ],
)
def test_bad_options_are_named(name, options, text):
    with pytest.raises(UsageError) as caught:
        nets.build(name, **options)
    for word in text:
        assert word in str(caught.value)


def test_seed_generator_and_global_generator():
    def weights(**options):
        return torch.cat([p.flatten() for p in nets.build("resnet-8", **options).parameters()])

    by_seed = weights(seed=3)
    assert torch.equal(by_seed, weights(generator=torch.Generator().manual_seed(3)))
    torch.manual_seed(3)
    assert torch.equal(by_seed, weights())
    assert not torch.equal(by_seed, weights(seed=4))


def test_building_from_a_seed_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    nets.build("highway-8", seed=1)
    nets.skeleton("highway-8")
    assert torch.equal(before, torch.get_rng_state())


def test_init_is_applied():
    network = nets.build("linear-residual-4", init="dirac")
    assert torch.equal(network.blocks[0].branch[0].weight, torch.eye(16))


@pytest.mark.parametrize("name", ["resnet-8", "linear-plain-4", "nshortcut-2-2"])
def test_build_for_fits_the_samples(name):
    for shape in [(1, 8, 8), (3, 28, 28)]:
        network = nets.build_for(name, shape, num_classes=7)
        assert network(torch.randn(2, *shape)).shape == (2, 7)


def test_build_for_vectors():
    assert nets.build_for("nshortcut-2-2", (12,), num_classes=3)(torch.randn(2, 12)).shape == (2, 3)
    with pytest.raises(UsageError, match="takes images"):
        nets.build_for("resnet-8", (12,), num_classes=3)
    network = nets.build_for("resnet-8", (1, 8, 8), num_classes=3, width=5)
    assert network.blocks[0].branch[0].out_channels == 5


@pytest.mark.parametrize(("width", "classes", "channels"), [(1, 1, 1), (5, 17, 4)])
@pytest.mark.parametrize(
    "name", ["plain-8", "preresnet-11", "procresnet-13", "resnext-11", "wrn-10-2"]
)
def test_any_width_classes_and_channels(name, width, classes, channels):
    network = nets.build(name, width=width, num_classes=classes, in_channels=channels)
    assert network(torch.randn(3, channels, 9, 11)).shape == (3, classes)
