"""Hooks: set in one file, removed together, and nothing left behind in copies."""

import ast
import copy
import importlib
import inspect
import io
import pkgutil
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

import bathyscope
from bathyscope import remedies
from bathyscope.core.hooks import Hooks, on_gradient, run_eagerly
from bathyscope.remedies.remedy import Remedy

SOURCE = Path(bathyscope.__file__).parent
HOOK = re.compile(r"register_\w*hook")


def registrations(path):
    """Where a file registers a hook of torch's, as line numbers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if HOOK.fullmatch(name):
                yield node.lineno


def kinds_of(kind):
    """The classes that inherit from one, at any distance."""
    for below in kind.__subclasses__():
        yield below
        yield from kinds_of(below)


def lines_for_users():
    """Lines of functions and classes that a recipe hands out as code of the user's own."""
    for module in pkgutil.iter_modules(remedies.__path__):
        importlib.import_module(f"{remedies.__name__}.{module.name}")
    for remedy in kinds_of(Remedy):
        for helper in remedy.helpers:
            if not isinstance(helper, str):
                helper = inspect.unwrap(helper)  # from the checks of signatures under test
                source, first = inspect.getsourcelines(helper)
                path = Path(inspect.getsourcefile(helper))
                yield from ((path, line) for line in range(first, first + len(source)))


def test_hooks_are_registered_in_one_file():
    given_away = set(lines_for_users())
    files = [p for p in SOURCE.rglob("*.py") if p.relative_to(SOURCE) != Path("core/hooks.py")]
    result = [
        f"{p.relative_to(SOURCE)}:{n}"
        for p in files
        for n in registrations(p)
        if (p, n) not in given_away
    ]
    assert not result, f"use bathyscope.core.hooks at {result}"
    assert len(list(registrations(SOURCE / "core/hooks.py"))) >= 8


def test_removed_after_an_exception_and_others_stay():
    layer, calls = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda *_: calls.append("own"))
    with pytest.raises(ZeroDivisionError), Hooks() as hooks:
        hooks.before_forward(layer, lambda *_: calls.append("before"))
        hooks.after_forward(layer, lambda *_: calls.append("after"))
        layer(torch.zeros(1, 2))
        raise ZeroDivisionError
    assert calls == ["before", "own", "after"]
    hooks.remove()
    layer(torch.zeros(1, 2))
    assert calls[3:] == ["own"]


def test_hooks_of_one_and_of_all_optimizers():
    layer, calls = nn.Linear(1, 1), []
    first, second = (torch.optim.SGD(layer.parameters(), lr=0.0) for _ in range(2))
    with Hooks() as hooks:
        hooks.before_step(None, lambda *_: calls.append("any"))
        hooks.after_step(first, lambda *_: calls.append("first"))
        first.step()
        second.step()
    first.step()
    assert calls == ["any", "first", "any"]


def test_gradient_hook_where_there_is_no_gradient():
    seen = []
    x = torch.ones(2, requires_grad=True)
    on_gradient(x, seen.append)
    on_gradient(x.detach(), seen.append)
    x.sum().backward()
    assert len(seen) == 1


def observed(module, calls, name="x"):
    hooks = Hooks()
    hooks.around_call(
        module,
        before=lambda args, kwargs: calls.append(f"{name} in"),
        after=lambda output: calls.append(f"{name} {'out' if output is not None else 'failed'}"),
    )
    return hooks


def test_call_observers_nest_and_are_removed_in_any_order():
    layer, calls = nn.Linear(2, 2), []
    first, second = observed(layer, calls, "a"), observed(layer, calls, "b")
    layer(torch.zeros(1, 2))
    assert calls == ["b in", "a in", "a out", "b out"]
    first.remove()
    layer(torch.zeros(1, 2))
    assert calls[4:] == ["b in", "b out"]
    second.remove()
    layer(torch.zeros(1, 2))
    assert len(calls) == 6
    assert "_compiled_call_impl" not in vars(layer)


def test_a_call_that_raises_is_reported():
    layer, calls = nn.Linear(2, 2), []
    observed(layer, calls)
    with pytest.raises(RuntimeError):
        layer(torch.zeros(1, 3))
    assert calls == ["x in", "x failed"]


def test_copies_of_an_observed_module_are_not_observed():
    layer, calls = nn.Linear(2, 2), []
    hooks = observed(layer, calls)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for twin in (copy.deepcopy(layer), copy.copy(layer), torch.load(file, weights_only=False)):
        twin(torch.zeros(1, 2))
        assert "_compiled_call_impl" not in vars(twin)
    assert calls == []
    hooks.remove()


class OwnState(nn.Linear):
    """A module whose own way of copying takes everything along."""

    def __getstate__(self):
        return dict(vars(self))


def test_copies_of_a_module_with_a_state_of_its_own():
    layer, calls = OwnState(2, 2), []
    observed(layer, calls)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for twin in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        twin(torch.zeros(1, 2))
    assert calls == []


def test_compiled_in_place_runs_eagerly_inside():
    layer, calls = nn.Linear(2, 2), []
    layer._compiled_call_impl = lambda x: calls.append("compiled")
    with run_eagerly(layer.modules()):
        assert layer(torch.zeros(1, 2)).shape == (1, 2)
    layer(torch.zeros(1, 2))
    assert calls == ["compiled"]


def test_observed_around_compiled_code():
    layer, calls = nn.Linear(2, 2), []
    layer._compiled_call_impl = compiled = lambda x: calls.append("compiled") or x
    hooks = Hooks()
    observer = hooks.around_call(
        layer, before=lambda *_: calls.append("in"), after=lambda _: calls.append("out")
    )
    assert observer.is_compiled
    layer(torch.zeros(1, 2))
    assert calls == ["in", "compiled", "out"]
    hooks.remove()
    assert layer._compiled_call_impl is compiled


def test_a_hook_on_every_step_can_be_removed_by_what_it_calls():
    layer, calls = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    first, second = Hooks(), Hooks()
    for hooks in (first, second):
        hooks.before_step(None, lambda *_: calls.append("before"))
        hooks.after_step(None, lambda *_: (calls.append("after"), first.remove()))
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()  # torch iterates over its table while the first group leaves it
    assert calls == ["before", "before", "after", "after"]
    optimizer.step()
    assert calls[4:] == ["before", "after"]
    second.remove()
    assert not _global_optimizer_pre_hooks
    assert not _global_optimizer_post_hooks
