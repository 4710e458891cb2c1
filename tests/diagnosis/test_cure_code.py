"""`treatment.code()`: cures of the race in a fresh process give the function that `apply_` gives."""

import copy
import statistics
import subprocess
import sys

import pytest
import torch
from torch import nn

from bathyscope.remedies import AddNorms, AddShortcuts, Recipe
from tests.diagnosis.cure_networks import NETWORKS, batch, fresh, recipes_of, thirty

MOST_LINES = 40


def trained_names(optimizer, model):
    """The parameters of each group of an optimizer, by name."""
    known = {id(p): name for name, p in model.named_parameters()}
    return [[known[id(p)] for p in group["params"]] for group in optimizer.param_groups]


def outputs_of(model, x):
    """In train mode and in evaluation: an encoder takes another path there."""
    result = []
    for mode in (True, False):
        torch.manual_seed(0)
        result.append(model.train(mode)(x).detach())
    return result


def executed(name, text, x):
    """The outputs of a fresh network after printed code, and the parameters that are trained."""
    model, optimizer = fresh(name)
    names = {"model": model, "optimizer": optimizer}
    exec(compile(text, "cure", "exec"), names)
    return outputs_of(model, x), trained_names(names["optimizer"], model)


def applied(name, recipe, x):
    model, optimizer = fresh(name)
    used = recipe.apply_(model, optimizer).optimizer
    return outputs_of(model, x), trained_names(used, model)


def assert_same_cure(one, other):
    for a, b in zip(one[0], other[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert one[1] == other[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_surest_cure_as_code_is_the_same_network(name):
    x = batch()[0]
    recipe = max(recipes_of(name), key=lambda r: len(r.steps))
    model, _ = fresh(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    text = recipe.code(model, x)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert_same_cure(executed(name, text, x), applied(name, recipe, x))


IN_A_FRESH_PROCESS = """
import sys, torch
from tests.diagnosis.cure_networks import batch
from tests.diagnosis.test_cure_code import executed
x = batch()[0]
results = []
for number, name in enumerate(sys.argv[2:]):
    with open(f"{sys.argv[1]}/{number}.py", encoding="utf-8") as file:
        results.append(executed(name, file.read(), x))
torch.save(results, f"{sys.argv[1]}/results.pt")
"""


@pytest.mark.slow
def test_thirty_cures_in_a_fresh_process(tmp_path):
    x, cures = batch()[0], thirty()
    assert len(cures) == 30
    expected, lines = [], []
    for number, (name, recipe) in enumerate(cures):
        text = recipe.code(fresh(name)[0], x)
        lines.append(len(text.splitlines()))
        (tmp_path / f"{number}.py").write_text(text, encoding="utf-8")
        expected.append(applied(name, recipe, x))
    names = [name for name, _ in cures]
    command = [sys.executable, "-c", IN_A_FRESH_PROCESS, str(tmp_path), *names]
    subprocess.run(command, check=True)
    for one, other in zip(torch.load(tmp_path / "results.pt"), expected, strict=True):
        assert_same_cure(one, other)
    assert statistics.median(lines) <= MOST_LINES


def test_a_block_of_ones_own_gets_a_changed_forward():
    recipe = Recipe(steps=(AddShortcuts(spans=(("blocks.3", "blocks.3"),), scale=0.113),))
    text = recipe.code(fresh("stack")[0], batch()[0])
    assert "return x + 0.113 * super().forward(x, *args, **kwargs)" in text
    assert "or in Block.forward itself: cure_networks.py, line" in text
    assert "hook" not in text


def test_shortcut_and_norm_of_a_sequential_block_are_one_line():
    block = "2.3"
    steps = (AddShortcuts(spans=((block, block),), scale=0.25), AddNorms(layers=(f"{block}.0",)))
    text = Recipe(steps=steps).code(fresh("nested-mlp")[0], batch()[0])
    assert "return input + 0.25 * super().forward(F.layer_norm(input, input.shape[-1:]))" in text


def test_equal_sequentials_share_one_class():
    spans = tuple((f"{i}.0", f"{i}.1") for i in range(1, 11))  # the sixth halves the size
    text = Recipe(steps=(AddShortcuts(spans=spans, scale=0.5),)).code(
        fresh("convolutions")[0], batch()[0]
    )
    assert text.count("(nn.Sequential):") == 2
    assert "return x + 0.5 * super().forward(x)\nfor name in [" in text
    assert 'return fit_to(kept, x) + 0.5 * x\nmodel.get_submodule("6")' in text


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_order_of_shortcut_and_norm_is_kept(norm_first):
    steps = [AddShortcuts(spans=(("0", "0"),), scale=0.5), AddNorms(layers=("0",))]
    recipe = Recipe(steps=tuple(reversed(steps) if norm_first else steps))
    torch.manual_seed(0)
    model, other = nn.Sequential(nn.Linear(5, 5)), nn.Sequential(nn.Linear(5, 5))
    other.load_state_dict(model.state_dict())
    x = torch.randn(3, 5)
    exec(recipe.code(model, x), {"model": model})
    recipe.apply_(other, torch.optim.SGD(other.parameters(), lr=0.1))
    torch.testing.assert_close(model(x), other(x))


@pytest.mark.parametrize("order", [1, -1])
def test_a_shortcut_around_a_sequential_and_one_inside_of_it_are_both_there(order):
    steps = [AddShortcuts(spans=((a, b),), scale=0.5) for a, b in (("1", "1"), ("1.0", "1.1"))]
    recipe = Recipe(steps=tuple(steps[::order]))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(5, 5), nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
    )
    other, x = copy.deepcopy(model), torch.randn(3, 5)
    exec(recipe.code(model, x), {"model": model})
    recipe.apply_(other, torch.optim.SGD(other.parameters(), lr=0.1))
    torch.testing.assert_close(model(x), other(x))


def test_an_encoder_layer_of_torch_keeps_hooks_for_its_fast_path():
    recipe = Recipe(steps=(AddShortcuts(spans=(("2.layers.0", "2.layers.0"),), scale=0.5),))
    assert "__class__" not in recipe.code(fresh("encoder")[0], batch()[0])
