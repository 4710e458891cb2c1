"""What stands in the modules of a model, put back: modes, attributes, tables of their parts, hooks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import is_
from typing import Any

from torch import Tensor, nn

from bathyscope.core.snapshot import MUTABLE, Restore, snapshot

# Every table of hooks that torch keeps on a module; a name that a torch version lacks is passed over.
HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_OWN_TABLES = frozenset(
    {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", *HOOK_TABLES}
)


class ManyModules:
    """The tables of all modules, end to end.

    Most passes leave nothing behind, and of all modules together that is seen in two comparisons.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        own = [vars(module) for module in modules]
        self.modes = [module.training for module in modules]
        # of each module its attributes, and after those of all of them the tables that they name
        inner = [(m._parameters, m._buffers, m._modules) for m in modules]
        self.tables: list[Any] = [*own, *chain.from_iterable(inner)]
        self.sizes = list(map(len, self.tables))
        self.keys = self._keys_now()
        self.entries = list(chain.from_iterable(table.values() for table in self.tables))
        self.contents = list(chain.from_iterable(map(_contents_of, own)))
        self.hooks = {i: hooks for i, table in enumerate(own) if (hooks := _hooks_of(table))}

    def _keys_now(self) -> list[str]:
        # .keys(): a table of a module of torch.jit cannot be iterated over
        return list(chain.from_iterable([table.keys() for table in self.tables]))

    def _are_as_before(self) -> bool:
        """Whether all tables hold what they held, once train and eval modes are given back."""
        modes = zip(self.modules, self.modes, strict=True)
        restore_each(
            [partial(_rewind_mode, m, t) for m, t in modes if vars(m).get("training") is not t]
        )
        now = chain.from_iterable([table.values() for table in self.tables])
        return (
            list(map(len, self.tables)) == self.sizes
            and self._keys_now() == self.keys
            and all(map(is_, now, self.entries))
        )

    def _states(self) -> list["ModuleState"]:
        """What stood in each module, taken apart again."""
        starts = [0, *accumulate(self.sizes)]
        held = [
            dict(zip(self.keys[start:end], self.entries[start:end], strict=True))
            for start, end in pairwise(starts)
        ]
        own, inner = held[: len(self.modules)], held[len(self.modules) :]
        return [
            ModuleState(
                module,
                training=self.modes[i],
                parameters=inner[3 * i],
                buffers=inner[3 * i + 1],
                modules=inner[3 * i + 2],
                attributes=own[i],
                contents=[],
                hooks=self.hooks.get(i, {}),
            )
            for i, module in enumerate(self.modules)
        ]

    def rewind(self) -> None:
        """Give back everything but the hooks."""
        restore_each([self._rewind_tables, *self.contents])

    def restore(self) -> None:
        """Give back everything."""
        restore_each([self._restore_tables, *self.contents])

    def _rewind_tables(self) -> None:
        if not self._are_as_before():
            restore_each([state.rewind for state in self._states()])

    def _restore_tables(self) -> None:
        if not self._are_as_before():
            restore_each([state.restore for state in self._states()])
            return
        for i, module in enumerate(self.modules):
            _restore_hooks(vars(module), self.hooks.get(i, {}))


@dataclass(frozen=True, slots=True)
class ModuleState:
    """What stands in one module."""

    module: nn.Module
    training: bool
    parameters: dict[str, nn.Parameter | None]
    buffers: dict[str, Tensor | None]
    modules: dict[str, nn.Module | None]
    attributes: dict[str, object]
    contents: list[Restore]  # of attributes that hold something
    hooks: dict[str, object]  # but for empty tables

    @classmethod
    def of(cls, module: nn.Module) -> "ModuleState":
        """As it is."""
        own = vars(module)
        return cls(
            module,
            module.training,
            dict(module._parameters),
            dict(module._buffers),
            dict(module._modules),
            dict(own),
            list(_contents_of(own)),
            _hooks_of(own),
        )

    def rewind(self) -> None:
        """Give back everything but the hooks."""
        module, own = self.module, vars(self.module)
        _rewind_mode(module, self.training)
        if self.parameters or module._parameters:
            refill(module._parameters, self.parameters)
        if self.buffers or module._buffers:
            refill(module._buffers, self.buffers)
        if self.modules or module._modules:
            refill(module._modules, self.modules)
        same = all(map(is_, own.values(), self.attributes.values()))
        if not same or len(own) != len(self.attributes):
            for name in own.keys() - self.attributes.keys():
                del own[name]
            own |= self.attributes
        for restore in self.contents:
            restore()

    def restore(self) -> None:
        """Give back everything."""
        self.rewind()
        _restore_hooks(vars(self.module), self.hooks)


def _rewind_mode(module: nn.Module, training: bool) -> None:
    """Give back train or eval mode."""
    own = vars(module)
    if own.get("training") is not training:
        if "training" in own:
            own["training"] = training  # what `module.training = …` comes to, much sooner
        else:
            module.training = training


def _contents_of(own: dict[str, object]) -> Iterator[Restore]:
    """What gives back the contents of a module's attributes that hold something."""
    seen: set[int] = set()
    for name, value in own.items():
        if type(value) in MUTABLE and name not in _OWN_TABLES:
            restore = snapshot(value, seen)
            if restore is not None:
                yield restore


def _has_hooks(own: dict[str, object]) -> bool:
    """Whether any table of a module holds something; quick, for hardly any does."""
    return any(map(own.get, HOOK_TABLES)) or own.get("_is_full_backward_hook") is not None


def _hooks_of(own: dict[str, object]) -> dict[str, object]:
    """The tables of hooks that hold something."""
    if not _has_hooks(own):
        return {}
    return {n: _copy_of(own[n]) for n in HOOK_TABLES if own.get(n) not in (None, {})}


def _restore_hooks(own: dict[str, object], hooks: dict[str, object]) -> None:
    if not hooks and not _has_hooks(own):
        return
    for name in HOOK_TABLES:
        table, now = hooks.get(name), own.get(name)
        if isinstance(now, dict):
            if now or table:
                refill(now, table)
        elif table is not None or now is not None:
            own[name] = table


def _copy_of(table: object) -> object:
    return dict(table) if isinstance(table, dict) else table


def refill(table: object, contents: object) -> None:
    """Give a dict its former contents, in order, without replacing the dict: others may hold it."""
    if isinstance(table, dict) and (table or contents):
        if isinstance(contents, dict) and _are_the_same(table, contents):
            return
        table.clear()
        table.update(contents if isinstance(contents, dict) else {})


def _are_the_same(first: dict[Any, object], second: dict[Any, object]) -> bool:
    """Whether two dicts hold the same objects under the same keys in the same order."""
    return list(first) == list(second) and all(map(is_, first.values(), second.values()))


def restore_each(states: Sequence[Restore]) -> None:
    """From last to first, and each of them even where another one raises."""
    for number in reversed(range(len(states))):
        try:
            states[number]()
        except BaseException:
            restore_each(states[:number])
            raise
