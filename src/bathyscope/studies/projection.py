"""The Procrustes remedy as part of a training run, exact to resume."""

from collections.abc import Callable, Mapping
from typing import Literal

from torch import nn, optim

from bathyscope.remedies import procrustes_, transition_layers
from bathyscope.training import Callback, LoopView

_KEY = "procrustes"  # under which the remedy keeps its state in the optimizer's


class Projection(Callback):
    """Keeps some layers norm-preserving while a run trains.

    Args:
        gain: as in `remedies.procrustes_`.
        every: steps between projections; the paper takes 2.
        layers: of a network, which are kept; the transition layers unless given.
    """

    def __init__(
        self,
        gain: Literal["isotropic", "relu", "measured"],
        *,
        every: int = 2,
        layers: Callable[[nn.Module], Mapping[str, nn.Module]] = transition_layers,
    ) -> None:
        self.gain = gain
        self.every = every
        self.layers = layers
        self._optimizer: optim.Optimizer | None = None
        self._saved: dict[str, object] | None = None

    def on_start(self, loop: LoopView) -> None:
        """Attach the remedy; project at once where the run is new, else take up its state."""
        layers = self.layers(loop.model)
        handle = procrustes_(loop.optimizer, layers, every=self.every, gain=self.gain)
        self._optimizer = loop.optimizer
        if self._saved is None:
            handle.project()
        else:
            state = loop.optimizer.state_dict()
            loop.optimizer.load_state_dict(state | {_KEY: self._saved})

    def state_dict(self) -> dict[str, object]:
        """The remedy's own part of the optimizer's state."""
        return {} if self._optimizer is None else self._optimizer.state_dict()[_KEY]

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Keep it until the run starts again."""
        self._saved = state
