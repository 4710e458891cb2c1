"""A sweep on a Dask cluster of two processes, one of which is killed in the middle."""

import os
import signal
import sys
from pathlib import Path

import pytest

from bathyscope.core.errors import UsageError
from bathyscope.runs import table
from bathyscope.sweep import dask, sweep

distributed = pytest.importorskip("distributed")

sys.path.insert(0, str(Path(__file__).parent))
from jobs import Job, work  # noqa: E402


def test_a_sweep_survives_the_death_of_a_worker(tmp_path):
    number = 200
    jobs = [Job(number=i, log=str(tmp_path / "log"), seconds=0.01) for i in range(number)]
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, env={"PYTHONPATH": sys.path[0]}
    ) as cluster:

        def kill_one_in_the_middle(tally):
            if tally.done == number // 3:
                with distributed.Client(cluster) as client:
                    pids = client.run(os.getpid)
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)

        address = cluster.scheduler_address.removeprefix("tcp://")
        tally = sweep(
            work,
            jobs,
            out=tmp_path / "out",
            backend=dask(address),
            on_change=kill_one_in_the_middle,
        )
    assert killed
    assert tally.ended == {"finished": number}
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
