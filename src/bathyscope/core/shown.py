"""How an object shows itself: one line as `repr`, one screen as `str`, the screen in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from textwrap import fill, shorten
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURES = (".png", ".svg", ".pdf")
_WIDTH, _MOST_LINES, _MOST_ROWS = 100, 24, 16  # of a screen

_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>{title} · bathyscope</title><style>:root {{ color-scheme: light dark; }} "
    "body {{ margin: 0; font: 15px/1.5 system-ui, sans-serif; }} "
    "main {{ max-width: 46rem; margin: 0 auto; padding: 1.6rem 1.5rem; overflow-wrap: anywhere; }} "
    "pre {{ white-space: pre-wrap; }}</style></head>"
    "<body><main><h1>{title}</h1>{main}</main></body></html>"
)


class Shown:
    """An object of one screen; a subclass gives the headline and the rows below it."""

    __slots__ = ()

    def _headline(self) -> str:
        """What there is to say, in one line."""
        raise NotImplementedError

    def _rows(self) -> Iterable[tuple[str, str]]:
        """A name and a text each; those without a text are left out."""
        return ()

    def __repr__(self) -> str:
        """The headline."""
        line = " ".join(self._headline().split())
        short = line if len(line) <= 2 * _WIDTH else f"{line[: 2 * _WIDTH - 2]} …"
        return f"<{type(self).__name__} {short}>"

    def __str__(self) -> str:
        """The headline and the rows, on one screen."""
        return screen(self._headline(), self._rows())

    def _repr_html_(self) -> str:
        """The headline and the rows, as a notebook shows them."""
        cell = '<td style="text-align:left;vertical-align:top">'
        result = [(name, text) for name, text in self._rows() if text]
        if len(result) > _MOST_ROWS:
            result = [*result[:_MOST_ROWS], ("…", f"{len(result) - _MOST_ROWS} more")]
        rows = "".join(
            f"<tr>{cell}{escape(name)}</td>{cell}{escape(shorten(text, 5 * _WIDTH))}</td></tr>"
            for name, text in result
        )
        table = f"<table>{rows}</table>" if rows else ""
        return f"<p><strong>{escape(self._headline())}</strong></p>{table}"


class Figured(ABC):
    """An object with one figure, to draw on axes of one's own or to save."""

    __slots__ = ()

    @abstractmethod
    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The figure on these axes, or on those of a new figure."""

    def save(self, path: str | Path) -> Path:
        """Write the figure as `.png`, `.svg` or `.pdf`, or what a notebook shows as `.html`.

        Raises:
            UsageError: the ending is another, or the file cannot be written.
        """
        from bathyscope.core.arguments import check_path
        from bathyscope.core.files import check_location, write_atomic

        location = check_path("path", path)
        suffix = location.suffix.lower()
        shown: Callable[[], str] | None = getattr(self, "_repr_html_", None)
        if suffix == ".html" and shown is not None:
            check_location(location)
            write_atomic(location, _PAGE.format(title=type(self).__name__, main=shown()).encode())
            return location
        return save_picture(lambda ax: self.plot(ax), location)


def save_picture(draw: "Callable[[Axes], object]", path: Path) -> Path:
    """Draw on the axes of a figure of its own and write it as the ending says.

    Raises:
        UsageError: the ending is not a picture's, or the file cannot be written.
    """
    from bathyscope.core.errors import UsageError
    from bathyscope.core.files import check_location, write_atomic

    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        raise UsageError(
            f"A figure is written as {', '.join(PICTURES)}, but {path.name!r} was given."
        )
    from io import BytesIO

    from matplotlib.figure import Figure

    check_location(path)
    figure = Figure(figsize=(6.4, 3.6), dpi=150, layout="constrained")
    draw(figure.add_subplot())
    written = BytesIO()
    figure.savefig(written, format=suffix.lstrip("."))
    write_atomic(path, written.getvalue())
    return path


def axes_or_new(ax: "Axes | None") -> "Axes":
    """These axes, or those of a new figure of pyplot's."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")[1]


def screen(headline: str, rows: Iterable[tuple[str, str]]) -> str:
    """A headline and rows of a name and a text, wrapped, cut after one screen.

    Examples:
        >>> print(screen("A finding", [("blocks", "fc1, fc2"), ("why", "")]))
        A finding
          blocks  fc1, fc2
    """
    result = [(name, text) for name, text in rows if text]
    width = max((len(name) for name, _ in result), default=0)
    lines = [fill(headline, _WIDTH)]
    for name, text in result:
        indent = " " * (width + 4)
        lines.append(fill(f"  {name:<{width}}  {text}", _WIDTH, subsequent_indent=indent))
    whole = "\n".join(lines).splitlines()
    left = len(whole) - _MOST_LINES
    return "\n".join(whole if left <= 0 else [*whole[:_MOST_LINES], f"  … {left} more lines"])


def in_short(values: Mapping[str, object], *, most: int = 12) -> str:
    """Names and values on one line, numbers with four digits, the rest counted.

    Examples:
        >>> in_short({"ratio": 0.123456, "blocks": 3})
        'ratio 0.1235, blocks 3'
    """
    result = [f"{name.replace('_', ' ')} {_short(value)}" for name, value in values.items()]
    more = [f"and {len(result) - most} more"] if len(result) > most else []
    return ", ".join([*result[:most], *more])


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
