"""`reproduce` of one table loads one file of one paper, and little of what the table does not need."""

import json
import subprocess
import sys

MOST_HERE, MOST_WITH_RUNS = 105, 140
"""Modules of the package in a process that leaves the runs to others, and in one that makes them too."""

PROGRAM = """
import json, sys
from bathyscope.cli import app
from bathyscope.studies.registry import study_of

name, out, workers, small = sys.argv[1:]
study = study_of(name)
study.presets["quick"] = type(study.presets["quick"])(**json.loads(small))
app(["reproduce", name, "--out", out, "--workers", workers], standalone_mode=False)
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "bathyscope"]))
"""


def loaded(name, out, *, workers, **small):
    """The modules of the package that `reproduce` of a study has loaded at its end."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(out), str(workers), json.dumps(small)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_one_study_loads_its_file_of_its_paper_alone(tmp_path):
    small = {"depths": (11,), "batch_size": 2, "steps": 1}
    modules = loaded("norm_preservation.overhead", tmp_path, workers=1, **small)
    assert [name for name in modules if name.startswith("bathyscope.papers.")] == [
        "bathyscope.papers.norm_preservation",
        "bathyscope.papers.norm_preservation.studies",
        "bathyscope.papers.norm_preservation.studies.overhead",
    ]
    packages = {name.split(".")[1] for name in modules if "." in name}
    assert not packages & {"diagnosis", "foresight", "recorder", "estimators", "certificates"}
    assert len(modules) <= MOST_WITH_RUNS, modules


def test_a_table_of_trainings_loads_little_where_others_train(tmp_path):
    small = {"depth": 20, "epochs": 1, "rates": (0.1,), "batch_size": 16, "num_train": 16}
    modules = loaded("singularity.table_3", tmp_path, workers=2, num_test=16, **small)
    assert {name.split(".")[3] for name in modules if name.count(".") > 2} == {"studies"}
    assert not [name for name in modules if name.startswith("bathyscope.measure.")]
    assert len(modules) <= MOST_HERE, modules
