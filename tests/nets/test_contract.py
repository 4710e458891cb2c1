"""What every network of the catalog promises, under every initializer and at every size."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from bathyscope import inits, nets
from bathyscope.core import blocks_of
from bathyscope.core.protocol import DeclaresBlocks

SIZES = (8, 28, 32)
# the shallowest of each family, and narrow where the family is wide
SHALLOW = {
    "plain-8": {},
    "resnet-8": {},
    "resnext-11": {},
    "highway-8": {"gates": "independent"},
    "diracnet-8": {},
    "densenet-10": {},
    "imagenet-plain-50": {"width": 4},
    "imagenet-resnet-18": {"width": 4},
    "imagenet-resnext-50": {"width": 4, "cardinality": 2},
    "linear-plain-4": {},
    "linear-residual-4": {},
    "linear-aggregated-4": {},
    "prebasic-8": {},
    "wrn-10-1": {},
    "preresnet-11": {},
    "preplain-11": {},
    "procresnet-13": {},
    "nshortcut-2-3": {"mid": "relu"},
    "convshortcut-11-3": {},
    "vit-1": {"width": 8, "heads": 2},
}
ON_TOKENS = {"gpt", "bert"}  # tests/nets/test_transformers.py
FULL = [(name, scheme, size) for name in SHALLOW for scheme in inits.SCHEMES for size in SIZES]
# every network with every scheme at 8×8, and every network at every size
REDUCED = [c for c in FULL if c[2] == 8] + [c for c in FULL if c[2] != 8 and c[1] == "he"]


def test_every_family_is_here():
    covered = {nets.family_of(name).pattern for name in SHALLOW}
    of_this_file = {
        f.pattern
        for key, f in nets.families().items()
        if "nest" not in key and key not in ON_TOKENS
    }
    assert covered == of_this_file


@pytest.mark.parametrize(("name", "scheme", "size"), REDUCED)
def test_builds_and_takes_a_step(name, scheme, size):
    _takes_a_step(name, scheme, size)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scheme", "size"), [c for c in FULL if c not in REDUCED])
def test_builds_and_takes_a_step_full(name, scheme, size):
    _takes_a_step(name, scheme, size)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in nets.names() if n.split("-")[0] not in ON_TOKENS])
def test_every_example_name_takes_a_step(name):
    _takes_a_step(name, None, 8)


@pytest.mark.parametrize("name", SHALLOW)
def test_same_seed_same_result_and_another_seed_another(name):
    first, again, other = (_trained(name, "he", 8, seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", [*SHALLOW, "resnet-8-erased", "preresnet-11-erased"])
def test_blocks_are_declared_and_chain(name):
    network = _build(name, None, 8)
    assert isinstance(network, DeclaresBlocks)
    x = torch.randn(2, 3, 8, 8)
    blocks = blocks_of(network, x)
    assert [b.name for b in blocks] == list(network.block_names())
    assert blocks.how == "declared"
    for before, after in pairwise(blocks):
        assert before.out_shape == after.in_shape
    for block in blocks:
        module = network.get_submodule(block.name)
        assert module.changes_dimension == (block.in_shape != block.out_shape)
        assert block.droppable == hasattr(module, "branch_dropped")


@pytest.mark.parametrize("name", [*SHALLOW, "resnet-8-erased", "preresnet-11-erased"])
def test_hooks_see_tensors_that_stay_as_they_were(name):
    """No module changes in place what another one returned: what a hook keeps stays true."""
    network = _build(name, None, 8)
    kept, copies = [], []

    def keep(module, args, output):
        kept.extend([args[0], output])
        copies.extend([args[0].clone(), output.clone()])

    for module in network.modules():
        module.register_forward_hook(keep)
    network(torch.randn(2, 3, 8, 8))
    assert all(torch.equal(a, b) for a, b in zip(kept, copies, strict=True))


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", SHALLOW)
def test_follows_the_device_of_its_input(name):
    network = _build(name, None, 8).cuda()
    assert network(torch.randn(2, 3, 8, 8, device="cuda")).is_cuda


def test_a_thousand_layers_take_a_step():
    network = nets.build("preresnet-1001", seed=0)
    assert len(network.block_names()) == 333
    _step(network, 8, batch=2)
    assert all(torch.isfinite(p).all() for p in network.parameters())


def _build(name, scheme, size, *, seed=0):
    options = SHALLOW.get(name.removesuffix("-erased"), {})
    return nets.build_for(name, (3, size, size), num_classes=4, init=scheme, seed=seed, **options)


def _takes_a_step(name, scheme, size):
    network, output = _trained(name, scheme, size)
    assert output.shape == (2, 4)
    assert torch.isfinite(output).all()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
    assert all(torch.isfinite(p).all() for p in network.parameters())


def _trained(name, scheme, size, *, seed=0):
    network = _build(name, scheme, size, seed=seed)
    _step(network, size)
    with torch.no_grad():
        return network, network(torch.ones(2, 3, size, size))


def _step(network, size, *, batch=4):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(batch, 3, size, size, generator=generator)
    y = torch.arange(batch) % 4
    F.cross_entropy(network(x), y).backward()
    # a deep plain network on maps of one pixel has gradients of 1e12 by rounding on some processors
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    torch.optim.SGD(network.parameters(), lr=1e-3).step()
