"""The table of many runs."""

import pandas as pd

from bathyscope.runs.table import _uniform


def test_columns_that_mix_types_become_text_and_others_stay():
    frame = pd.DataFrame(
        {
            "mixed": [1, "one", None],
            "words": ["a", None, "b"],
            "lists": [[1], [2, 3], None],
            "numbers": [1.0, 2.0, 3.0],
        }
    )
    result = _uniform(frame)
    assert result["mixed"].to_list() == ["1", "one", "None"]
    for name in ("words", "lists", "numbers"):
        assert result[name].to_list()[:1] == frame[name].to_list()[:1]
    assert result["words"].isna().to_list() == [False, True, False]
    assert result["lists"].iloc[2] is None
