"""Many runs: a grid of configurations over local processes, Dask or SLURM."""

from bathyscope.sweep.backends import Backend, backend_of, dask, local, on_executor, slurm
from bathyscope.sweep.grid import Grid, Override, read_grid
from bathyscope.sweep.mapping import map_over
from bathyscope.sweep.progress import GridProgress
from bathyscope.sweep.run import Tally, read_plan, sweep

__all__ = [
    "Backend",
    "Grid",
    "GridProgress",
    "Override",
    "Tally",
    "backend_of",
    "dask",
    "local",
    "map_over",
    "on_executor",
    "read_grid",
    "read_plan",
    "slurm",
    "sweep",
]
