"""The pretend device, for the tests of this folder."""

import pytest
import torch

from tests.device.pretend import PretendDevice, can_be_built, load


@pytest.fixture
def pretend():
    """The device with its counters; skipped where nothing can compile it."""
    if not can_be_built():
        pytest.skip("no C++ compiler: the pretend device cannot be built")
    device: PretendDevice = load()
    # torch moves parameters to a device that it does not know by making new ones, which unties tied weights
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield device
    torch.__future__.set_swap_module_params_on_conversion(before)
    torch.set_default_device(None)
    device.library.pretend_set_device(0)
