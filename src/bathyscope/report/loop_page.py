"""The page of a training loop: what was watched, what was found, and the settings as they really were."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment

from bathyscope.core.files import check_location, write_atomic
from bathyscope.core.loop_record import LoopRecord
from bathyscope.core.records import Finding, RootCause

_WIDTH, _HEIGHT = 640, 140
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>{{ title }}</title><style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
.problem { border-left: 4px solid #b3261e; } .warning { border-left: 4px solid #b26a00; }
.note { border-left: 4px solid #777; } article { padding: .2rem .8rem; margin: 1rem 0; }
h3 { margin: 0; font-size: 1rem; } p { margin: .2rem 0; } svg { width: 100%; height: auto; }
code { font-size: .9em; } </style></head><body>
<h1>{{ title }}</h1><p>{{ watched }}</p>
<h2>Findings</h2>
{% for f in findings %}<article class="{{ f.severity }}"><h3>{{ f.severity }}: {{ f.title }}
{%- if f.blocks %} at {{ f.blocks[:3]|join(", ") }}{% endif %}</h3>
<p>{{ f.why }}</p>{% if f.effects %}<p>It brings about: {% for e in f.effects %}<code>{{ e.code }}</code>
{%- if not loop.last %}, {% endif %}{% endfor %}.</p>{% endif %}
{% if f.remedy %}<p><b>Change:</b> {{ f.remedy }}</p>{% endif %}
<p><code>{{ f.code }}</code>{% for k, v in f.evidence.items() if v is not none %} · {{ k }} {{ v }}
{% endfor %}</p></article>
{% else %}<p>Nothing is wrong with the loop, as far as it was watched.</p>{% endfor %}
<h2>Settings in effect</h2>
{% for c in charts %}<figure><figcaption>{{ c.label }}: {{ c.low }} to {{ c.high }}, by step</figcaption>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img" aria-label="{{ c.label }} by step">
<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="{{ c.points }}"/></svg></figure>
{% endfor %}
{% if missing %}<h2>Not checked</h2><ul>{% for m in missing %}<li>{{ m }}</li>{% endfor %}</ul>{% endif %}
</body></html>"""


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What is reported of a loop."""

    title: str
    watched: str
    record: LoopRecord
    findings: tuple[Finding, ...]
    roots: tuple[RootCause, ...]
    not_checked: tuple[str, ...]

    def to_json(self) -> str:
        """Findings, what was not checked, and all rows."""
        return json.dumps(_plain(self), indent=1)

    def to_html(self) -> str:
        """A page by itself, with the settings in effect as curves."""
        page = Environment(autoescape=True).from_string(_PAGE)
        return page.render(
            title=self.title, watched=self.watched, findings=self.roots,
            missing=self.not_checked, charts=_charts(self.record), width=_WIDTH, height=_HEIGHT,
        )  # fmt: skip

    def save(self, path: Path) -> None:
        """Write the page, or JSON for any other ending than `.html`.

        Raises:
            UsageError: the file cannot be written.
        """
        check_location(path)
        text = self.to_html() if path.suffix == ".html" else self.to_json()
        write_atomic(path, text.encode())


def _charts(record: LoopRecord) -> list[dict[str, str]]:
    """Learning rate, learning rate times clip factor, loss scale, micro-batches, loss."""
    rows = record.rows
    series = {
        "learning rate": [(r.step, r.lr) for r in rows],
        "learning rate × clip factor": [
            (r.step, r.lr * r.clip_factor) for r in rows if r.clip_factor is not None
        ],
        "loss scale": [(r.step, r.loss_scale) for r in rows if r.loss_scale is not None],
        "micro-batches per step": [(r.step, float(r.micro_batches)) for r in rows],
        "update over weight": [
            (r.step, r.update_ratio) for r in rows if r.update_ratio is not None
        ],
        "loss": [(r.step, r.loss) for r in rows if r.loss is not None],
    }
    charts = [
        _chart(label, [p for p in points if math.isfinite(p[1])])
        for label, points in series.items()
    ]
    return [chart for chart in charts if chart]


def _chart(label: str, points: list[tuple[int, float]]) -> dict[str, str]:
    if len(points) < 2:
        return {}
    first, last = points[0][0], points[-1][0]
    low, high = min(y for _, y in points), max(y for _, y in points)
    across, up = max(last - first, 1), (high - low) or 1.0
    drawn = " ".join(
        f"{_WIDTH * (x - first) / across:.1f},{_HEIGHT - 5 - (_HEIGHT - 10) * (y - low) / up:.1f}"
        for x, y in points
    )
    return {"label": label, "points": drawn, "low": f"{low:.4g}", "high": f"{high:.4g}"}


def _plain(value: object) -> object:
    """Without NaN, which JSON does not know, and with names for the keys of counts."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
