"""The condition number of the Jacobian of attention blocks over depth."""

import pandas as pd

from bathyscope.papers.cutting_the_skip.claims import KINDS, condition_number
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve
from bathyscope.studies.record import Check


class JacobianCondition(DepthTask):
    """κ of one Jacobian."""

    def value(self) -> float:
        """Over the directions that a norm lets through."""
        return condition_number(self.kind, self.depth, seed=self.seed)


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """By medians at the smallest depth, and at the largest as it falls."""
    first, last = (
        table[table["depth"] == depth].groupby("kind")["value"].median()
        for depth in (table["depth"].min(), table["depth"].max())
    )
    bare, skips, tailored = (float(first[kind]) for kind in KINDS)
    text = ", ".join(f"{kind} {last[kind]:.3g}" for kind in KINDS)
    return (
        Check(
            "one block: κ without skips is 100 times that with", bare > 100 * skips, bare / skips
        ),
        Check(
            "one block: κ tailored is at most 10 times that with",
            tailored < 10 * skips,
            tailored / skips,
        ),
        Check("κ at the largest depth", None, text),
    )


STUDIES = (
    depth_curve(
        "cutting_the_skip.figure_1",
        title="Condition number of the Jacobian of attention blocks",
        shows="Without skips blocks are badly conditioned; an initialization alone gives it back.",
        task=JacobianCondition,
        presets={
            "quick": DepthPreset(kinds=KINDS, depths=(1, 2, 4), data="generated", seeds=5),
            "full": DepthPreset(kinds=KINDS, depths=(1, 2, 3, 4, 6, 8), data="generated", seeds=20),
        },
        checks=checks,
        label="κ of the Jacobian",
        notes=(
            "At the start, of attention without the feed-forward part; the initialization is ours after the "
            "paper's idea.",
        ),
    ),
)
