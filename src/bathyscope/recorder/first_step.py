"""The first training step of a loop, copied: the model, the batch, the loss and the optimizer.

What `diagnose` needs is nowhere in one place of a loop of the user's own. The passes of trained models up to
the first backward pass show it: what they were called with, and how the loss came from what they gave.
"""

import copy
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import in_a_line
from bathyscope.core.global_state import measuring, preserve_random_state
from bathyscope.core.hook_copies import copy_step_hooks
from bathyscope.core.nested import tensors_in
from bathyscope.core.walks import is_sharded
from bathyscope.recorder.called_parts import called_parts
from bathyscope.recorder.loss_inputs import constant_term, misread_input
from bathyscope.recorder.recorded_loss import objective_of
from bathyscope.recorder.tape import NotRecorded, Tape

_MOST_PASSES, _MOST_TRIES = 8, 4


@dataclass(frozen=True, slots=True, eq=False)
class FirstStep:
    """Copies of what the first step of a loop was made of.

    Attributes:
        model: as it was called.
        batch: inputs and targets.
        loss: of output and targets.
        optimizer: of the copy; None where none, or several, hold its parameters.
        optimizer_index: its number in the record of the loop.
        autocast: the dtype of autocast around the pass, if any.
    """

    model: nn.Module
    batch: Batch
    loss: Callable[[Any, Any], Tensor]
    optimizer: torch.optim.Optimizer | None
    optimizer_index: int | None
    autocast: torch.dtype | None


