"""Every remedy and every composition: undone bit for bit, saved and loaded, printed as code that works."""

import ast
import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import remedies
from bathyscope.core import UsageError
from bathyscope.remedies import Recipe
from tests.support.model_state import assert_same, state_of
from tests.unchecked import unchecked


class Mixed(nn.Module):
    """Convolutions with a transition, attention, a norm, an LSTM and a softmax too many."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.one = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.ReLU())
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.lstm = nn.LSTM(6, 6, batch_first=True)
        self.head = nn.Linear(6, 3)
        self.softmax = nn.Softmax(1)

    def forward(self, x):
        x = self.down(self.one(self.stem(x))).flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.softmax(self.head(self.lstm(x)[0].mean(1)))


def mixed(seed=0):
    torch.manual_seed(seed)
    model = Mixed()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


X = torch.randn(5, 1, 6, 6, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1])

REMEDIES = {
    "scale-rate": remedies.ScaleRate(factor=0.3),
    "decay-weights": remedies.DecayWeights(value=0.01),
    "clip-gradient": remedies.ClipGradient(norm=1e-3),
    "warm-up": remedies.WarmUp(steps=4),
    "replace-optimizer": remedies.ReplaceOptimizer(kind="adam", lr=0.01),
    "draw-weights": remedies.DrawWeights(gain=2**0.5, seed=3),
    "orthogonal": remedies.DrawWeights(scheme="orthogonal", layers=("one", "attention")),
    "delta-orthogonal": remedies.DrawWeights(scheme="delta-orthogonal", seed=5),
    "start-recurrence": remedies.StartRecurrence(forget_bias=1.5),
    "scale-weights": remedies.ScaleWeights(factors={"one.0": 0.5, "head": 0.0}),
    "set-weights": remedies.SetWeights(values={"head.bias": [1.0, -2.0, 0.5]}),
    "project-transitions": remedies.ProjectTransitions(layers=("down.0",)),
    "tailor-activations": remedies.TailorActivations(layers=("one.2", "down.1"), slope=0.4),
    "add-shortcuts": remedies.AddShortcuts(
        spans=(("one", "one"), ("down.0", "down.1"), ("lstm", "lstm")), scale=0.7
    ),
    "add-norms": remedies.AddNorms(layers=("one.0", "attention", "lstm", "head")),
    "layer-scale": remedies.LearnFactors(layers=("attention", "lstm"), size=6, start=0.1),
    "rezero": remedies.LearnFactors(layers=("one",), start=0.0),
    "standardize-inputs": remedies.StandardizeInputs(shift=(0.2,), scale=(3.0,)),
    "drop-activation": remedies.DropActivation(layer="softmax"),
    "replace-activation": remedies.ReplaceActivation(layer="softmax", kind="sigmoid"),
    "add-activations": remedies.AddActivations(layers=("stem", "head")),
    "scale-outputs": remedies.ScaleOutputs(shift=(0.5, -1.0, 0.0), scale=(2.0, 1.0, 3.0)),
}


def trained(model, optimizer, steps=3):
    """The output after some steps: it depends on the network and on all settings."""
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()
    with torch.no_grad():
        return model(X)


def settings_of(optimizer):
    groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    hooks = len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks)
    return groups, hooks, copy.deepcopy(optimizer.state_dict()["state"])


def executed(recipe):
    """A fresh model and optimizer after the recipe's code."""
    names = dict(zip(("model", "optimizer"), mixed(), strict=True))
    exec(compile(recipe.code(), "recipe", "exec"), names)
    return names["model"], names["optimizer"]


