"""Verdicts and findings do not depend on the processor, whose kernels differ in rounding only."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OUTCOMES = ROOT / "tests" / "processor_outcomes.py"
# How far torch, oneDNN and MKL go in what the processor offers; the kernels of this machine without them.
PROCESSORS = {
    "this one": {},
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "SSE4.1": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
    },
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
}
_SET_HERE = {name for settings in PROCESSORS.values() for name in settings}


@functools.cache
def outcomes(processor: str, *, every: int, networks: int) -> dict[str, dict[str, object]]:
    """What a process prints that computes as this processor would."""
    environment = {name: value for name, value in os.environ.items() if name not in _SET_HERE}
    environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | PROCESSORS[processor]
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, str(OUTCOMES), str(every), str(networks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_equal_outcomes(processor: str, *, every: int, networks: int) -> None:
    expected = outcomes("this one", every=every, networks=networks)
    actual = outcomes(processor, every=every, networks=networks)
    assert len(set(expected["verdicts"].values())) > 1
    assert any(expected["findings"].values())
    for what in ("verdicts", "findings"):
        assert actual[what] == expected[what]


@pytest.mark.slow  # run by `make test-processors`
@pytest.mark.parametrize("processor", ["SSE4.1"])
def test_some_verdicts_and_findings_are_those_of_another_processor(processor):
    assert_equal_outcomes(processor, every=12, networks=6)


@pytest.mark.slow
@pytest.mark.parametrize("processor", [name for name in PROCESSORS if name != "this one"])
def test_all_verdicts_and_the_findings_of_60_networks_are_those_of_another_processor(processor):
    assert_equal_outcomes(processor, every=1, networks=60)
