"""The condition number of the Jacobian of attention blocks over depth."""

import numpy as np
import pandas as pd

from bathyscope.papers.cutting_the_skip.claims import KINDS, condition_number
from bathyscope.studies.depth_curve import DepthPreset, DepthTask, depth_curve
from bathyscope.studies.record import Check
from bathyscope.studies.sampling import difference_of_means


class JacobianCondition(DepthTask):
    """κ of one Jacobian."""

    def value(self) -> float:
        """Over the directions that a norm lets through."""
        return condition_number(self.kind, self.depth, seed=self.seed)


def checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """By means of log κ at the smallest depth, and medians at the largest as they fall."""
    first, last = (
        table[table["depth"] == depth].groupby("kind")["value"]
        for depth in (table["depth"].min(), table["depth"].max())
    )
    bare, skips, tailored = (np.log10(first.get_group(kind)) for kind in KINDS)
    medians = last.median()
    text = ", ".join(f"{kind} {medians[kind]:.3g}" for kind in KINDS)
    worse, better = difference_of_means(bare - 2, skips), difference_of_means(skips + 1, tailored)
    return (
        Check(
            "one block: κ without skips is 100 times that with; log₁₀ beyond that",
            worse.is_clear,
            str(worse),
        ),
        Check(
            "one block: κ tailored is at most 10 times that with; log₁₀ below that",
            better.is_clear,
            str(better),
        ),
        Check("κ at the largest depth, medians", None, text),
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
        decides={
            "one block: κ without": "abstract: without skips the Jacobian of a block is badly conditioned",
            "one block: κ tailored": "abstract: an initialization alone gives the conditioning back",
        },
        undecided=("its results with vision transformers, and the initialization that it prints",),
        notes=(
            "At the start, of attention without the feed-forward part; the initialization is ours after the "
            "paper's idea.",
        ),
    ),
)
