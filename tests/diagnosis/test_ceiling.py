from pathlib import Path

import pytest
import torch
from torch import nn

from bathyscope.core import UsageError
from bathyscope.diagnosis import diagnose
from tests.diagnosis.networks import ResidualMLP, batch
from tests.forked import result_in_fork


def peaks_and_samples():
    """Peak resident memory beyond what the model and the batch take, in GiB, with two ceilings."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1)]
    for _ in range(6):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    x, y = torch.randn(96, 3, 64, 64), torch.randint(10, (96,))

    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20

    diagnose(model, (x[:2], y[:2]))
    start, seen = peak(), []
    for memory in (0.25, 8.0):  # the higher one last: a peak stays
        result = diagnose(model, (x, y), memory=memory)
        seen.append((peak() - start, result.setting.batch[0].shape[0]))
    return seen


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_the_ceiling_is_kept():
    (low, few), (high, every) = result_in_fork(peaks_and_samples)
    assert low <= 0.25
    assert 2 <= few < 96
    assert high > 0.25
    assert every == 96


def test_what_is_measured_is_the_first_samples_and_a_note_says_so():
    torch.manual_seed(0)
    model, (x, y) = ResidualMLP(8), batch()
    result = diagnose(model, (x, y), memory=0.0009)
    number = result.setting.batch[0].shape[0]
    assert 2 <= number < 64
    assert f"The first {number} of 64 samples were measured" in result.notes[0]
    alone = diagnose(model, (x[:number], y[:number]))
    assert result.table.equals(alone.table)


def test_by_default_a_small_batch_is_measured_whole():
    result = diagnose(ResidualMLP(4), batch())
    assert result.setting.batch[0].shape[0] == 64
    assert not any("samples were measured" in note for note in result.notes)


@pytest.mark.parametrize(("memory", "said"), [(0.0, "above 0"), (1e-5, "raise the memory")])
def test_a_ceiling_that_cannot_be_kept_is_refused(memory, said):
    with pytest.raises(UsageError, match=said):
        diagnose(ResidualMLP(4), batch(), memory=memory)


def test_a_model_for_one_size_of_batch():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, x):
            return self.two(torch.relu(self.one(x.reshape(64, 64))))

    assert diagnose(Fixed(), batch(), memory=0.0009).setting.batch[0].shape[0] == 64
