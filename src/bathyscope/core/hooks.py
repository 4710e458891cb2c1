"""The hooks that are set on modules, tensors and optimizers: set here alone, and removed together."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

Hook = Callable[..., Any]
"""Of torch's signature for the place at which it is set; what it returns, if not None, replaces."""


class Hooks:
    """Hooks that are removed together; a context manager that removes them on the way out.

    A removal that raises does not keep the others from being removed, a second `remove()` does
    nothing, and hooks that the user has set stay in their order.

    Examples:
        >>> layer, shapes = nn.Linear(3, 2), []
        >>> with Hooks() as hooks:
        ...     hooks.after_forward(layer, lambda module, args, y: shapes.append(tuple(y.shape)))
        ...     _ = layer(torch.zeros(4, 3))
        >>> _ = layer(torch.zeros(5, 3))
        >>> shapes
        [(4, 2)]
    """

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> "Hooks":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __deepcopy__(self, memo: dict[int, object]) -> "Hooks":
        """A group without hooks: those that come along with a copied module are not this one's."""
        return Hooks()

    def __reduce__(self) -> tuple[type["Hooks"], tuple[()]]:
        """As a copy: hooks belong to objects of this process."""
        return Hooks, ()

    def remove(self) -> None:
        """Remove every hook of this group."""
        self._stack.close()
        _AnyStepHook.remove_waiting()

    def before_forward(
        self, module: nn.Module, hook: Hook, *, with_kwargs: bool = False, prepend: bool = False
    ) -> None:
        """Call `hook(module, args)`, or `hook(module, args, kwargs)`, before each forward pass."""
        handle = module.register_forward_pre_hook(hook, with_kwargs=with_kwargs, prepend=prepend)
        self._stack.callback(handle.remove)

    def after_forward(self, module: nn.Module, hook: Hook) -> None:
        """Call `hook(module, args, output)` after each forward pass of a module."""
        self._stack.callback(module.register_forward_hook(hook).remove)

    def around_call(
        self,
        module: nn.Module,
        *,
        before: Callable[[tuple[object, ...], dict[str, object]], None],
        after: Callable[[object], None],
    ) -> "CallObserver":
        """Call `before(args, kwargs)` and `after(output)` around each call of a module.

        `after` is called with None where the call raises.
        """
        observer = CallObserver(module, before=before, after=after)
        observer.attach()
        self._stack.callback(observer.remove)
        return observer

    def before_step(self, optimizer: Optimizer | None, hook: Hook) -> None:
        """Call `hook(optimizer, args, kwargs)` before each step; of every optimizer for None."""
        if optimizer is None:
            any_step = _AnyStepHook(hook)
            handle = register_optimizer_step_pre_hook(any_step)
            self._stack.callback(any_step.remove, handle)
        else:
            self._stack.callback(optimizer.register_step_pre_hook(hook).remove)

    def after_step(self, optimizer: Optimizer | None, hook: Hook) -> None:
        """Call `hook(optimizer, args, kwargs)` after each step; of every optimizer for None."""
        if optimizer is None:
            any_step = _AnyStepHook(hook)
            handle = register_optimizer_step_post_hook(any_step)
            self._stack.callback(any_step.remove, handle)
        else:
            self._stack.callback(optimizer.register_step_post_hook(hook).remove)

    def on_state_dict(self, optimizer: Optimizer, *, saved: Hook, loaded: Hook) -> None:
        """Call `saved` on the state dict that an optimizer gives out, `loaded` on one it is given."""
        self._stack.callback(optimizer.register_state_dict_post_hook(saved).remove)
        self._stack.callback(optimizer.register_load_state_dict_pre_hook(loaded).remove)


class _AnyStepHook:
    """A hook on the steps of every optimizer, which may be removed by what it calls.

    torch iterates over its table of these hooks while it calls them, so that an entry that is removed
    meanwhile ends the user's step with a RuntimeError. Such an entry does nothing from then on, and
    leaves the table with the next removal outside of a step.
    """

    _calls = 0
    _to_remove: ClassVar[list[RemovableHandle]] = []

    def __init__(self, hook: Hook) -> None:
        self._hook: Hook | None = hook

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        if self._hook is None:
            return None
        _AnyStepHook._calls += 1
        try:
            return self._hook(optimizer, args, kwargs)
        finally:
            _AnyStepHook._calls -= 1

    def remove(self, handle: RemovableHandle) -> None:
        """Do nothing from here on, and leave the table of torch's as soon as that can be."""
        self._hook = None
        self._to_remove.append(handle)
        self.remove_waiting()

    @classmethod
    def remove_waiting(cls) -> None:
        """Remove what could not be removed within a step, unless this is one."""
        while cls._to_remove and not cls._calls:
            cls._to_remove.pop().remove()


