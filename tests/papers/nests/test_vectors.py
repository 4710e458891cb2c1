"""Networks of equal size, as the studies on vectors count it."""

import pytest

from bathyscope.papers.nests.studies.vectors import LABELS, PRESETS, _size, equal_features


@pytest.mark.parametrize("form", LABELS)
def test_no_form_has_more_parameters_and_one_feature_more_would_be_too_many(form):
    preset = PRESETS["quick"]
    budget = _size("resnest", preset, preset.features)
    features = equal_features(form, preset)
    assert _size(form, preset, features) <= budget
    assert _size(form, preset, features + 1) > budget
