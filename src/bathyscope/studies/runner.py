"""`run` a study by its name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bathyscope import data
from bathyscope.core.arguments import check_count, check_name, check_path
from bathyscope.core.errors import UnknownName, UsageError
from bathyscope.runs import Manifest
from bathyscope.studies.examples import absent
from bathyscope.studies.record import Preset, Provenance, Study, StudyResult
from bathyscope.studies.registry import study_of
from bathyscope.studies.store import Store, Task
from bathyscope.sweep import Backend, Tally

RUNS = "runs"
"""The folder, in that of the studies, where all of them keep their runs."""


def run(
    name: str,
    *,
    preset: str = "quick",
    out: Path | str = "studies",
    seeds: int | None = None,
    workers: int = 1,
    backend: Backend | None = None,
    on_change: Callable[[Tally], None] = lambda summary: None,
) -> StudyResult:
    """Run a study, or read what an earlier run of it left.

    Every run it needs has a folder in `out`/runs, named by its configuration: a study that was
    killed resumes from there, studies share the runs they have in common, and one that is run
    again computes nothing. Table, figure and checks are written to `out`/NAME/PRESET.

    Args:
        name: `theme.kind_number`, one of `names()`.
        preset: `quick` (ours: minutes, digits), `full` (ours: larger data, reduced length), `cited`
            (the settings of the code that the paper names), `printed` (those that it prints).
        out: folder of all that studies write.
        seeds: how many seeds, in place of the preset's.
        workers: processes that run tasks; with one, all happens in this process. More need a
            script guarded by `if __name__ == "__main__"`.
        backend: where runs are made, as `sweep.backend_of` gives it, in place of those processes;
            `out` must be visible to its workers.
        on_change: called whenever a run ends.

    Returns:
        Table, checks, provenance, and the figure.

    Raises:
        UnknownName: there is no such study or preset.
        UsageError: a data set is missing, or the folder cannot be written.
        BathyscopeError: a run failed.

    Examples:
        >>> import tempfile
        >>> result = run("norm_preservation.overhead", out=tempfile.mkdtemp())  # doctest: +SKIP
        >>> result.checks[0].met, result.provenance.seeds                       # doctest: +SKIP
    """
    study = study_of(name)
    settings = settings_of(study, preset, seeds=seeds)
    tasks = study.tasks(settings)
    _check_data(study, preset, tasks)
    folder, workers = check_path("out", out), check_count("workers", workers, minimum=1)
    store = Store(folder / RUNS, workers=workers, backend=backend, on_change=on_change)
    store.perform(tasks)
    table = study.table(store, settings)
    result = StudyResult(
        study=name,
        title=_title(study, settings),
        preset=preset,
        table=table,
        checks=study.checks(table, settings),
        notes=study.notes,
        provenance=_provenance(settings, tasks, [store.manifest(task) for task in tasks]),
        draw=partial(study.draw, table, settings),
    )
    result.save(folder / name / preset)
    return result


def _title(study: Study, settings: Preset) -> str:
    """The study's title, which says where other data than the paper's stand in for them."""
    original = study.original
    others = set() if original is None else settings.data_names() - original.data_names()
    return f"{study.title} [substitute: {', '.join(sorted(others))}]" if others else study.title


def settings_of(study: Study, preset: str, *, seeds: int | None = None) -> Preset:
    """The settings of a study's preset.

    Raises:
        UnknownName: there is no such preset.
        UsageError: the number of seeds is not at least one.
    """
    if check_name("preset", preset) not in study.presets:
        raise UnknownName("preset", preset, study.presets)
    settings: Preset = study.presets[preset]
    if seeds is None:
        return settings
    return settings.model_copy(update={"seeds": check_count("seeds", seeds, minimum=1)})


def missing_data(name: str, preset: str) -> list[str]:
    """The data sets that a study's preset needs and that have not been fetched."""
    study = study_of(name)
    return _absent_sets(study.tasks(settings_of(study, preset)))


def _absent_sets(tasks: list[Task]) -> list[str]:
    return absent({name for task in tasks for name in task.data_sets()})


def _check_data(study: Study, preset: str, tasks: list[Task]) -> None:
    missing = _absent_sets(tasks)
    if missing:
        steps = " and ".join(data.how_to_get(name) for name in missing)
        raise UsageError(
            f"The preset {preset} of {study.name} needs {' and '.join(missing)}, which is not "
            f"here; {steps}, or choose --preset quick."
        )


def _provenance(settings: Preset, tasks: list[Task], manifests: list[Manifest]) -> Provenance:
    hardware = {str(sorted(m.hardware.items())): m.hardware for m in manifests}
    return Provenance(
        settings=settings.resolved(),
        seeds=tuple(sorted({seed for task in tasks for seed in task.seeds_used()})),
        num_runs=len(tasks),
        seconds=round(sum(m.seconds for m in manifests), 1),
        cpu_seconds=round(sum(m.cpu_seconds for m in manifests), 1),
        versions=manifests[0].versions,
        hardware=tuple(hardware.values()),
        commits=tuple(sorted({m.commit for m in manifests})),
    )
