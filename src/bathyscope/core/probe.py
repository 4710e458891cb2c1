"""One forward and one backward pass that hands out what goes in and out of every block."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bathyscope.core.batch import Batch, LossFn, check_batch, loss_value, run_forward
from bathyscope.core.blocks import Blocks
from bathyscope.core.calls import unwrap
from bathyscope.core.devices import differentiable_rnns
from bathyscope.core.errors import BathyscopeError, UsageError, in_a_line
from bathyscope.core.global_state import is_measuring, no_autocast
from bathyscope.core.hooks import Hooks, on_gradient
from bathyscope.core.nested import main_tensor, map_tensors
from bathyscope.core.preserve import preserve_model
from bathyscope.core.progress import report_progress
from bathyscope.core.records import Block
from bathyscope.core.walks import named_parameters


class Observer:
    """Receives the tensors of a pass as they appear; it reduces them on the spot and keeps little.

    Here every method does nothing: observers override those of what they measure. A tensor may be
    overwritten after the call by an in-place layer, so an observer that needs its values later copies
    what it needs. A block that is not reached by the pass is never reported.
    """

    def on_input(self, block: Block, x: Tensor) -> None:
        """The block is about to read its input."""

    def on_output(self, block: Block, x: Tensor) -> None:
        """The block has given its output."""

    def on_input_gradient(self, block: Block, gradient: Tensor) -> None:
        """The gradient of the loss with respect to the block's input."""

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        """The gradient of the loss with respect to the block's output."""


class _ProgressObserver(Observer):
    """Reports how many blocks the pass has been through, forwards and then back."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_forward = self.num_back = 0

    def on_output(self, block: Block, x: Tensor) -> None:
        self.num_forward += 1
        report_progress("forward through block", self.num_forward, self.num_blocks)

    def on_output_gradient(self, block: Block, gradient: Tensor) -> None:
        self.num_back += 1
        report_progress("back through block", self.num_back, self.num_blocks)


@dataclass(frozen=True, slots=True)
class Probe:
    """What is left of a pass: the loss and the gradient of every parameter that has one."""

    loss: float
    gradients: Mapping[str, Tensor]


def probe(
    model: nn.Module,
    batch: Batch,
    *,
    loss: LossFn,
    blocks: Blocks,
    observers: tuple[Observer, ...] = (),
    modes: tuple[AbstractContextManager[object], ...] = (),
    at_end: Callable[[object, Tensor], None] | None = None,
) -> Probe:
    """Run the model forward and back once, in the mode it stands in, and leave it as it was.

    Gradients reach every block, also behind frozen layers: floating inputs are differentiated too.

    Args:
        model: any module.
        batch: inputs and targets.
        loss: a scalar from output and targets.
        blocks: where to look, from `blocks_of`.
        observers: what is handed the tensors of every block.
        modes: entered around the forward pass alone: they see each of its functions.
        at_end: called with the output and the loss between the forward and the backward pass.

    Raises:
        UsageError: the batch, the loss or the model does not fit the others.
    """
    model = unwrap(model)
    inputs, targets = check_batch(model, batch)
    inputs, leaves = make_differentiable(inputs)
    named = {n: p for n, p in named_parameters(model).items() if p.requires_grad}
    with (
        preserve_model(model, copy_parameters=False),
        differentiable_rnns(model),
        observe(model, blocks, observers) as hooks,
    ):
        with torch.enable_grad():
            with ExitStack() as stack:
                for mode in modes:
                    stack.enter_context(mode)
                output = run_forward(model, inputs)
            value = loss_value(loss, output, targets)
        hooks.end_of_forward()
        if at_end is not None:
            at_end(output, value)
        gradients = run_backward(value, [*named.values(), *leaves])
    result = zip(named, gradients, strict=False)
    return Probe(float(value.detach()), {n: g for n, g in result if g is not None})


def run_backward(value: Tensor, tensors: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of a scalar, or one sentence on why the backward pass cannot be run.

    Raises:
        UsageError: something in the user's own backward pass raises, or the model is checkpointed in
            the re-entrant way, which only `backward()` can run.
    """
    with _explain_backward_errors():
        return torch.autograd.grad(value, tensors, allow_unused=True, retain_graph=False)


def accumulate_gradients(value: Tensor) -> None:
    """The backward pass of a training step, which leaves gradients where the optimizer looks.

    Raises:
        UsageError: something in the user's own backward pass raises.
    """
    with _explain_backward_errors():
        value.backward()


