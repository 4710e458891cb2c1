"""The first root cause names the right code and the right block, for every fault at several places.

Counted on the networks and seeds of SCORING; the thresholds were fixed on TUNING. The score over all
networks and places is the slow test; `make test` runs two networks at one place.
"""

import pytest
import torch
from torch import nn

from bathyscope.core import blocks_of
from bathyscope.diagnosis import diagnose
from tests.diagnosis.faults import FAULTS
from tests.diagnosis.networks import SCORING, batch

SEED = 1000
PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)


def planted(network, fault, location):
    """The block with the fault and the root causes; None where the network has nothing to plant it in."""
    plant, code = FAULTS[fault]
    torch.manual_seed(SEED + 1)
    model = SCORING[network]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    examples = batch(SEED)
    blocks = blocks_of(model, examples[0])
    block = blocks[int(location * len(blocks))]
    try:
        plant(model, block, optimizer)
    except LookupError:
        return None
    return block.label, code, diagnose(model, examples, optimizer=optimizer).roots


def is_hit(label, code, findings):
    return bool(findings) and findings[0].code == code and findings[0].blocks[0] == label


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("network", ["residual-mlp-30-relu", "resnet-56"])
def test_the_first_root_names_the_fault_and_its_block(network, fault):
    if (outcome := planted(network, fault, 0.5)) is None:
        pytest.skip("this network has nothing to plant the fault in")
    label, code, findings = outcome
    assert is_hit(label, code, findings), [(f.code, f.blocks[:3]) for f in findings]


class MeanBlock(nn.Module):
    """A linear layer with a ReLU; or the mean of its input over the features, repeated."""

    def __init__(self, collapses):
        super().__init__()
        self.collapses, self.layer = collapses, nn.Linear(64, 64)
        nn.init.kaiming_normal_(self.layer.weight)

    def forward(self, x):
        y = self.layer(x).relu()
        return x.mean(1, keepdim=True).expand_as(x).clone() if self.collapses else y


def test_a_collapse_in_block_12_of_40_is_the_root_of_what_follows_in_block_13():
    torch.manual_seed(0)
    model = nn.Sequential(*[MeanBlock(i == 12) for i in range(40)], nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = batch(SEED)
    root, *others = diagnose(model, (x.flatten(1), y), optimizer=optimizer).roots
    assert (root.code, root.blocks[0]) == ("collapsed-representation", "12")
    assert not [f for f in others if f.severity == "problem"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_score_over_all_networks_and_places():
    missed, total = [], 0
    for network in SCORING:
        for fault in FAULTS:
            for location in PLACES:
                if (outcome := planted(network, fault, location)) is None:
                    continue
                total += 1
                if not is_hit(*outcome):
                    label, _, findings = outcome
                    missed.append(
                        (network, fault, label, [(f.code, f.blocks[:2]) for f in findings])
                    )
    print(f"{total - len(missed)} of {total}")
    assert len(missed) <= 0.01 * total, missed
