"""How much memory there is, and how it is said."""

from pathlib import Path

import pytest
import torch

from bathyscope.core.devices import available_bytes, readable_size


@pytest.mark.parametrize(
    ("num_bytes", "said"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1_500_000, "1.5 MB"), (2 * 10**12, "2 TB")],
)
def test_a_size_has_three_digits_and_a_unit(num_bytes, said):
    assert readable_size(num_bytes) == said


def test_what_linux_says_is_available_is_told_in_bytes():
    result = Path("/proc/meminfo")
    if not result.exists():
        pytest.skip("no /proc/meminfo")
    lines = dict(line.split(":", 1) for line in result.read_text().splitlines())
    whole = int(lines["MemTotal"].split()[0]) * 1024
    assert whole / 1000 < available_bytes(torch.device("cpu")) <= whole
