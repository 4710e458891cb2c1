"""How many trainings of each task train, lag and fail, with the reasons."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from tools.real_trainings.case import Case
from tools.real_trainings.labels import Labeled, label_records
from tools.real_trainings.record import Record


def summary(cases: list[Case], records: list[Record], *, with_held_out: bool = False) -> list[str]:
    """Lines of text: label counts per task and family, reasons, agreement of the two seeds.

    Args:
        cases: all cases of the list.
        records: those that are finished; only whole groups have labels.
        with_held_out: count what is kept to the end as well. Nothing may be tuned on it, so it is
            left out unless one asks.
    """
    chosen = {case.id: case for case in cases if with_held_out or not case.is_held_out}
    labels = label_records(chosen.values(), [r for r in records if r.id in chosen])
    lines = [f"{len(labels)} labeled trainings of {len(records)} recorded"]
    lines += _counts("task", ((chosen[i].task, result) for (i, _), result in labels.items()))
    lines += _counts("family", ((chosen[i].family, result) for (i, _), result in labels.items()))
    lines += _counts(
        "reference setting", ((str(chosen[i].is_reference), f) for (i, _), f in labels.items())
    )
    reasons = Counter(result.reason for result in labels.values() if result.reason)
    lines.append("reasons: " + ", ".join(f"{why} {n}" for why, n in reasons.most_common()))
    return lines + _agreement(labels)


def _counts(title: str, rows: Iterable[tuple[str, Labeled]]) -> list[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, result in rows:
        counts[name][result.label] += 1
        counts["all"][result.label] += 1
    names = [name for name in counts if name != "all"] + ["all"] * bool(counts)
    lines = [f"{title:22s} trains   lags  fails"]
    for name in names:
        c = counts[name]
        lines.append(f"{name:22s} {c['trains']:6d} {c['lags']:6d} {c['fails']:6d}")
    return lines


def _agreement(labels: dict[tuple[str, int], Labeled]) -> list[str]:
    """How often two seeds have one label, and how far their progress differs where both train."""
    pairs = [
        (first, labels[i, 1])
        for (i, seed), first in labels.items()
        if seed == 0 and (i, 1) in labels
    ]
    if not pairs:
        return ["no case has both seeds yet"]
    same = sum(a.label == b.label for a, b in pairs)
    gaps = [abs(a.progress - b.progress) for a, b in pairs if a.label == b.label == "trains"]
    median = f"{np.median(gaps):.3f}" if gaps else "unknown"
    return [f"two seeds: {same} of {len(pairs)} the same label; median gap of progress {median}"]
