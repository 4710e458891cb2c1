"""What every study promises, whatever it shows."""

import re

import pytest

from bathyscope import data
from bathyscope.plugins.papers import papers
from bathyscope.studies import PRESETS, all_studies


@pytest.mark.parametrize("name", all_studies())
def test_a_study_has_a_name_of_its_theme_presets_and_tasks(name):
    study = all_studies()[name]
    assert study.name == name
    assert re.fullmatch(rf"({'|'.join(papers())})\.[a-z_]+[a-z0-9_]*", name)
    assert tuple(study.presets) == tuple(p for p in PRESETS if p in study.presets)
    assert {"quick", "full"} <= set(study.presets)
    for preset in study.presets.values():
        folders = [task.folder_name() for task in study.tasks(preset)]
        assert len(set(folders)) == len(folders) > 0


@pytest.mark.parametrize("name", all_studies())
def test_every_setting_of_a_paper_says_where_it_is_from(name):
    study = all_studies()[name]
    settings = {} if study.original is None else study.original.resolved()
    assert [key for key in settings if not study.source_of(key)] == []


def test_papers_without_settings_have_no_preset_of_their_own():
    for name, study in all_studies().items():
        if name.startswith(("nests.", "beyond.")):
            assert study.original is None, name


@pytest.mark.parametrize("name", all_studies())
def test_quick_needs_no_download_and_seeds_multiply_the_runs(name):
    study = all_studies()[name]
    quick = study.presets["quick"]
    for task in study.tasks(quick):
        assert all(data.entry(needed).sources == () for needed in task.data_sets())
    seeds = {seed for task in study.tasks(quick) for seed in task.seeds_used()}
    more = study.tasks(quick.model_copy(update={"seeds": quick.seeds + 1}))
    assert not seeds or len({s for task in more for s in task.seeds_used()}) == len(seeds) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("singularity.table_1", "singularity.figure_13"),
        ("singularity.figure_5", "singularity.layer_deletion"),
        ("singularity.table_4", "singularity.figure_12_imagenet"),
        ("shortcut_length.figure_5", "shortcut_length.figure_6"),
        ("norm_preservation.table_1", "norm_preservation.figure_3"),
        ("norm_preservation.table_3", "norm_preservation.table_2"),
    ],
)
def test_studies_share_runs(one, other):
    first, second = (
        {task.folder_name() for task in all_studies()[n].tasks(all_studies()[n].presets["quick"])}
        for n in (one, other)
    )
    assert first & second


@pytest.mark.parametrize("name", ["shortcut_length.figure_2", "shortcut_length.figure_9"])
def test_shortcuts_of_every_length_fit_every_depth(name):
    """convshortcut-N-n has 3kn + 2 layers."""
    for given in all_studies()[name].presets.values():
        assert all((depth - 2) % (3 * n) == 0 for depth in given.depths for n in given.lengths)
