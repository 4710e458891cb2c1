"""The models of a loop: which modules are trained, how they are called, what is written into them."""

import weakref
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from bathyscope.core.caller import user_line
from bathyscope.core.global_state import is_measuring
from bathyscope.core.hooks import Hooks, on_gradient
from bathyscope.core.loop_record import LoopRecord, ModelUse, ParameterUse
from bathyscope.core.nested import tensors_in
from bathyscope.core.walks import own_class
from bathyscope.measure.dependence.without_pass import is_fresh
from bathyscope.recorder.eval_randomness import EvalRandomness
from bathyscope.recorder.roots import (
    WRAPPERS,
    frozen_statistics,
    inner_of,
    mode_layers,
    roots_of,
    without_prefix,
)
from bathyscope.recorder.sketch import can_be_read, entries

_MOST_SEARCHES, _MOST_MODELS, _FIRST_CALLS = 8, 32, 8
_EVALUATED = 8
"""Passes of a model in eval mode whose inputs are compared with those of the training."""
_FOLLOWED = 64
"""Passes of a model whose backward pass is waited for."""
_JUDGED = 256
"""Entries of a weight from which on its distribution can be judged."""


OnPass = Callable[[nn.Module, tuple[object, ...], dict[str, object]], None]
LoadedEntries = tuple[str, "weakref.ref[Tensor]", list[float]]
"""Name of a parameter, the parameter, and a few of its entries."""


class Observed:
    """A root module, with its record."""

    def __init__(self, module: nn.Module, use: ModelUse) -> None:
        self.ref = weakref.ref(module)
        self.use = use
        self.loading: list[list[float]] | None = None
        self.at_first: list[list[float]] = _sample(module)


