"""Many runs: a grid of configurations over local processes, Dask or SLURM."""

from bathyscope._lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
