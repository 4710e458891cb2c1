"""Lines of the tests themselves: what checks signatures under test is no code of the user's."""

from pathlib import Path

import pytest

from bathyscope.recorder import caller

_CHECKS = str(Path(__file__).resolve().parents[2] / "conftest.py")


@pytest.fixture(autouse=True)
def lines_of_tests(monkeypatch):
    monkeypatch.setattr(caller, "_LIBRARIES", (*caller._LIBRARIES, _CHECKS))
    monkeypatch.setattr(caller, "_is_own", {})
