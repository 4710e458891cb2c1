"""Table I: accuracies on MNIST."""

from bathyscope.papers.singularity.studies.accuracy import NOTES, SHOWS, checks, draw, table
from bathyscope.papers.singularity.studies.trained import PRESETS, tasks_at_all_rates
from bathyscope.studies.record import Study

STUDY = Study(
    name="singularity.table_1",
    title="Accuracies of PlainNet, ResNet and ResNeXt of 164 layers (MNIST)",
    shows=SHOWS,
    presets=PRESETS,
    tasks=tasks_at_all_rates,
    table=table,
    checks=checks,
    draw=draw,
    notes=NOTES,
)
