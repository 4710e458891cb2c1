"""The pytest plugin, run by pytest itself in a folder of its own."""

import importlib.metadata

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest, torch
from torch import nn

X, Y = torch.randn(32, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3

def network(broken=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    if broken:
        model[0].bias.data.fill_(-100.0)
    return model

def test_healthy(bathyscope):
    assert bathyscope.assert_clean(network(), X, Y).title == "Sequential"

def test_broken(bathyscope):
    bathyscope.assert_clean(network(broken=True), X, Y)

@pytest.mark.bathyscope
def test_marked_healthy(bathyscope):
    bathyscope.diagnose(network(), X, Y)

@pytest.mark.bathyscope(severity="problem")
def test_marked_broken(bathyscope):
    bathyscope.diagnose(network(broken=True), X, Y)

def test_unmarked_broken(bathyscope):
    bathyscope.diagnose(network(broken=True), X, Y)

weights = []

@pytest.mark.parametrize("number", [0, 1])
def test_seeded(bathyscope, number):
    weights.append(nn.Linear(2, 2).weight)
    assert torch.equal(weights[0], weights[-1])

def test_the_generator_is_as_it_was(request):
    before = torch.get_rng_state()
    request.getfixturevalue("bathyscope")
    torch.rand(3)
    STATES.append(before)

STATES = []

def test_after():
    assert torch.equal(torch.get_rng_state(), STATES[0])

def test_a_wrong_severity(bathyscope):
    bathyscope.assert_clean(network(), X, Y, severity="grim")
"""


PLUGIN = "bathyscope.testing.pytest_plugin"
IS_INSTALLED = PLUGIN in {p.value for p in importlib.metadata.entry_points(group="pytest11")}
GIVEN = ("-p", "no:cacheprovider", "--strict-markers", "-rA")


@pytest.fixture
def result(pytester):
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess(
        *GIVEN, "-p", "no:randomly", *(() if IS_INSTALLED else ("-p", PLUGIN))
    )


@pytest.mark.skipif(not IS_INSTALLED, reason="the sources are not installed")
@pytest.mark.parametrize("loads_itself", [True, False])
def test_the_name_loads_it_whether_or_not_it_was_loaded(pytester, monkeypatch, loads_itself):
    if not loads_itself:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_it_is_there(bathyscope):\n    pass\n")
    pytester.runpytest_subprocess(*GIVEN, "-p", "bathyscope").assert_outcomes(passed=1)


def test_fixture_and_mark(result):
    result.assert_outcomes(passed=7, failed=3)
    result.stdout.fnmatch_lines(["dead-units (problem) in Sequential: *"])
    # the first line, which the short summary holds, names what was found
    result.stdout.fnmatch_lines(["FAILED *test_broken - Failed: dead-un*"])
    result.stdout.fnmatch_lines(["FAILED *test_marked_broken - Failed: dead-un*"])
    result.stdout.fnmatch_lines(["*severity is one of *'grim' was given*"])
