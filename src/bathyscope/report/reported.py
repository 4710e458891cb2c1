"""What has a report can be printed, shown in a notebook and saved."""

from abc import ABC, abstractmethod
from pathlib import Path

from bathyscope.core.errors import UsageError
from bathyscope.report.files import write
from bathyscope.report.page import notebook_html
from bathyscope.report.record import Report
from bathyscope.report.terminal import show, text_of


class Reported(ABC):
    """An answer that is a report."""

    __slots__ = ()

    @abstractmethod
    def report(self) -> Report:
        """The records alone, for `bathyscope.report`."""

    def save(self, path: str | Path) -> Path:
        """Write the report as `.html`, `.json` or `.png`.

        Raises:
            UsageError: the ending is another, or the file cannot be written.
        """
        if not isinstance(path, (str, Path)):
            raise UsageError(
                f"A report is saved to a path, but a {type(path).__name__} was given; "
                'give one such as "report.html".'
            )
        write(self.report(), Path(path))
        return Path(path)

    def show(self) -> None:
        """Print the report to the terminal."""
        show(self.report())

    def __str__(self) -> str:
        """The report as `show` prints it, without colours."""
        return text_of(self.report())

    def _repr_html_(self) -> str:
        """Verdict, findings and strips, as a notebook shows them; `save` writes the whole page."""
        return notebook_html(self.report())