@contextmanager
def _explain_backward_errors() -> Iterator[None]:
    try:
        yield
    except BathyscopeError:
        raise
    except Exception as error:  # hooks and functions of the user's own may raise anything
        reason, hint = in_a_line(error), ""
        if "checkpoint" in reason.lower():
            hint = " Checkpoint with use_reentrant=False, which torch recommends."
        raise UsageError(
            f"The backward pass of the model cannot be run: {reason}.{hint}"
        ) from error


@contextmanager
def observe(
    model: nn.Module, blocks: Blocks, observers: tuple[Observer, ...]
) -> Iterator["BlockHooks"]:
    """Hand what goes in and out of the blocks to observers, in the passes run inside."""
    hooks = BlockHooks((*observers, _ProgressObserver(len(blocks))))
    try:
        hooks.attach_blocks(model, blocks)
        yield hooks
    finally:
        hooks.remove()


class BlockHooks:
    """The hooks of one pass. A module that runs again in the backward pass (checkpointing) is ignored.

    Those of a training ignore the passes of measurements, which may come in between.
    """

    def __init__(
        self,
        observers: tuple[Observer, ...],
        *,
        in_training: bool = False,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.observers = observers
        self.in_training = in_training
        # around whatever an observer does, so that it need not raise into a user's loop
        self.guard = guard
        self.forward = True
        self.hooks = Hooks()

    def attach_blocks(self, model: nn.Module, blocks: Blocks) -> None:
        """Observe every block of a model, each call of a module that several blocks share."""
        starting: dict[str, dict[int, Block]] = {}
        ending: dict[str, dict[int, Block]] = {}
        for block in blocks:
            starting.setdefault(block.name, {})[block.call] = block
            ending.setdefault(block.end, {})[block.call] = block
        for name in starting | ending:
            self._attach(
                model.get_submodule(name),
                starting=starting.get(name, {}),
                ending=ending.get(name, {}),
            )

    def _attach(
        self, module: nn.Module, *, starting: Mapping[int, Block], ending: Mapping[int, Block]
    ) -> None:
        """Observe a module's input for the blocks it starts, its output for those it ends."""
        calls = {"in": 0, "out": 0}

        def before(module: nn.Module, args: object, kwargs: Mapping[str, object]) -> None:
            if self.in_training and is_measuring():
                return
            block = starting.get(calls["in"]) if self.forward else None
            calls["in"] += 1
            if block is not None:
                with self.guard():
                    x = main_tensor(args) if args else main_tensor(kwargs)
                    self._hand_out(block, x, "on_input", "on_input_gradient")

        def after(module: nn.Module, args: object, output: object) -> None:
            if self.in_training and is_measuring():
                return
            block = ending.get(calls["out"]) if self.forward else None
            calls["out"] += 1
            if block is not None:
                with self.guard():
                    self._hand_out(block, main_tensor(output), "on_output", "on_output_gradient")

        if starting:
            # before other hooks: what they make of the input belongs to the block, as a shortcut of a remedy
            self.hooks.before_forward(module, before, prepend=True, with_kwargs=True)
        if ending:
            self.hooks.after_forward(module, after)

    def _hand_out(self, block: Block, x: Tensor | None, value: str, gradient: str) -> None:
        if x is None:
            return
        with aside():
            seen = x.detach()
            for observer in self.observers:
                getattr(observer, value)(block, seen)
            if x.requires_grad:
                on_gradient(x, self._gradient_hook(block, gradient))

    def _gradient_hook(self, block: Block, method: str) -> Callable[[Tensor], None]:
        called = [getattr(observer, method) for observer in self.observers]

        def hook(gradient: Tensor) -> None:
            with self.guard(), aside():
                seen = gradient.detach()
                for call in called:
                    call(block, seen)

        return hook

    def end_of_forward(self) -> None:
        """From here on calls belong to the backward pass."""
        self.forward = False

    def remove(self) -> None:
        """Take every hook away."""
        self.hooks.remove()


@contextmanager
def aside() -> Iterator[None]:
    """Within, nothing is differentiated or cast, and modes that watch torch's functions see nothing.

    The modes are put off first: they would see gradients being turned off.
    """
    with torch._C.DisableTorchFunction(), torch.no_grad(), no_autocast():
        yield


def make_differentiable(inputs: object) -> tuple[object, list[Tensor]]:
    """The inputs with every floating tensor made to require a gradient, and those leaves.

    A clone of the leaf is passed on: the model may overwrite its input in place, which torch
    forbids for leaves.
    """
    leaves: list[Tensor] = []

    def prepared(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        leaves.append(value.detach().requires_grad_())
        return leaves[-1].clone()

    with torch.enable_grad():
        return map_tensors(inputs, prepared), leaves
