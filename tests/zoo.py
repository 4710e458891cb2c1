"""Packages of others for the tests, where they are installed: torchvision, timm, transformers, lightning.

A test is skipped without them; `make test-zoo` installs them, and there a missing one is an error.
torchvision's builds come with compiled operators for one build of torch. Beside another one, such as a CPU
torch from elsewhere, the import fails for want of these operators, though the networks use none of
them: then they are declared, without a body, and the import is tried again.
"""

import importlib
import os
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

_OPERATORS = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # an operator lives as long as its library does


def installed(*names: str) -> ModuleType:
    """The first of these modules, all of which the test needs; it is skipped where one is missing."""
    for name in names:
        if find_spec(name.split(".")[0]) is None and not os.environ.get("BATHYSCOPE_ZOO"):
            pytest.skip(f"{name} is not installed")
    if "torchvision" not in names and find_spec("torchvision") is not None:
        torchvision_models()  # transformers and lightning import it where it is installed
    first, *_ = (importlib.import_module(name) for name in names)
    return first


def torchvision_models() -> ModuleType:
    """`torchvision.models`; the test is skipped where torchvision is not installed."""
    if find_spec("torchvision") is None:
        installed("torchvision")
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
    torchvision_models()
    return installed("timm")


def transformers() -> ModuleType:
    """`transformers`; the test is skipped where it is not installed."""
    return installed("transformers")
