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

        Args:
            args: of `bathyscope.diagnose`.
            severity: note, warning or problem.
            options: of `bathyscope.diagnose`.
        """
        result = self.diagnose(*args, **options)
        _fail_where_severe([result], severity)
        return result


def _fail_where_severe(diagnoses: "list[Diagnosis]", severity: str) -> None:
    if severity not in list(Severity):
        pytest.fail(f"severity is one of {', '.join(Severity)}, but {severity!r} was given.")
    limit = Severity(severity).rank
    severe = [(d.title, f) for d in diagnoses for f in d.findings if f.severity.rank >= limit]
    if severe:
        from bathyscope.report.ci_formats import sentence

        lines = [f"{title}: {f.severity} {f.code}: {sentence(f)}" for title, f in severe]
        pytest.fail("\n".join(["bathyscope found:", *lines]), pytrace=False)


@pytest.fixture
def bathyscope(request: pytest.FixtureRequest) -> Iterator[Checker]:
    """Diagnose networks in a test; with the mark `bathyscope` they must come out clean."""
    checker = Checker()
    yield checker
    mark = request.node.get_closest_marker("bathyscope")
    if mark is not None:
        _fail_where_severe(checker.diagnoses, mark.kwargs.get("severity", "problem"))


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        'bathyscope(severity="problem"): what is diagnosed in this test must come out clean',
    )