@dataclass(slots=True)
class FirstStepRecorder:
    """Listens to passes and to the backward pass until it has a first step, or has given up.

    Attributes:
        step: what was recorded; None before, and where it could not be.
        why_not: why it could not be, in half a sentence.
        misread: a loss function of torch that was given something else than it takes, and what.
        constant: a term of the loss that follows from the model and has no gradient, with the loss.
        module: the user's own model, of which `step` has a copy; None where it is gone.
    """

    optimizers: Callable[[], Sequence[tuple[int, torch.optim.Optimizer]]]
    step: FirstStep | None = None
    why_not: str | None = None
    misread: tuple[str, str] | None = None
    constant: tuple[float, float] | None = None
    _module: "weakref.ref[nn.Module] | None" = None
    _tape: Tape | None = None
    _thread: int = 0
    _tries: int = 0
    _is_over: bool = False
    _open: tuple[nn.Module, tuple[object, ...], dict[str, object]] | None = None
    _autocast: torch.dtype | None = None
    _copies: dict[int, Tensor] = field(default_factory=dict)
    _scaled: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is listened for."""
        return self._is_over

    @property
    def module(self) -> nn.Module | None:
        """The model itself."""
        return None if self._module is None else self._module()

    def before_pass(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """A trained model, or a part of one, is called with gradients."""
        self._pause()
        if self._is_over or threading.get_ident() != (self._thread or threading.get_ident()):
            return
        self._open = (module, args, kwargs)
        self._copies = {id(t): t.detach().clone() for t in tensors_in((args, kwargs))}
        self._autocast = _autocast(module)

    def after_pass(self, output: object) -> None:
        """It has returned; None where it raised."""
        if self._is_over or self._open is None:
            return
        module, args, kwargs = self._open
        self._open = None
        if output is None:
            return
        if self._tape is None:
            self._tape, self._thread = Tape(), threading.get_ident()
        self._tape.add(module, args, kwargs, output, self._copies)
        if sum(call.is_module for call in self._tape.calls) > _MOST_PASSES:
            self._give_up(f"more than {_MOST_PASSES} passes come before the first backward pass")
            return
        self._tape.start()

    def loss_scaled(self, loss: object, scaled: object) -> None:
        """A scaler has multiplied a loss."""
        if not self._is_over and isinstance(loss, Tensor) and isinstance(scaled, Tensor):
            self._scaled = [(scaled, loss)]

    def compiled(self, what: object) -> None:
        """The loop compiles something; what runs outside of a model would be compiled again for a tape."""
        is_model = isinstance(what, nn.Module) and any(True for _ in what.parameters())
        if self.step is None and not is_model:
            self._give_up("the loop compiles functions with torch.compile")

    def before_backward(self, root: object) -> None:
        """A backward pass begins: if it is from a loss of the passes so far, the step is copied."""
        tape = self._tape
        if self._is_over or tape is None or threading.get_ident() != self._thread:
            return
        self._pause()
        roots = [root] if isinstance(root, Tensor) else list(tensors_in(root))
        loss = next((before for after, before in self._scaled if roots and after is roots[0]), None)
        self._scaled = []
        self._tries += 1
        try:
            with measuring(), preserve_random_state():
                self.step = self._copy(tape, roots if loss is None else [loss])
        except NotRecorded as error:
            tape.calls.clear()
            tape.is_full = False
            self.why_not = str(error)
            if self._tries >= _MOST_TRIES:
                self._give_up(self.why_not)
            return
        self.why_not = None
        self.stop()

    def stop(self) -> None:
        """Listen no more, and let the tape go."""
        self._is_over = True
        self._pause()
        if self._tape is not None:
            self._tape.calls.clear()
        self._open, self._copies, self._scaled = None, {}, []

    def release(self) -> None:
        """Take the tape away where that could not be done at once: inside of a call that it handed on."""
        self._pause()

    def _pause(self) -> None:
        if self._tape is not None and threading.get_ident() == self._thread:
            self._tape.pause()

    def _give_up(self, why: str) -> None:
        self.why_not = why
        self.stop()

    def _copy(self, tape: Tape, roots: Sequence[Tensor]) -> FirstStep:
        if tape.is_full:
            raise NotRecorded("too many functions are called between the pass and the loss")
        if len(roots) != 1 or roots[0].numel() != 1:
            raise NotRecorded("the backward pass starts from several numbers")
        self.misread = misread_input(tape.calls)
        self.constant = constant_term(tape.calls, roots[0])
        called = called_parts(tape.calls, roots[0])
        samples = next((len(t) for t in tensors_in(called.inputs) if t.ndim), 0)
        if not samples:
            raise NotRecorded("no tensor goes into the model")
        objective = objective_of(called.calls, called.output, roots[0], num_samples=samples)
        model = called.model
        inside = [unwrap(m) for m in model.modules()] + [unwrap(model)]
        if is_sharded(unwrap(model)) or any(isinstance(m, torch.jit.ScriptModule) for m in inside):
            raise NotRecorded("the model is in shards, or was compiled by torch.jit")
        index, optimizer = self._optimizer_of(unwrap(model))
        try:
            twin, stepper = _copy_both(unwrap(model), optimizer)
        except Exception as error:  # a user's own module may raise anything
            raise NotRecorded(f"the model cannot be copied ({in_a_line(error)})") from error
        self._module = weakref.ref(unwrap(model))
        return FirstStep(
            twin, (called.inputs, objective.targets), objective.loss, stepper, index, self._autocast
        )

    def _optimizer_of(self, model: nn.Module) -> tuple[int | None, torch.optim.Optimizer | None]:
        held = {id(p) for p in model.parameters()}
        hit = [
            (index, optimizer)
            for index, optimizer in self.optimizers()
            if any(id(p) in held for g in optimizer.param_groups for p in g["params"])
        ]
        return hit[0] if len(hit) == 1 else (None, None)


def _copy_both(
    model: nn.Module, optimizer: torch.optim.Optimizer | None
) -> tuple[nn.Module, torch.optim.Optimizer | None]:
    """Both with their connection. Torch copies no tensor with a graph, nor attributes of an optimizer."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:  # as of torch's older weight norm
                memo[id(value)] = value.detach().clone()
    twin, stepper = copy.deepcopy((model, optimizer), memo)
    if optimizer is not None and stepper is not None:
        copy_step_hooks(optimizer, stepper, memo)
    return twin, stepper


def _autocast(module: nn.Module) -> torch.dtype | None:
    device = next((p.device.type for p in module.parameters()), "cpu")
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