COMPOSITIONS = {
    **{name: (remedy,) for name, remedy in REMEDIES.items()},
    "S+N+R+A": tuple(
        REMEDIES[name]
        for name in ("add-shortcuts", "add-norms", "draw-weights", "replace-optimizer")
    ),
    "settings": tuple(r for r in REMEDIES.values() if r.level == "settings"),
    "weights": tuple(r for r in REMEDIES.values() if r.level == "weights"),
    "structure": tuple(r for r in REMEDIES.values() if r.level == "structure"),
    "backwards": tuple(reversed(REMEDIES.values())),
    "all": tuple(REMEDIES.values()),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_undone_saved_and_printed_as_code(name, tmp_path):
    recipe = Recipe(steps=COMPOSITIONS[name])
    model, optimizer = mixed()
    output = model.eval()(X)
    model.train()
    before, settings, modules = state_of(model), settings_of(optimizer), list(model.modules())
    recipe.apply_(model, optimizer).undo()
    assert_same(before, state_of(model))
    assert str(settings_of(optimizer)) == str(settings)
    assert modules == list(model.modules())
    assert torch.equal(model.eval()(X), output)

    treated, given = mixed()
    changed = trained(treated, recipe.apply_(treated, given).optimizer)
    fresh, its_own = mixed()
    loaded = Recipe.load(recipe.save(tmp_path / "recipe.json"))
    assert loaded == recipe
    used = remedies.apply_(fresh, tmp_path / "recipe.json", optimizer=its_own)
    torch.testing.assert_close(trained(fresh, used), changed)
    torch.testing.assert_close(trained(*executed(recipe)), changed)
    assert not torch.allclose(changed, trained(*mixed()), atol=1e-7)


def test_a_recipe_without_steps_says_that_nothing_is_changed():
    assert Recipe(steps=()).code() == "# nothing is changed\n"
    assert Recipe(steps=()).code(mixed()[0]) == "# nothing is changed\n"


def test_weights_saved_after_a_recipe_load_into_a_network_with_its_structure():
    recipe = Recipe(steps=COMPOSITIONS["all"])
    model, optimizer = mixed()
    expected = trained(model, recipe.apply_(model, optimizer).optimizer)
    fresh, its_own = mixed(seed=9)
    remedies.apply_(fresh, recipe.beside_the_weights, optimizer=its_own)
    fresh.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fresh(X), expected)


