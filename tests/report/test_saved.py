import json
import math
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bathyscope.core.errors import UsageError
from bathyscope.core.json_values import decode_json, encode_json
from bathyscope.core.records import Block, Measurement
from bathyscope.report import Judgment, Report, from_json, schema, to_json
from tests.report.specimens import blocks, clean, exploding, staged, treated

VALIDATOR = jsonschema.Draft202012Validator(schema())


def same(a: object, b: object) -> bool:
    """Equal, types included, NaN equal to NaN."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and a == b


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("report", [clean(20), exploding(20), staged(9), treated(9)])
def test_round_trip_through_text_is_exact(report):
    text = json.dumps(to_json(report), allow_nan=False)
    VALIDATOR.validate(json.loads(text))
    back = from_json(json.loads(text))
    assert to_json(back) == to_json(report)
    assert back.blocks == report.blocks
    assert back.findings == report.findings
    assert back.provenance == report.provenance
    assert back.curves == report.curves
    for old, new in zip(report.measurements, back.measurements, strict=True):
        assert old.settings == new.settings
        for column in old.columns:
            assert all(map(same, old[column], new[column]))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(),
    st.sampled_from(["inf", "-inf", "nan", "\\inf", "\\\\nan"]),
)


@given(st.lists(VALUES))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_survives(values):
    text = json.dumps(encode_json(tuple(values)), allow_nan=False)
    assert all(map(same, decode_json(json.loads(text)), values))


def test_a_measurement_of_some_blocks_keeps_its_own():
    body = blocks(6)
    part = Measurement(name="weights", blocks=body[::2], columns={"range": (1.0, math.inf, None)})
    verdict = Judgment(level="clean", sentence="Nothing found.")
    report = Report(title="m", verdict=verdict, blocks=body, measurements=(part,))
    VALIDATOR.validate(to_json(report))
    assert from_json(to_json(report)) == report


def test_a_block_named_like_an_infinity_keeps_its_name():
    odd = Block(index=0, name="nan", end="inf", kind="-inf")
    verdict = Judgment(level="clean", sentence="nan")
    report = Report(title="inf", verdict=verdict, blocks=(odd,), provenance={"device": "nan"})
    assert from_json(to_json(report)) == report


@pytest.mark.parametrize("given_schema", [None, "bathyscope.report/2", 1])
def test_unknown_versions_are_refused(given_schema):
    with pytest.raises(UsageError, match=r"bathyscope\.report/1"):
        from_json(to_json(clean(3)) | {"schema": given_schema})


@pytest.mark.parametrize("missing", ["title", "blocks", "measurements", "stages"])
def test_a_damaged_report_is_refused_and_invalid(missing):
    damaged = to_json(clean(3))
    del damaged[missing]
    with pytest.raises(UsageError, match="damaged"):
        from_json(damaged)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(damaged)


def test_what_the_schema_does_not_know_is_invalid():
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(to_json(clean(3)) | {"surprise": 1})
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(to_json(treated(3)) | {"before": {"title": "x"}})


def test_the_documented_example_is_a_report():
    page = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text(encoding="utf-8")
    example = json.loads(page.rpartition("```json\n")[2].partition("```")[0])
    VALIDATOR.validate(example)
    report = from_json(example)
    assert report.measurements[0]["condition_samples"] == (math.inf,)
    assert to_json(report) == example


def test_the_document_names_every_field():
    page = (Path(__file__).parents[2] / "docs" / "report-schema.md").read_text(encoding="utf-8")
    for name, part in schema()["$defs"].items():
        for field in part.get("properties", {}):
            assert f"`{field}`" in page, f"{name}.{field} is not documented"


@pytest.mark.parametrize(
    ("location", "value"),
    [
        (("verdict", "level"), "<script>"),
        (("blocks", 0, "index"), "<script>"),
        (("blocks", 0, "index"), True),
        (("blocks", 0, "call"), -1),
        (("blocks", 0, "part"), "tail"),
        (("blocks", 0, "out_shape"), ["<script>"]),
        (("blocks", 0, "num_parameters"), 1.5),
        (("blocks", 0, "surprise"), 1),
        (("findings", 0, "severity"), "<script>"),
        (("findings", 0, "blocks"), [3]),
        (("findings", 0, "step"), "<script>"),
        (("findings", 0, "evidence"), {"a": {"b": 1}}),
        (("measurements", 0, "columns", "norm"), [1.0]),
        (("measurements", 0, "columns"), []),
        (("curves",), {"loss": [["<script>", 1.0]]}),
        (("title",), None),
        (("before",), {"title": "x"}),
        (("stages",), [{"label": 3, "report": None}]),
    ],
)
def test_a_field_of_another_type_is_one_sentence(location, value):
    forged = json.loads(json.dumps(to_json(exploding(4))))
    *way, last = location
    inner = forged
    for step in way:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(UsageError, match="The report is damaged"):
        from_json(forged)


@pytest.mark.parametrize("written", [None, [], 3, "x", {"schema": "bathyscope.report/1"}])
def test_what_is_no_report_is_one_sentence(written):
    with pytest.raises(UsageError):
        from_json(written)


def test_a_report_inside_a_report_a_thousand_times_is_one_sentence():
    inner = None
    for _ in range(900):
        inner = {k: v for k, v in to_json(clean(1)).items() if k != "schema"} | {"before": inner}
    with pytest.raises(UsageError, match="damaged"):
        from_json(inner | {"schema": "bathyscope.report/1"})
