"""What has a report can be printed, shown in a notebook, plotted and saved."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from bathyscope.core.errors import UsageError
from bathyscope.report.record import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Reported(ABC):
    """An answer that is a report. What draws it is loaded when it is drawn.

    It is taken from the lazy package, which keeps the random numbers of the user's run while it loads.
    """

    __slots__ = ()

    @abstractmethod
    def report(self) -> Report:
        """The records alone, for `bathyscope.report`."""

    def save(self, path: str | Path) -> Path:
        """Write the report as `.html`, `.json`, `.png`, `.svg` or `.pdf`.

        Raises:
            UsageError: the ending is another, or the file cannot be written.
        """
        from bathyscope import report

        if not isinstance(path, (str, Path)):
            raise UsageError(
                f"A report is saved to a path, but a {type(path).__name__} was given; "
                'give one such as "report.html".'
            )
        report.write(self.report(), Path(path))
        return Path(path)

    def log_to(self, tracker: object, *, step: int = 0) -> None:
        """Write the findings to a tracker of experiments, each as `finding/code` with its text.

        Args:
            tracker: a TensorBoard `SummaryWriter`, `mlflow`, a wandb run, or anything with
                `log_number(name, value, step)` and, for the text, `log_text(name, text, step)`.
            step: of the training, at which they were found.

        Raises:
            UsageError: it is not a tracker.
        """
        from bathyscope.core.trackers import tracker_of
        from bathyscope.report.tracked import log_findings

        given = tracker_of(tracker)
        if given is None:
            raise UsageError("No tracker was given; give a SummaryWriter, mlflow or a wandb run.")
        log_findings(given, self.report().findings, step)

    def plot(self, quantity: str = "", ax: "Axes | None" = None) -> "Axes":
        """One quantity over depth, or a training curve over its steps, with its good range.

        Args:
            quantity: its key (`gradients.ratio`), its label, or some of its words; by default the one
                that shows what is wrong.
            ax: where to draw; a new figure by default.

        Returns:
            The axes; `ax.figure.savefig("figure.pdf")` keeps them.

        Raises:
            UnknownName: there is no such quantity in this report.
        """
        from bathyscope import report

        return report.plot_report(self.report(), quantity, ax)

    def show(self) -> None:
        """Print the report to the terminal."""
        from bathyscope import report

        report.show(self.report())

    def __str__(self) -> str:
        """The report as `show` prints it, without colors."""
        from bathyscope import report

        return report.text_of(self.report())

    def _repr_html_(self) -> str:
        """Verdict, findings and strips, as a notebook shows them; `save` writes the whole page."""
        from bathyscope import report

        return report.notebook_html(self.report())