def on_gradient(tensor: Tensor | Node, hook: Hook) -> None:
    """Call `hook(gradient)` when the gradient of a tensor is there; nothing where it gets none.

    The hook goes with the graph. That of a node is called with the gradients at its inputs and
    its outputs.
    """
    if isinstance(tensor, Tensor) and not tensor.requires_grad:
        return
    tensor.register_hook(hook)


_CALL = "_compiled_call_impl"
"""What `nn.Module.__call__` runs in place of the module's own, once `Module.compile` has set it."""


class CallObserver:
    """Stands around the calls of one module, outside of its hooks and of its compiled code.

    It is not in the module's tables of hooks but where `Module.compile` puts compiled code, which torch
    leaves out of copies and pickles: a model can be copied, saved, scripted and compiled meanwhile.
    Replicas that `nn.DataParallel` makes of a module would call the original: observe the wrapper.

    Attributes:
        inner: the compiled code, or another observer, that runs inside; None where neither does.
        was_traced: whether a call was compiled into the graph of its caller, where it is not observed.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        before: Callable[[tuple[object, ...], dict[str, object]], None],
        after: Callable[[object], None],
    ) -> None:
        self._module = weakref.ref(module)
        self._before = before
        self._after = after
        self.inner: Callable[..., object] | None = None
        self.was_traced = False

    def __call__(self, *args: object, **kwargs: object) -> object:
        """One call of the module."""
        module = self._module()
        assert module is not None, "the module that is called is there"
        call = module._call_impl if self.inner is None else self.inner
        if torch.compiler.is_compiling():
            self.was_traced = True
            return call(*args, **kwargs)
        if torch._C._get_tracing_state() is not None:
            # of torch.jit.trace: what an observer computes, even the name of a variable that holds
            # the output, would be part of the graph
            return call(*args, **kwargs)
        self._before(args, kwargs)
        output: object = None
        try:
            output = call(*args, **kwargs)
        finally:
            self._after(output)
        return output

    def __deepcopy__(self, memo: dict[int, object]) -> None:
        """Nothing: a copy of the module is not observed."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Nothing, as in a copy."""
        return type(None), ()

    @property
    def is_attached(self) -> bool:
        """Whether calls of the module come here; not where `Module.compile` was called since."""
        module = self._module()
        return module is not None and self in _observers_of(module)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled code runs inside, which calls no hooks."""
        inner = self.inner
        while isinstance(inner, CallObserver):
            inner = inner.inner
        return inner is not None

    def attach(self) -> None:
        """Stand around the calls of the module from here on."""
        module = self._module()
        if module is None or vars(module).get(_CALL) is self:
            return
        if not self.is_attached:
            self.inner = vars(module).get(_CALL)
            vars(module)[_CALL] = self
            _let_script()

    def remove(self) -> None:
        """Stand around them no longer; what runs inside, and other observers, stay."""
        module = self._module()
        if module is None or not self.is_attached:
            return
        outer = [o for o in _observers_of(module) if o.inner is self]
        if outer:
            outer[0].inner = self.inner
        elif self.inner is None:
            del vars(module)[_CALL]
        else:
            vars(module)[_CALL] = self.inner


def _observers_of(module: nn.Module) -> list[CallObserver]:
    """The observers around a module's calls, outermost first."""
    result, inner = [], vars(module).get(_CALL)
    while isinstance(inner, CallObserver):
        result.append(inner)
        inner = inner.inner
    return result


def _let_script() -> None:
    """Let `torch.jit.script` take modules that are observed: it refuses what stands under `_CALL`."""
    from torch.jit import _recursive

    script = _recursive.create_script_module
    if getattr(script, "runs_eagerly", False):
        return

    @wraps(script)
    def script_eagerly(nn_module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with run_eagerly(m for m in nn_module.modules() if _observers_of(m)):
            return script(nn_module, *args, **kwargs)  # type: ignore[no-untyped-call]

    script_eagerly.runs_eagerly = True  # type: ignore[attr-defined]
    _recursive.create_script_module = script_eagerly


@contextmanager
def run_eagerly(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Within, modules that `Module.compile` has compiled run their own code, which calls hooks."""
    compiled = [(own, own[_CALL]) for own in map(vars, modules) if own.get(_CALL) is not None]
    for own, _ in compiled:
        del own[_CALL]
    try:
        yield
    finally:
        for own, call in compiled:
            own[_CALL] = call
