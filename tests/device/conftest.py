"""The pretend device, for the tests of this folder, which have processes of their own (`make test-device`).

torch starts the threads of devices with its first backward pass, so the device must be there before any;
and a process with such threads cannot be forked, which other tests do.
"""

import os

import pytest
import torch

from tests.device.pretend import PretendDevice, can_be_built, load

ALONE = os.environ.get("BATHYSCOPE_DEVICE") == "1"
if ALONE and can_be_built():
    load()


@pytest.fixture
def pretend():
    """The device with its counters; skipped where nothing can compile it."""
    if not ALONE:
        pytest.skip("the pretend device needs a process of its own: make test-device")
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
