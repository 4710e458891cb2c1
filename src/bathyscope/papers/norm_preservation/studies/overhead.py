"""The cost of the projection as a fraction of a training step, at two depths."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import ClassVar, Literal

import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from bathyscope import nets
from bathyscope.remedies import procrustes_, transition_layers
from bathyscope.studies.computation import Computation
from bathyscope.studies.drawing import text_table
from bathyscope.studies.record import Check, Preset, Study
from bathyscope.studies.store import Store

_EVERY = 2  # steps between projections, as in the paper
_PAPER = {164: "7.6 % (SVD 53 %)", 1001: "3.5 % (SVD 23 %)"}
Method = Literal["auto", "exact", "reference"]
_METHODS: dict[Method, str] = {
    "auto": "this package, warm",
    "exact": "exact polar factor each time",
    "reference": "the paper's algorithm",
}


class OverheadPreset(Preset):
    """Settings of the overhead table."""

    sources: ClassVar = {
        "data": "ours: time does not depend on it",
        "depths": "printed: 164 and 1,001",
        "batch_size": "printed: 128",
        "steps": "ours: that are timed, on a processor where the paper has an accelerator",
        "seeds": "none: time does not depend on it",
    }
    data: str = "synthetic:gratings"
    depths: tuple[int, ...] = (164, 1001)
    batch_size: int
    steps: int


class StepCost(Computation):
    """CPU seconds of a training step and of a projection by each method, for one network.

    Attributes:
        depth: of the ResNet whose transitions are replaced; the ProcResNet has two layers more.
        batch_size: samples in a step, images of 32 × 32.
        steps: that are timed.
    """

    depth: int
    batch_size: int
    steps: int

    def prefix(self) -> str:
        """`overhead-164`."""
        return f"overhead-{self.depth}"

    def rows(self) -> Iterator[dict[str, object]]:
        """One row a method."""
        model = nets.build(f"procresnet-{self.depth + 2}", seed=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        layers = transition_layers(model)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.batch_size, 3, 32, 32, generator=generator)
        y = torch.randint(10, (self.batch_size,), generator=generator)

        def step() -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        step()
        seconds = median(_timed(step) for _ in range(self.steps))
        for method in _METHODS:
            handle = procrustes_(optimizer, layers, every=_EVERY, method=method, size=[32, 16, 8])
            handle.project()
            cost = median(_timed(handle.project) for _ in range(3))
            handle.remove()
            yield {"method": method, "projection_seconds": cost, "step_seconds": seconds}


def _timed(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def tasks(preset: OverheadPreset) -> list[StepCost]:
    """One timing a depth."""
    return [
        StepCost(depth=depth, batch_size=preset.batch_size, steps=preset.steps)
        for depth in preset.depths
    ]


def table(store: Store, preset: OverheadPreset) -> pd.DataFrame:
    """One row per depth and method; the fraction of a step, as timed and at a batch of 128."""
    frame = store.frame(tasks(preset), keys=("depth", "batch_size"))
    fraction = frame["projection_seconds"] / _EVERY / frame["step_seconds"]
    # a step's cost is in proportion to its samples, a projection's does not depend on them
    return frame.assign(overhead=fraction, overhead_at_128=fraction * frame["batch_size"] / 128)


def checks(table: pd.DataFrame, preset: OverheadPreset) -> tuple[Check, ...]:
    """Cheap, and the cheaper the deeper."""
    wide = table.pivot(index="depth", columns="method", values="overhead_at_128")
    ours = wide["auto"]
    result = [
        Check(
            "percent of a training step at batch 128 on a processor, at the smallest depth; the paper's "
            "7.6 % are of an accelerator",
            None,
            float(100 * ours.iloc[0]),
        ),
        Check(
            "processor time of algorithm 1 as written, over ours, the smallest; on an accelerator it may "
            "be other",
            None,
            float((wide["reference"] / wide["auto"]).min()),
        ),
    ]
    if len(ours) > 1:
        result.append(
            Check(
                "the deeper the network, the smaller the fraction; ratio deepest to shallowest",
                bool(ours.iloc[-1] < ours.iloc[0]),
                float(ours.iloc[-1] / ours.iloc[0]),
            )
        )
    return tuple(result)


def draw(table: pd.DataFrame, preset: OverheadPreset) -> Figure:
    """The shares as a table."""
    rows = [
        {
            "depth": int(row.depth),
            "method": _METHODS[row.method],
            "ms a projection": round(1000 * float(row.projection_seconds), 2),
            "s a step": round(float(row.step_seconds), 2),
            "% of a step": round(100 * float(row.overhead), 4),
            "at batch 128": round(100 * float(row.overhead_at_128), 4),
            "paper": _PAPER.get(int(row.depth), "") if row.method == "reference" else "",
        }
        for row in table.itertuples()
    ]
    title = f"Cost of projecting three layers every second step, batch {preset.batch_size}"
    return text_table(pd.DataFrame(rows), title=title, width=9.4)


STUDY = Study(
    name="norm_preservation.overhead",
    title="Cost of the projection as a fraction of a training step",
    shows=(
        "Projecting the three transition layers every second step adds 7.6 % to the time of a "
        "ResNet-164 and 3.5 % to that of a ResNet-1001; by singular value decomposition it would "
        "be 53 % and 23 %."
    ),
    presets={
        "quick": OverheadPreset(depths=(164, 326), batch_size=8, steps=2),
        "full": OverheadPreset(batch_size=16, steps=3),
        "printed": OverheadPreset(batch_size=128, steps=5),
    },
    undecided=(
        "7.6 and 3.5 % of training time, and 53 and 23 % by singular value decompositions (section 4), "
        "which were measured on an accelerator",
    ),
    tasks=tasks,
    table=table,
    checks=checks,
    decides={"the deeper": "section 4: the deeper the network, the smaller the overhead"},
    draw=draw,
    notes=(
        "Times are CPU seconds of one thread on this machine, medians; they are the one result "
        "that differs from run to run.",
    ),
)
