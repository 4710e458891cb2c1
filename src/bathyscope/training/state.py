"""Everything a run must remember to continue exactly: taken from a loop, put back into one."""

from dataclasses import asdict

import torch
from torch import Tensor, nn

from bathyscope.core.errors import UsageError
from bathyscope.runs import Checkpoint
from bathyscope.training.divergence import Divergence
from bathyscope.training.loop import Loop, Patience
from bathyscope.training.records import EpochSums

_COUNTERS = ("step", "epoch", "index", "result", "reason")
STATE_KEYS = (
    *_COUNTERS,
    *("sums", "patience", "divergence", "optimizer", "generators", "cuda_generator"),
    *("callbacks", "processes", "threads"),
)
"""What `state_of` gives and `restore_` needs."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model's state, by name."""
    return {k: v for k, v in model.state_dict().items() if isinstance(v, Tensor)}


def state_of(loop: Loop) -> dict[str, object]:
    """All of the state but the weights: counters, sums, optimizer, generators, callbacks.

    Every process of the group must call it, for each has a generator of its own.
    """
    state = {name: getattr(loop, name) for name in _COUNTERS}
    device = loop.train[0].device
    generators = loop.group.gather(torch.get_rng_state())
    return state | {
        "sums": asdict(loop.sums),
        "patience": asdict(loop.patience),
        "divergence": asdict(loop.divergence) if loop.divergence else None,
        "optimizer": loop.optimizer.state_dict(),
        "generators": generators,
        "cuda_generator": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "callbacks": [callback.state_dict() for callback in loop.callbacks],
        "processes": loop.group.size,
        "threads": torch.get_num_threads(),
    }


def restore_(loop: Loop, checkpoint: Checkpoint) -> None:
    """Put a checkpoint into a fresh loop.

    Raises:
        UsageError: the checkpoint is of another architecture, or of another number of processes.
    """
    _load_weights(loop.model, checkpoint.weights)
    state = checkpoint.state
    if state["processes"] != loop.group.size:
        raise UsageError(
            f"The checkpoint was written by {state['processes']} processes and there are "
            f"{loop.group.size} now; resume with as many."
        )
    for name in _COUNTERS:
        setattr(loop, name, state[name])
    loop.sums = EpochSums(**state["sums"])
    loop.patience = Patience(**state["patience"])
    if state["divergence"] is not None:
        loop.divergence = Divergence(**state["divergence"])
    loop.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["generators"][loop.group.rank])
    if state["cuda_generator"] is not None:
        torch.cuda.set_rng_state(state["cuda_generator"], loop.train[0].device)
    for callback, saved in zip(loop.callbacks, state["callbacks"], strict=False):
        callback.load_state_dict(saved)


def _load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    mine = weights_of(model)
    for name in sorted({*mine, *weights}):
        shapes = [tuple(w[name].shape) if name in w else "absent" for w in (weights, mine)]
        if shapes[0] != shapes[1]:
            raise UsageError(
                f"The checkpoint is of another architecture: {name} is {shapes[0]} in the "
                f"checkpoint and {shapes[1]} in the model; restart the run, or give the model back "
                "the form it had."
            )
    model.load_state_dict(weights, strict=False)