class ModelLedger:
    """Keeps the records of models."""

    def __init__(self, record: LoopRecord, hooks: Hooks) -> None:
        self.record = record
        self.on_pass: OnPass = lambda module, args, kwargs: None
        self.on_output: Callable[[object], None] = lambda output: None
        self.on_evaluation: Callable[[tuple[object, ...]], None] = lambda inputs: None
        self._hooks = hooks
        self._parts = Hooks()
        self._models: dict[int, Observed] = {}
        self._names: dict[int, tuple[weakref.ref[Tensor], str]] = {}
        self._known: set[int] = set()
        self._searches = 0
        self._open: list[ModelUse] = []
        self._passes = (0, 0)
        self._is_followed = False  # the pass that is under way
        self._randomness = EvalRandomness()
        self._eval_lines: dict[int, str | None] = {}
        self._loaded: list[tuple[weakref.ref[nn.Module], list[LoadedEntries]]] = []
        self._later: list[weakref.ref[nn.Module]] = []  # loaded after the first step

    def passes(self) -> tuple[int, int]:
        """Passes with gradients of trained models so far, in train mode and in eval mode."""
        return self._passes

    def name_of(self, parameter: Tensor) -> str:
        """The name of a parameter in its model."""
        result = self._names.get(id(parameter))
        if result is not None and result[0]() is parameter:
            return result[1]
        return f"parameter of shape {tuple(parameter.shape)}"

    def discover(self, parameters: Sequence[Tensor], *, again: bool = False) -> None:
        """Look for the modules that hold some parameters, and for those of the same structure."""
        is_known = all(id(p) in self._known for p in parameters)
        if (is_known and not again) or self._searches >= _MOST_SEARCHES:
            return
        self._searches += 1
        self._known.update(id(p) for p in parameters)
        for module, is_trained in roots_of(parameters):
            self.observe(module, is_trained=is_trained)
        self._relate()

    def observe(self, module: nn.Module, *, is_trained: bool = True) -> Observed | None:
        """Stand around the calls of a module from here on."""
        result = self._models.get(id(module))
        if result is not None and result.ref() is module:
            result.use.is_trained |= is_trained
            return result
        if len(self.record.models) >= _MOST_MODELS:
            return None
        kind = own_class(module).__name__
        use = ModelUse(
            index=len(self.record.models),
            kind=kind,
            is_trained=is_trained,
            wrapper=kind if kind in WRAPPERS else None,
            mode_layers=mode_layers(module),
            frozen_statistics=frozen_statistics(module),
        )
        self.record.models.append(use)
        if not is_trained:
            use.is_fresh = _is_fresh(module)
        observed = self._models[id(module)] = Observed(module, use)
        self._attach(module, use)
        if use.wrapper is None and not isinstance(module, torch.jit.ScriptModule):
            self._name(module)
            for child in module.children():  # a loop may call the parts and never the whole
                if any(True for _ in child.parameters()):
                    self._attach(child, use, hooks=self._parts)
        return observed

    def release_parts(self) -> None:
        """Observe the parts of models no longer, if the models themselves are called."""
        trained = [use for use in self.record.models if use.is_trained and use.wrapper is None]
        roots = {id(o.use): m for o in self._models.values() if (m := o.ref()) is not None}
        if trained and all(use.root_calls for use in trained if id(use) in roots):
            self._parts.remove()

    def _attach(self, module: nn.Module, use: ModelUse, *, hooks: Hooks | None = None) -> None:
        reference = weakref.ref(module)

        def before(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            called = reference()
            if called is not None and not torch._C._is_tracing() and not is_measuring():
                self._before_call(called, use, args, kwargs)

        def after(output: object) -> None:
            called = reference()
            if called is not None and not torch._C._is_tracing() and not is_measuring():
                self._after_call(called, use, output)

        (hooks or self._hooks).around_call(module, before=before, after=after)

    def _name(self, module: nn.Module) -> None:
        for name, p in module.named_parameters():
            if id(p) not in self._names:
                self._names[id(p)] = (weakref.ref(p), without_prefix(name))

    def _relate(self) -> None:
        """Which wrapper stands around which model, and which is a copy of which."""
        alive = [(o, m) for o in self._models.values() if (m := o.ref()) is not None]
        uses = {id(m): o.use for o, m in alive}
        shapes = {id(m): [tuple(p.shape) for p in m.parameters()] for _, m in alive}
        for observed, module in alive:
            inner = inner_of(module) if observed.use.wrapper else None
            if inner is not None and id(inner) in uses:
                observed.use.wraps = uses[id(inner)].index
            if observed.use.is_trained or not shapes[id(module)]:
                continue
            for other, trained in alive:
                if other.use.is_trained and shapes[id(trained)] == shapes[id(module)]:
                    observed.use.copy_of = other.use.index

    def _before_call(
        self, module: nn.Module, use: ModelUse, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._open.append(use)
        if len(self._open) > 1:
            return
        use.calls += 1
        result = self._models.get(id(module))
        use.root_calls += result is not None and result.use is use
        if use.called_at is None:
            use.called_at = user_line()
        self._is_followed = False
        if not torch.is_grad_enabled():
            if not module.training:
                use.blind_eval_passes += 1
                self._randomness.before(use)
                if use.is_trained and use.blind_eval_passes <= _EVALUATED:
                    self.on_evaluation((*args, *kwargs.values()))
            elif self.record.steps > 0:
                use.blind_train_passes += 1
            return
        if not use.is_trained:
            return
        if module.training:
            use.train_passes += 1
            self._is_followed = use.followed < _FOLLOWED
            use.followed += self._is_followed
        else:
            use.eval_passes += 1
            if use.eval_at is None:
                use.eval_at = self._eval_lines.get(id(module))
        self._passes = (
            self._passes[0] + module.training,
            self._passes[1] + (not module.training and bool(use.mode_layers)),
        )
        if use.half_precision is None and use.calls <= _FIRST_CALLS:
            use.half_precision = _autocast()
        self.on_pass(module, args, kwargs)

    def _after_call(self, module: nn.Module, use: ModelUse, output: object) -> None:
        if self._open:
            self._open.pop()
        if self._open:
            return
        self._randomness.after(use)
        if torch.is_grad_enabled() and use.is_trained:
            if self._is_followed:
                self._follow(use, output)
            self.on_output(output)

    def _follow(self, use: ModelUse, output: object) -> None:
        """Count the pass if a backward pass comes back to its output."""
        is_counted = False

        def count(gradient: Tensor) -> None:
            nonlocal is_counted
            use.with_backward += not is_counted
            is_counted = True

        for tensor in tensors_in(output):
            on_gradient(tensor, count)

    def set_to_eval(self, module: nn.Module, line: str | None) -> None:
        """`module.eval()` is called."""
        if id(module) in self._models or self.record.steps == 0:
            self._eval_lines[id(module)] = line

    def before_load(self, module: nn.Module, state: object, line: str | None) -> None:
        """A state dict is to be loaded: is it the module's own?"""
        observed = self._models.get(id(module))
        if observed is None or observed.ref() is not module:
            return
        observed.use.loaded_at = line
        observed.loading = _sample(module)
        if isinstance(state, Mapping) and state:
            own = {t.data_ptr() for t in module.state_dict().values() if t.numel()}
            given = [t for t in state.values() if isinstance(t, Tensor) and t.numel()]
            observed.use.self_loads += bool(given) and all(t.data_ptr() in own for t in given)

    def after_load(self, module: nn.Module, state: object, result: object) -> None:
        """A state dict was loaded: did it change anything?"""
        unexpected = getattr(result, "unexpected_keys", ())
        if isinstance(state, Mapping) and 0 < len(state) <= len(unexpected):
            if len(self.record.foreign_loads) < _MOST_MODELS:
                load = (own_class(module).__name__, len(state), user_line())
                self.record.foreign_loads.append(load)
            return
        observed = self._models.get(id(module))
        if self.record.steps > 0 and len(self._later) < _MOST_MODELS:
            self._later.append(weakref.ref(module))
        if observed is None or observed.ref() is not module:
            if self.record.steps == 0 and len(self._loaded) < _MOST_MODELS:
                self._remember_load(module)
            return
        observed.use.loads += 1
        observed.use.loads_without_effect += observed.loading == _sample(module)

    def loaded_later(self, parameters: Sequence[Tensor]) -> bool:
        """Whether a state dict was loaded after the first step into the module of all of these."""
        wanted = {id(p) for p in parameters}
        modules = [m for ref in self._later if (m := ref()) is not None]
        return any(wanted <= {id(p) for p in m.parameters()} for m in modules)

    def trained(self) -> list[nn.Module]:
        """The modules that are trained, without their wrappers."""
        alive = [(o, m) for o in self._models.values() if (m := o.ref()) is not None]
        return [m for o, m in alive if o.use.is_trained and o.use.wrapper is None]

    def _remember_load(self, module: nn.Module) -> None:
        """Keep a few entries of weights that were loaded before the training."""
        loaded: list[LoadedEntries] = [
            (name, weakref.ref(p), entries(p)[:8].tolist())
            for name, p in module.named_parameters()
            if can_be_read(p) and p.numel()
        ]
        self._loaded.append((weakref.ref(module), loaded))

    def read_loaded(self) -> None:
        """At the first step: were weights that had been loaded written again since?"""
        for reference, loaded in self._loaded:
            module = reference()
            if module is None:
                continue
            changed = tuple(
                name
                for name, ref, values in loaded
                if (p := ref()) is not None and entries(p)[:8].tolist() != values
            )
            observed = self._models.get(id(module))
            if observed is not None and changed and len(changed) < len(loaded):
                observed.use.overwritten_after_load = changed
        self._loaded = []

    def look_at_others(
        self, parameters: dict[int, tuple[weakref.ref[Tensor], ParameterUse]]
    ) -> None:
        """Count gradients of parameters that no optimizer holds."""
        self.look()
        for observed in self._models.values():
            module = observed.ref()
            if module is None or not observed.use.is_trained or observed.use.wrapper:
                continue
            for name, p in module.named_parameters():
                result = parameters.get(id(p))
                if result is None or result[0]() is not p:
                    use = ParameterUse(
                        without_prefix(name),
                        p.numel() if can_be_read(p) else 0,
                        str(p.dtype).removeprefix("torch."),
                        trainable=p.requires_grad,
                        was_frozen=not p.requires_grad,
                    )
                    parameters[id(p)] = (weakref.ref(p), use)
                    self.record.parameters.append(use)
                elif result[1].in_optimizer:
                    continue
                else:
                    use = result[1]
                use.looks += 1
                use.trainable = p.requires_grad
                use.unstepped += p.grad is not None
                use.unstepped_since = use.unstepped_since + 1 if p.grad is not None else 0

    def finish(self) -> None:
        """Read what can be read at the end."""
        self._parts.remove()
        self.look()

    def look(self) -> None:
        """Read what may change in models as wholes."""
        for observed in self._models.values():
            module = observed.ref()
            if module is None:
                continue
            if not observed.use.has_moved:
                observed.use.has_moved = observed.at_first != _sample(module)
            if not observed.use.is_trained and observed.use.has_moved:
                observed.use.lags_in = self._lagging_norms(module, observed.use.copy_of)
            inner = inner_of(module)
            if observed.use.wrapper == "DistributedDataParallel" and inner is not None:
                averaged = {id(p) for p in getattr(module, "_module_parameters", [])}
                own = {id(p) for p in inner.parameters() if p.requires_grad}
                observed.use.replaced_parameters = len(own - averaged) if averaged else 0

    def _lagging_norms(self, copy: nn.Module, index: int | None) -> tuple[str, ...]:
        """Batch norms of an average that have counted no batch, though those of its model have."""
        models = (m for o in self._models.values() if o.use.index == index and (m := o.ref()))
        model = next(models, None)
        own = {} if model is None else dict(model.named_buffers())
        result = []
        for name, counted in copy.named_buffers():
            other = own.get(name) if name.endswith("num_batches_tracked") else None
            if other is not None and other.is_cpu and int(counted) == 0 < int(other):
                result.append(name.removesuffix(".num_batches_tracked"))
        return tuple(result[:4])


def _is_fresh(module: nn.Module) -> bool:
    """Whether every linear layer and convolution has the weights that torch draws for it."""
    layers = [m for m in module.modules() if isinstance(m, nn.Linear | nn.modules.conv._ConvNd)]
    large = [m for m in layers if can_be_read(m.weight) and m.weight.numel() >= _JUDGED]
    return bool(large) and all(is_fresh(m) for m in large)


def _autocast() -> str | None:
    """The dtype of autocast, where it is on."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return None


def _sample(module: nn.Module) -> list[list[float]]:
    """A few entries of the first, middle and last parameters."""
    parameters = [p for p in module.parameters() if can_be_read(p) and p.numel()]
    some = parameters[:2] + parameters[len(parameters) // 2 :][:1] + parameters[-2:]
    return [entries(p)[:8].tolist() for p in some]
