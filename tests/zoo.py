"""torchvision, timm and transformers for the tests, where they are installed.

Its builds come with compiled operators for one build of torch. Beside another one, such as a CPU
torch from elsewhere, the import fails for want of these operators, though the networks use none of
them: then they are declared, without a body, and the import is tried again.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

_OPERATORS = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # an operator lives as long as its library does


def torchvision_models() -> ModuleType:
    """`torchvision.models`; the test is skipped where torchvision is not installed."""
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in _OPERATORS:
            if not hasattr(torch.ops.torchvision, name):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
        return importlib.import_module("torchvision.models")


def timm() -> ModuleType:
    """`timm`; the test is skipped where it is not installed. It imports torchvision."""
    if find_spec("timm") is None:
        pytest.skip("timm is not installed")
    torchvision_models()
    return importlib.import_module("timm")


def transformers() -> ModuleType:
    """`transformers`; the test is skipped where it is not installed. It looks for torchvision."""
    if find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    if find_spec("torchvision") is not None:
        torchvision_models()
    return importlib.import_module("transformers")