def test_a_step_that_does_not_fit_is_named_and_nothing_is_half_applied():
    model, optimizer = mixed()
    before, settings = state_of(model), settings_of(optimizer)
    steps = (*REMEDIES.values(), remedies.AddNorms(layers=("blocks.7.conv",)))
    with pytest.raises(UsageError, match=r"Step \d+ .*'blocks\.7\.conv'.*Nothing was changed"):
        remedies.apply_(model, Recipe(steps=steps), optimizer=optimizer)
    assert_same(before, state_of(model))
    assert str(settings_of(optimizer)) == str(settings)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (remedies.SetWeights(values={"head.bias": [1.0]}), "no parameter 'head.bias' of shape"),
        (remedies.AddNorms(layers=("softmax",)), "cannot be normalized"),
        (remedies.TailorActivations(layers=("head",), slope=0.5), "no activation"),
        (remedies.DropActivation(layer="head"), "has parameters"),
        (remedies.DrawWeights(layers=("softmax",)), "no weight"),
        (remedies.StandardizeInputs(shift=(1.0, 2.0), scale=(1.0,)), "as many shifts as scales"),
        (remedies.AddShortcuts(spans=(("one", "two"),)), "no module 'two'"),
    ],
)
def test_what_a_step_says_of_a_network_that_it_does_not_fit(step, message):
    model, optimizer = mixed()
    before = state_of(model)
    with pytest.raises(UsageError, match=message):
        remedies.apply_(model, Recipe(steps=(step,)), optimizer=optimizer)
    assert_same(before, state_of(model))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a JSON"),
        ("[1, 2]", "valid dictionary"),
        ('{"steps": [{"name": "heal"}]}', "at steps 0"),
        ('{"steps": [{"name": "scale-rate", "factor": -1}]}', "greater than 0"),
        ('{"steps": [{"name": "scale-rate", "factor": 1, "why": 2}]}', "not permitted"),
        ('{"steps": [{"name": "set-weights", "values": {"w": [[1], [2, 3]]}}]}', "nested lists"),
        ('{"format": "another", "steps": []}', "bathyscope-recipe-1"),
        ("[" * 100_000, "not a JSON"),
    ],
)
@unchecked()
def test_what_is_no_recipe_is_refused_in_a_sentence(text, message, tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        remedies.apply_(nn.Linear(2, 2), path)
    with pytest.raises(UsageError, match="no recipe at"):
        remedies.apply_(nn.Linear(2, 2), tmp_path / "none.json")
    with pytest.raises(UsageError, match="a int was given"):
        remedies.apply_(nn.Linear(2, 2), 3)


def test_frozen_parameters_are_never_drawn():
    model, optimizer = mixed()
    model.one.requires_grad_(False)
    frozen, free = model.one[0].weight.clone(), model.head.weight.clone()
    remedies.apply_(model, Recipe(steps=(remedies.DrawWeights(),)), optimizer=optimizer)
    assert torch.equal(model.one[0].weight, frozen)
    assert not torch.equal(model.head.weight, free)
    model.requires_grad_(False)
    with pytest.raises(UsageError, match="unfreeze"):
        remedies.apply_(model, Recipe())


def test_tables_are_drawn_too_and_the_row_of_padding_stays_zero():
    model = nn.Sequential(nn.Embedding(500, 16, padding_idx=3), nn.Linear(16, 2))
    nn.init.normal_(model[0].weight, std=5.0)
    before = model[0].weight.detach().clone()
    change = remedies.DrawWeights().apply_(model)
    assert float(model[0].weight.std()) == pytest.approx(0.02, rel=0.05)
    assert not model[0].weight[3].any()
    change.undo()
    assert torch.equal(model[0].weight, before)


def test_attention_really_reads_what_was_normalized_in_train_and_in_eval_mode():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = 3 + 5 * torch.randn(2, 4, 8)
    plain = nn.MultiheadAttention.forward
    seen = []

    def spy(self, query, *args, **kwargs):
        seen.append(query)
        return plain(self, query, *args, **kwargs)

    remedies.AddNorms(layers=("self_attn",)).apply_(layer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.MultiheadAttention, "forward", spy)
        train = layer(x)
        with torch.no_grad():
            still = layer.eval()(x)
    assert len(seen) == 2
    for query in seen:
        torch.testing.assert_close(query, F.layer_norm(x, (8,)))
    torch.testing.assert_close(train, still)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, 3, 8, 8), (2, 6, 4, 4)),
        ((2, 6, 4, 4), (2, 4, 4, 4)),
        ((2, 5), (2, 12)),
        ((2, 7, 4), (2, 7, 6)),
        ((2, 4, 8), (2, 6, 4)),
    ],
)
def test_the_shortcut_of_a_transition_pools_and_repeats(before, after):
    from bathyscope.remedies.shortcut import fit_to

    x, like = torch.randn(before), torch.zeros(after)
    got = fit_to(x, like)
    assert got.shape == like.shape
    sequence = len(before) == 3 and before[1] == after[1]
    moved = x.transpose(1, 2) if sequence else x
    expected = torch.zeros_like(like.transpose(1, 2) if sequence else like)
    for channel in range(expected.shape[1]):
        source = moved[:, channel % moved.shape[1]]
        if source.ndim > 1 and source.shape[1:] != expected.shape[2:]:
            factor = source.shape[-1] // expected.shape[-1]
            for _ in range(source.ndim - 1):  # means over neighbors, axis by axis
                source = source.unflatten(1, (-1, factor)).mean(2).movedim(1, -1)
        expected[:, channel] = source
    torch.testing.assert_close(got, expected.transpose(1, 2) if sequence else expected)


EVIL = 'a"])\nimport os\nos.environ["PWNED"] = "1"\n# '


@pytest.mark.parametrize(
    "step",
    [
        {"name": "scale-weights", "factors": {EVIL: 0.5}, "purpose": EVIL},
        {"name": "scale-weights", "factors": {EVIL: 0.5, "b": 0.25}},
        {"name": "set-weights", "values": {EVIL: [1.0]}, "purpose": EVIL},
        {"name": "tailor-activations", "layers": [EVIL], "slope": 0.1},
        {"name": "add-shortcuts", "spans": [[EVIL, EVIL + "b"]]},
        {"name": "drop-activation", "layer": EVIL},
        {"name": "penalize-log-z", "layer": EVIL},
        {"name": "draw-weights", "layers": [EVIL]},
    ],
    ids=lambda step: step["name"],
)
def test_a_recipe_of_anyone_cannot_leave_its_quotes_in_the_code(step):
    text = Recipe.parse({"steps": [step]}).code()
    tree = ast.parse(text)
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    assert "os" not in names
    literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert EVIL in literals, "the name itself stands there, as a text"


def test_a_network_with_lazy_buffers_is_refused():
    net = nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d(affine=False), nn.Linear(4, 2))
    recipe = Recipe(steps=(remedies.DrawWeights(),))
    with pytest.raises(UsageError, match=r"1.running_mean of the model has no values yet"):
        recipe.apply_(net, torch.optim.SGD(net.parameters(), lr=0.1))
