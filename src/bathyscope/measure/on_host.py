"""Small batches and outputs of a device on the CPU, where many questions about them cost one transfer."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.fetch import to_host
from bathyscope.core.losses import keeps_no_tensor
from bathyscope.core.nested import map_tensors, tensors_in

_MOST_ENTRIES = 1 << 18
"""Of a tensor that is copied: a megabyte in float32."""


class OnHost:
    """Copies on the CPU of what lies on a device; of what is large, or of half precision, the thing itself.

    Some of torch's functions know half precision on devices alone.
    """

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, value: object) -> object:
        """The same nested tensors, those that can be on the CPU; they come in one transfer."""
        wanted = [t for t in tensors_in(value) if id(t) not in self.copies and _can_be_copied(t)]
        for tensor, copy in zip(wanted, to_host(wanted), strict=True):
            self.copies[id(tensor)] = (
                tensor,
                copy,
            )  # the tensor is held, so that its id stays its own
        if not self.copies or not _is_plain(value):
            return value
        return map_tensors(value, lambda t: self.copies.get(id(t), (t, t))[1])

    def tensor(self, tensor: Tensor) -> Tensor:
        """The copy of one tensor."""
        self.of(tensor)
        return self.copies.get(id(tensor), (tensor, tensor))[1]

    def can_be_tried(self, loss: LossFn, output: object, targets: object) -> bool:
        """Whether the loss gives on the CPU what it gives on the device: all it reads can be copied."""
        if not (keeps_no_tensor(loss) and _is_plain(output) and _is_plain(targets)):
            return False
        read = [*tensors_in(output), *tensors_in(targets)]
        return bool(read) and all(_can_be_copied(t) for t in read)


def batch_on_host(on_host: OnHost, batch: Batch) -> Batch:
    """Inputs and targets, as `OnHost.of` gives them."""
    inputs, targets = batch
    on_host.of((inputs, targets))  # in one transfer
    return on_host.of(inputs), on_host.of(targets)


def _can_be_copied(tensor: Tensor) -> bool:
    is_half = tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64)
    is_plain = tensor.layout is torch.strided and not hasattr(tensor, "to_local")
    is_far = tensor.device.type not in ("cpu", "meta")
    return is_far and is_plain and not is_half and tensor.numel() <= _MOST_ENTRIES


def _is_plain(value: object) -> bool:
    """Whether a copy of the containers is as good as they are: classes of a model's own may do more."""
    if isinstance(value, Mapping):
        return type(value) is dict and all(_is_plain(item) for item in value.values())
    if isinstance(value, (tuple, list)):
        return type(value) in (tuple, list) and all(_is_plain(item) for item in value)
    return value is None or isinstance(value, Tensor)
