"""Table II: accuracies on CIFAR-10."""

from bathyscope.papers.singularity.studies.accuracy import NOTES, SHOWS, checks, draw, table
from bathyscope.papers.singularity.studies.trained import CIFAR_PRESETS, tasks_at_all_rates
from bathyscope.studies.record import Study

STUDY = Study(
    name="singularity.table_2",
    title="Accuracies of PlainNet, ResNet and ResNeXt of 164 layers (CIFAR-10)",
    shows=SHOWS,
    presets=CIFAR_PRESETS,
    tasks=tasks_at_all_rates,
    table=table,
    checks=checks,
    draw=draw,
    notes=NOTES,
)
