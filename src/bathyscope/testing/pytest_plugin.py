"""The pytest plugin: a fixture `bathyscope`, and a mark for tests in which everything must come out clean.

def test_my_network(bathyscope):
    bathyscope.assert_clean(network(), x, y, loss="mse")

@pytest.mark.bathyscope(severity="warning")
def test_another(bathyscope):
    bathyscope.diagnose(network(), x, y)       # fails at the test's end where a warning was found
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from bathyscope.core.records import Severity

if TYPE_CHECKING:
    from bathyscope.diagnosis.diagnosis import Diagnosis


class Checker:
    """What the fixture gives: `diagnose` as it is, and `assert_clean`.

    Attributes:
        diagnoses: those made in this test, in order.
    """

    def __init__(self) -> None:
        self.diagnoses: list[Diagnosis] = []

    def diagnose(self, *args: Any, **options: Any) -> "Diagnosis":
        """`bathyscope.diagnose`, kept for the mark."""
        from bathyscope.diagnosis import diagnose

        result = diagnose(*args, **options)
        self.diagnoses.append(result)
        return result

    def assert_clean(self, *args: Any, severity: str = "problem", **options: Any) -> "Diagnosis":
        """Diagnose, and fail the test where something of this severity or worse was found.

        It takes everything that `bathyscope.diagnose` takes: `loss=`, `optimizer=`, `probes=`, `silence=`.

        Args:
            args: of `bathyscope.diagnose`: the model, inputs and targets.
            severity: note, warning or problem.
            options: of `bathyscope.diagnose`.
        """
        __tracebackhide__ = True
        result = self.diagnose(*args, **options)
        _fail_where_severe([result], severity)
        return result


def _fail_where_severe(diagnoses: "list[Diagnosis]", severity: str) -> None:
    __tracebackhide__ = True
    if severity not in list(Severity):
        pytest.fail(f"severity is one of {', '.join(Severity)}, but {severity!r} was given.")
    from bathyscope.report.ci_formats import by_depth, sentence

    limit = Severity(severity).rank
    lines = [
        f"{root.code} ({root.severity}) in {one.title}: {sentence(root)}"
        for one in diagnoses
        for root in by_depth(one.roots, one.blocks.rows)
        if root.severity.rank >= limit
    ]
    if lines:  # the first is what pytest's short summary shows
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.fixture
def bathyscope() -> Iterator[Checker]:
    """Diagnose networks in a test; with the mark `bathyscope` they must come out clean.

    Random numbers begin at seed 0, so that a network made in the test is the same in every run; afterwards
    the generators are as they were.
    """
    import torch

    from bathyscope.core.global_state import RngState

    state = RngState.now()
    torch.manual_seed(0)
    yield Checker()
    state.restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a marked test in its own call, where it is counted once, and not when it is torn down."""
    yield
    mark = item.get_closest_marker("bathyscope")
    checker = getattr(item, "funcargs", {}).get("bathyscope")
    if mark is not None and isinstance(checker, Checker):
        _fail_where_severe(checker.diagnoses, mark.kwargs.get("severity", "problem"))


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        'bathyscope(severity="problem"): what is diagnosed in this test must come out clean',
    )
