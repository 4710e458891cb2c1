"""A sweep on a Dask cluster of two processes, one of which is killed in the middle."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from bathyscope.core.errors import UsageError
from bathyscope.runs import table
from bathyscope.sweep import dask, map_over, sweep

distributed = pytest.importorskip("distributed")

sys.path.insert(0, str(Path(__file__).parent))
from jobs import Job, work  # noqa: E402

from bathyscope.plugins.papers import papers  # noqa: E402

THEMES = tuple(papers())


@pytest.fixture(scope="module", autouse=True)
def workers_are_forked():
    """From one process that has loaded what they need: each would load torch by itself."""
    import dask as dask_package

    method = {"distributed.worker.multiprocessing-method": "forkserver"}
    with dask_package.config.set(method):
        context = distributed.utils.get_mp_context()
        kinds = [f"bathyscope.papers.{theme}.claims" for theme in THEMES]
        needs = ["bathyscope.studies", *kinds, *(k.replace("claims", "studies") for k in kinds)]
        context.set_forkserver_preload(["distributed", "torch._dynamo", *needs])
        yield


@pytest.mark.parametrize("number", [45, pytest.param(200, marks=pytest.mark.slow)])
def test_a_sweep_survives_the_death_of_a_worker(tmp_path, number):
    jobs = [Job(number=i, log=str(tmp_path / "log"), seconds=0.01) for i in range(number)]
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, env={"PYTHONPATH": sys.path[0]}
    ) as cluster:

        def kill_one_in_the_middle(summary):
            if summary.done == number // 3:
                with distributed.Client(cluster) as client:
                    pids = client.run(os.getpid)
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address.removeprefix("tcp://")
        summary = sweep(
            work,
            jobs,
            out=tmp_path / "out",
            backend=dask(address),
            on_change=kill_one_in_the_middle,
        )
    assert killed
    assert summary.ended == {"finished": number}
    assert sorted(table(tmp_path / "out")["square"]) == sorted(i**2 for i in range(number))
    runs = [int(n) for n in (tmp_path / "log").read_text().split()]
    assert number <= len(runs) <= number + 2  # only what was in flight ran again


def test_no_scheduler_at_the_address(tmp_path):
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        gone = cluster.scheduler_address.removeprefix("tcp://")
    import dask as dask_package

    with (
        dask_package.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(UsageError, match="No Dask scheduler"),
    ):
        sweep(work, [Job(number=1, log="x")], out=tmp_path / "out", backend=dask(gone))


def test_studies_and_claims_survive_the_death_of_a_worker(tmp_path, monkeypatch):
    """`reproduce` and `check` on two workers, one of them killed: the numbers of this process."""
    from bathyscope import studies
    from bathyscope.claims import all_claims, check
    from bathyscope.cli.check import _check_elsewhere
    from tests.papers.tiny import shrink

    study = "shortcut_length.figure_5"
    shrink(monkeypatch, study)
    names = ["norm_preservation.lemma_1", "norm_preservation.lemma_3"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        killed = []

        def kill_one(summary):
            if not killed and summary.done:
                with distributed.Client(cluster) as client:
                    killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        there = studies.run(
            study, out=tmp_path / "there", backend=dask(address), on_change=kill_one
        )
        claims = [all_claims()[name] for name in names]
        result = _check_elsewhere(claims, f"dask://{address}", seed=1, workers=None, echo=False)
    assert killed
    here = studies.run(study, out=tmp_path / "here")
    pd.testing.assert_frame_equal(there.table, here.table, check_exact=True)
    assert [c.passed for c in there.checks] == [c.passed for c in here.checks]
    for claim, record in result:
        assert record == check(claim.name, seed=1)


@pytest.mark.slow
def test_every_claim_survives_the_death_of_a_worker():
    """`check all` on two workers, one of them killed in the middle: the records of this process."""
    from bathyscope.claims import all_claims
    from bathyscope.cli.check import _check_one

    names = [name for name, claim in all_claims().items() if claim.measure is not None]
    result, killed = [], []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")

        def kill_one(name, record):
            result.append(name)
            if len(result) == len(names) // 3:
                with distributed.Client(cluster) as client:
                    killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        check_one = partial(_check_one, seed=1)
        there = map_over(check_one, names, backend=dask(address), on_result=kill_one)
    assert killed
    assert sorted(result) == sorted(names)
    for name, record in zip(names, there, strict=True):
        assert repr(record) == repr(check_one(name)), name
