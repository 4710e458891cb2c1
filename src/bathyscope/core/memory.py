"""How much memory there is, and how to say it."""

import os
from typing import Any

import torch

LARGE_VECTOR = 2**20
"""Bytes of a vector from which a basis of such lies on the host, not on a device: it takes dozens of them."""


def available_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device, what torch's allocator holds in reserve included."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + reserve
    if device.type == "mps":
        most, taken = torch.mps.recommended_max_memory(), torch.mps.current_allocated_memory()
        return int(most) - int(taken)
    accelerator: Any = torch.accelerator
    if device.type not in ("cpu", "meta") and hasattr(accelerator, "get_memory_info"):
        held = accelerator.memory_reserved(device) - accelerator.memory_allocated(device)
        return int(accelerator.get_memory_info(device)[0]) + int(held)
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            known = dict(line.split(":", 1) for line in lines)
        return int(known["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: count half of what the machine has
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def readable_size(num_bytes: int) -> str:
    """A size with a unit.

    Examples:
        >>> readable_size(3_500_000)
        '3.5 MB'
    """
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
