"""Which block a rule names and how grave it calls it, on networks and numbers that strangers brought."""

import pytest
import torch

from bathyscope.core import Severity
from bathyscope.core.records import Block, Measurement
from bathyscope.diagnosis import Thresholds, diagnose
from bathyscope.diagnosis.evidence import Evidence
from bathyscope.diagnosis.rules.gradients import exploding_or_vanishing_gradient
from tests.core.lookalikes import ListOfSequentials

SMALL_IMAGES = torch.randn(32, 1, 8, 8, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(32) % 4


def found(model, batch=(SMALL_IMAGES, LABELS), **options):
    return [(f.code, f.severity, f.blocks) for f in diagnose(model, batch, **options).findings]


@torch.no_grad()
def weights_of_zero(layer):
    layer[0].weight.zero_()


@torch.no_grad()
def never_firing(layer):
    layer[1].bias.fill_(-100.0)


@pytest.mark.parametrize("plant", [weights_of_zero, never_firing])
def test_a_fault_in_a_list_of_sequentials_is_named_where_it_is(plant):
    torch.manual_seed(0)
    model = ListOfSequentials(12, 8)
    plant(model.layers[7])
    codes = {code: blocks for code, _, blocks in found(model)}
    first, *_ = codes
    assert (first, codes[first][0]) == ("dead-units", "layers.7.0")
    assert "batchnorm-masks" in codes


def gradients(norms_in, norms_out):
    """Evidence of these gradient norms alone."""
    blocks = tuple(
        Block(index=i, name=str(i), end=str(i), kind="Linear") for i in range(len(norms_in))
    )
    ratios = tuple(o / i for i, o in zip(norms_in, norms_out, strict=True))
    columns = {"norm_in": tuple(norms_in), "norm_out": tuple(norms_out), "ratio": ratios}
    measured = Measurement(name="gradients", blocks=blocks, columns=columns)
    return Evidence(blocks, {"gradients": measured}, 1e-7)


def test_what_lies_between_two_blocks_belongs_to_the_first():
    # the blocks preserve the norm; between the second and the third it falls by 10⁴
    (told,) = exploding_or_vanishing_gradient(
        gradients([1e4, 1e4, 1.0, 1.0], [1e4, 1e4, 1.0, 1.0]), Thresholds.of()
    )
    assert (told.code, told.blocks) == ("exploding-gradient", ("1",))


@pytest.mark.parametrize(
    ("decades", "severity"), [(3.2, Severity.WARNING), (5.5, Severity.PROBLEM)]
)
def test_a_range_is_grave_when_extreme_however_many_blocks_share_it(decades, severity):
    factor = 10 ** (decades / 100)
    assert factor < 1.2
    norms = [factor ** (100 - i) for i in range(101)]
    (told,) = exploding_or_vanishing_gradient(gradients(norms[:-1], norms[1:]), Thresholds.of())
    assert told.severity is severity
    assert told.blocks
