"""Public objects show themselves on one screen, and their figures can be kept."""

import matplotlib
import pytest
import torch
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.core.records import Assumption, ClaimCheck, Finding, RootCause, Severity, Verdict
from bathyscope.core.shown import in_short, screen
from bathyscope.estimators.certificate import FitCertificate
from bathyscope.foresight.record import Forecast
from bathyscope.recorder.event import Event

matplotlib.use("Agg")
LONG = "a <long> sentence that goes into every detail of the matter " * 30

FINDING = Finding(
    code="dead-units",
    severity=Severity.PROBLEM,
    title="Units that give the same value",
    blocks=tuple(f"layer{i}" for i in range(300)),
    evidence={f"number_{i}": i / 7 for i in range(40)},
    why=LONG,
    source="a source",
)
CHECK = ClaimCheck(
    claim="nests.theorem_1",
    verdict=Verdict.HOLDS,
    assumptions=tuple(Assumption(statement=LONG, holds=True, value=i) for i in range(30)),
    numbers={f"n{i}": [float(i)] * 50 for i in range(50)},
    statement=LONG,
)
FORECAST = Forecast(
    verdict="fails",
    probability=0.03,
    kind="stuck",
    because=("the loss stays",),
    spent=8,
    budget=100,
    inside=True,
    outside=(),
    notes=(),
    calibrated_on={},
)
CERTIFICATE = FitCertificate(
    loss="squared",
    num_samples=10,
    num_inputs=2,
    risk=1.0,
    linear_risk=2.0,
    constant_risk=3.0,
    bound=0.9,
    ridge=0.1,
    existence_ridge=0.0,
    penalty=0.0,
    linear_penalty=0.0,
    guaranteed=True,
    decided_by="the weights",
    width=None,
    needed_width=None,
    rank=None,
    validation=tuple((10.0**-i, 1.0) for i in range(40)),
    scope="all data",
)


@pytest.fixture(scope="module")
def diagnosis():
    torch.manual_seed(0)
    layers = [part for _ in range(9) for part in (nn.Linear(6, 6), nn.Sigmoid())]
    model = nn.Sequential(*layers, nn.Linear(6, 3))
    return bs.diagnose(model, (torch.randn(32, 6), torch.randint(3, (32,))))


@pytest.fixture(scope="module")
def watch():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.watch(model) as seen:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    return seen


def assert_one_screen(shown):
    line = repr(shown)
    assert "\n" not in line
    assert len(line) <= 260
    assert line.startswith(f"<{type(shown).__name__}")
    assert len(str(shown).splitlines()) <= 26
    assert max(map(len, str(shown).splitlines())) <= 110
    assert len(shown._repr_html_()) < 20_000


@pytest.mark.parametrize(
    "shown",
    [
        FINDING,
        RootCause(**{n: getattr(FINDING, n) for n in Finding.__slots__}, effects=(FINDING,) * 40),
        CHECK,
        CERTIFICATE,
        FORECAST,
        Event(code="loss-spike", step=3, began="batch", before=("something",) * 50),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_an_object_of_many_numbers_takes_one_screen(shown):
    assert_one_screen(shown)


def test_answers_take_one_screen(diagnosis, watch):
    for shown in (watch, diagnosis.diff(diagnosis), *diagnosis.measurements.values()):
        assert_one_screen(shown)
    for answer in (diagnosis, diagnosis.report()):
        assert "\n" not in repr(answer)
        assert len(repr(answer)) <= 260


def test_markup_is_escaped():
    assert "<long>" not in FINDING._repr_html_()
    assert "&lt;long&gt;" in FINDING._repr_html_()
    assert "<long>" in str(FINDING)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "html"])
def test_figures_are_kept(diagnosis, watch, tmp_path, ending):
    for at, shown in enumerate((diagnosis, watch, FORECAST, CERTIFICATE)):
        path = shown.save(tmp_path / f"{at}.{ending}")
        start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>"}
        assert path.read_bytes().startswith(start[ending])


def test_another_ending_is_refused(diagnosis, watch, tmp_path):
    for shown in (diagnosis, watch, FORECAST, CERTIFICATE):
        with pytest.raises(UsageError, match="gif"):
            shown.save(tmp_path / "x.gif")
    assert list(tmp_path.iterdir()) == []


def test_plots_are_drawn_on_axes_of_ones_own(diagnosis, watch):
    from matplotlib.figure import Figure

    for draw in (
        lambda ax: diagnosis.plot("gradient_ratio", ax=ax),
        lambda ax: watch.plot("loss", ax=ax),
        lambda ax: FORECAST.plot(ax=ax),
        lambda ax: CERTIFICATE.plot(ax=ax),
    ):
        axes = Figure().add_subplot()
        assert draw(axes) is axes
        assert axes.lines or axes.patches
    assert diagnosis.plot("gradient_ratio").get_title("left") == "gradient norm ratio"
    with pytest.raises(UnknownName, match="no_such"):
        diagnosis.plot("no_such")
    with pytest.raises(UnknownName, match="no_such"):
        watch.plot("no_such")


def test_a_screen_ends_and_says_what_is_left():
    lines = screen("title", [(f"row {i}", "text") for i in range(60)]).splitlines()
    assert len(lines) == 25
    assert lines[-1].strip() == "… 37 more lines"
    assert in_short({"a": 1.0, "b": 2.0}, most=1) == "a 1, and 1 more"
