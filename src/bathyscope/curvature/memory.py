"""How much memory an autograd graph holds."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.autograd.graph import Node


def graph_nodes(roots: Iterable[Tensor]) -> Iterator[Node]:
    """Every node of the autograd graph behind some tensors, once."""
    seen: set[Node] = set()
    waiting = [t.grad_fn for t in roots if t.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(below for below, _ in node.next_functions if below is not None)


def held_bytes(nodes: Iterable[object]) -> int:
    """Bytes of the distinct storages that nodes saved for their backward pass."""
    storages: dict[int, int] = {}
    names: dict[type, list[str]] = {}
    for node in nodes:
        kind = type(node)
        if kind not in names:
            names[kind] = [n for n in dir(node) if n.startswith("_saved") or n == "saved_tensors"]
        for name in names[kind]:
            try:
                saved = getattr(node, name)
            except RuntimeError:  # already freed, or overwritten in place: torch will say so itself
                continue
            for tensor in saved if isinstance(saved, (tuple, list)) else (saved,):
                if isinstance(tensor, Tensor) and tensor.layout is torch.strided:
                    storage = tensor.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())
