"""How far a reader has to walk: the files that a diagnosis executes, and those that it imports."""

import json
import os
import subprocess
import sys

import pytest

MOST_FILES = {"alone": 54, "with an optimizer": 59}
MOST_MODULES = 150
"""What raises one of them is to be worth it."""

SCRIPT = """
import json, sys
import torch
from torch import nn
import bathyscope as bs

torch.manual_seed(0)
layers = [layer for _ in range(21) for layer in (nn.Linear(16, 16), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(16, 4))
batch = torch.randn(32, 16), torch.randint(4, (32,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if "with" in sys.argv[1] else None
blocks = len(bs.diagnose(model, batch, optimizer=optimizer).blocks)
modules = sorted(name for name in sys.modules if name.split(".")[0] == "bathyscope")
files = set()

def visit(frame, event, argument):
    if event == "call" and "/bathyscope/" in frame.f_code.co_filename:
        files.add(frame.f_code.co_filename)

sys.setprofile(visit)
bs.diagnose(model, batch, optimizer=optimizer)
sys.setprofile(None)
print(json.dumps({"blocks": blocks, "files": sorted(files), "modules": modules}))
"""


@pytest.mark.parametrize("how", MOST_FILES)
def test_a_warm_diagnosis_walks_through_few_files(how):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["blocks"] == 22
    assert len(seen["files"]) <= MOST_FILES[how], seen["files"]
    assert len(seen["modules"]) <= MOST_MODULES, seen["modules"]
    assert not any(".curvature" in name or ".nets" in name for name in seen["modules"])


HEAVY = ("torch._dynamo", "sympy", "scipy.sparse.linalg", "matplotlib", "pandas")
"""What a diagnosis has no use for: torch's compiler alone takes two CPU seconds to import."""

COMMAND = f"""
import sys
from bathyscope.cli import main
sys.argv = ["bathyscope", "diagnose", "resnet-8", "--set", "width=4", "--batch-size", "8"]
try:
    main()
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules])
"""


def test_the_command_imports_nothing_that_is_heavy_and_of_no_use():
    plain = {name: value for name, value in os.environ.items() if name != "BATHYSCOPE_TYPECHECK"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True, env=plain
    )
    assert "resnet-8" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
