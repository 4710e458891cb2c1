"""A task that is a computation: its rows are kept in a run folder, and computed once."""

from collections.abc import Iterator
from pathlib import Path

from bathyscope.runs import Configuration, open_run

ROW = "row"
"""The kind of record under which the rows of a computation are kept."""


class Computation(Configuration):
    """Something that follows from its configuration alone. Override `rows`."""

    def rows(self) -> Iterator[dict[str, object]]:
        """The rows of the result, in order."""
        raise NotImplementedError

    def data_sets(self) -> tuple[str, ...]:
        """The names of the data sets it reads: that of its field `data`, where it has one."""
        return (self.data,) if hasattr(self, "data") else ()

    def seeds_used(self) -> tuple[int, ...]:
        """Every seed it uses: that of its field `seed`, where it has one."""
        return (self.seed,) if hasattr(self, "seed") else ()

    def run(self, folder: Path) -> None:
        """Compute all rows and keep them; one that was interrupted begins again."""
        with open_run(folder, self, seeds=self.seeds_used()) as run:
            run.cut_metrics(0)
            for row in self.rows():
                run.log({"kind": ROW} | row)
            run.end("finished")
