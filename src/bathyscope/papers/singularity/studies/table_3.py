"""Table III: accuracies on CIFAR-100."""

from bathyscope.papers.singularity.studies.accuracy import NOTES, SHOWS, checks, draw, table
from bathyscope.papers.singularity.studies.trained import (
    CIFAR_PRESETS,
    PAPER,
    on,
    tasks_at_all_rates,
)
from bathyscope.studies.record import Study

STUDY = Study(
    name="singularity.table_3",
    title="Accuracies of PlainNet, ResNet and ResNeXt of 164 layers (CIFAR-100)",
    shows=SHOWS,
    presets=CIFAR_PRESETS | {"paper": on(PAPER, "cifar-100")},
    tasks=tasks_at_all_rates,
    table=table,
    checks=checks,
    draw=draw,
    notes=NOTES,
)
