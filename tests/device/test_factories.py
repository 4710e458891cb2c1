"""No tensor is made on whatever `torch.set_default_device` says: each call names its device."""

import ast
from pathlib import Path

from torch.utils._device import _device_constructors

SOURCE = Path(__file__).resolve().parents[2] / "src" / "bathyscope"
PACKAGES = ["core", "linalg", "measure", "curvature", "remedies", "rules", "recorder", "foresight"]
PACKAGES += ["diagnosis"]
FACTORIES = {f.__name__ for f in _device_constructors()} - {"asarray", "as_tensor"}


def unplaced(source: str) -> list[int]:
    """Lines that call one of torch's factories without a device."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "torch"
        and node.func.attr in FACTORIES
        and not any(k.arg == "device" or k.arg is None for k in node.keywords)
    ]


def test_every_tensor_is_made_on_a_named_device():
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for package in PACKAGES
        for path in (SOURCE / package).rglob("*.py")
        for line in unplaced(path.read_text())
    }
    assert not found
    assert unplaced("x = torch.zeros(3)") == [1]
