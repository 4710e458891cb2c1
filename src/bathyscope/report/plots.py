"""Zoomable plots as plotly figures, written as plain data: the page's script draws them.

All panels of a figure share the axis of blocks, so that zooming into one zooms into all.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, isfinite, log10
from typing import cast

from bathyscope.core.json_values import JsonMapping
from bathyscope.report.palette import LINES
from bathyscope.report.panels import Line, Panel, calm_range

_PANEL = 150  # pixels
_HEAD = 60
_ALIKE = ("type", "mode", "x", "text", "hovertemplate", "line", "marker", "xaxis", "connectgaps")


@dataclass(frozen=True, slots=True)
class PlotPlace:
    """A place on the page for a figure, and the figure's data."""

    name: str
    height: int
    spoken: str
    content: JsonMapping


def plot(name: str, panels: Sequence[Panel], *, x_title: str) -> PlotPlace | None:
    """The figure with its place, or nothing when there is none to draw."""
    if not panels:
        return None
    spoken = f"Curves by {x_title}: {', '.join(panel.title for panel in panels)}"
    content = _packed(figure(panels, x_title=x_title))
    return PlotPlace(name, _HEAD + _PANEL * len(panels), spoken, content)


def _packed(drawn: Mapping[str, object]) -> JsonMapping:
    """The figure with what many lines have alike, blocks and looks, written once: `alike`.

    The page's script puts it back into every line.
    """
    places: dict[str, int] = {}
    lines = []
    for line in cast("Sequence[Mapping[str, object]]", drawn["data"]):
        alike = json.dumps({key: line[key] for key in _ALIKE})
        own = {key: value for key, value in line.items() if key not in _ALIKE}
        lines.append(own | {"alike": places.setdefault(alike, len(places))})
    return {"alike": [json.loads(alike) for alike in places], "data": lines} | {
        "layout": drawn["layout"]
    }


def figure(panels: Sequence[Panel], *, x_title: str) -> dict[str, object]:
    """Plotly's `data` and `layout`."""
    data: list[Mapping[str, object]] = []
    shapes: list[Mapping[str, object]] = []
    notes: list[JsonMapping] = []
    layout: dict[str, object] = {}
    seen: set[str] = set()
    gap = 0.32 / len(panels)
    for at, panel in enumerate(panels):
        axis = "" if at == 0 else str(at + 1)
        top = 1 - at / len(panels)
        bottom = 1 - (at + 1) / len(panels) + (gap if at + 1 < len(panels) else 0)
        layout[f"yaxis{axis}"] = {"domain": [bottom, top], **_y_axis(panel)}
        notes.append(_title(panel, axis))
        for line in panel.lines:
            data.append(_trace(line, axis, log=panel.log, legend=line.name not in seen))
            seen.add(line.name)
            shapes += _bands(line, axis)
        shapes += [_mark(x, axis) for x in panel.marks]
    layout["xaxis"] = {
        "title": {"text": _text(x_title)},
        "zeroline": False,
        "range": _x_range(panels),
        "anchor": f"y{len(panels) if len(panels) > 1 else ''}",
    }
    layout |= {
        "shapes": shapes,
        "annotations": notes,
        "showlegend": len(seen) > 1,
        "legend": {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top"},
        "hovermode": "x unified" if len(panels) == 1 else "closest",
        "margin": {"l": 56, "r": 12, "t": 52 if len(seen) > 1 else 24, "b": 40},
    }
    return {"data": data, "layout": layout}


def _y_axis(panel: Panel) -> dict[str, object]:
    values = [v for line in panel.lines for v in line.y if v is not None and isfinite(v)]
    axis: dict[str, object] = {"exponentformat": "e", "zeroline": False, "automargin": True}
    if not panel.log:
        around = calm_range(values)
        return axis | {"type": "linear", "nticks": 4} | ({"range": list(around)} if around else {})
    positive = [v for v in values if v > 0] or [1.0]
    decades = log10(max(positive) / min(positive))
    # whole decades where there are several, so that no lone 2 or 5 stands between them
    return axis | {"type": "log"} | ({"dtick": ceil(decades / 4)} if decades > 2 else {"nticks": 4})


def _x_range(panels: Sequence[Panel]) -> list[float]:
    places = [x for panel in panels for line in panel.lines for x in line.x] or [0.0, 1.0]
    margin = max(0.5, 0.01 * (max(places) - min(places)))
    return [min(places) - margin, max(places) + margin]


def _text(text: str) -> str:
    # plotly reads a little markup, and knows these entities but not those of quotes
    return escape(text, quote=False)


def _trace(line: Line, axis: str, *, log: bool, legend: bool) -> dict[str, object]:
    def shown(value: float | None) -> float | None:
        drawable = value is not None and isfinite(value) and not (log and value <= 0)
        # two digits more than are shown
        return float(f"{value:.6g}") if drawable and value is not None else None

    colour = LINES[line.colour % len(LINES)]
    text = [_text(t) for t in line.text]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(line.x) <= 60 else "lines",
        "name": _text(line.name),
        "legendgroup": line.name,
        "showlegend": legend,
        "x": list(line.x),
        "y": [shown(v) for v in line.y],
        "text": text,
        "hovertemplate": ("%{text}<br>" if text else "%{x}<br>") + "%{y:.4g}",
        "line": {"color": colour, "width": 1.6},
        "marker": {"color": colour, "size": 3.5},
        "xaxis": "x",
        "yaxis": f"y{axis}",
        "connectgaps": False,
    }


def _title(panel: Panel, axis: str) -> dict[str, object]:
    return {
        "text": _text(panel.title),
        "xref": "paper",
        "yref": f"y{axis} domain",
        "x": 0,
        "y": 1,
        "yanchor": "bottom",
        "showarrow": False,
    }


def _bands(line: Line, axis: str) -> list[dict[str, object]]:
    """A band behind each run of values that are not finite."""
    broken = [x for x, y in zip(line.x, line.y, strict=True) if y is not None and not isfinite(y)]
    runs: list[list[float]] = []
    for x in broken:
        if runs and x - runs[-1][1] <= 1:
            runs[-1][1] = x
        else:
            runs.append([x, x])
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": f"y{axis} domain",
            "x0": first - 0.5,
            "x1": last + 0.5,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": "rgba(190,24,150,0.16)",
            "layer": "below",
        }
        for first, last in runs
    ]


def _mark(x: float, axis: str) -> dict[str, object]:
    return {
        "type": "line",
        "xref": "x",
        "yref": f"y{axis} domain",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "line": {"width": 1, "dash": "dot", "color": "#888"},
        "layer": "below",
    }
