"""`reproduce` of one table loads one paper, and little of what the table does not need."""

import json
import subprocess
import sys

MOST = 160
"""Modules of the package beside the command line's, when nothing has been run before."""

PROGRAM = """
import json, sys
from bathyscope.cli import app
from bathyscope.papers.norm_preservation.studies import overhead

build = overhead.nets.build
overhead.nets.build = lambda name, **options: build(name, width=4, **options)
small = overhead.OverheadPreset(depths=(11, 20), batch_size=2, steps=1)
overhead.STUDY.presets["quick"] = small
app(["reproduce", sys.argv[1], "--out", sys.argv[2], "--workers", "1"], standalone_mode=False)
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "bathyscope"]))
"""


def test_one_study_loads_its_paper_alone(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, "norm_preservation.overhead", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(run.stdout.splitlines()[-1])
    themes = {name.split(".")[2] for name in loaded if name.startswith("bathyscope.papers.")}
    assert themes == {"norm_preservation"}
    assert not [
        name for name in loaded if name.startswith("bathyscope.papers.norm_preservation.claims")
    ]
    packages = {name.split(".")[1] for name in loaded if "." in name}
    assert not packages & {"diagnosis", "foresight", "recorder", "estimators", "certificates"}
    assert len([name for name in loaded if not name.startswith("bathyscope.cli")]) <= MOST
