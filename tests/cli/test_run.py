"""`bathyscope run`: scripts as files in processes of their own, most of them forked from this one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forked
from tests.loops import programs

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "loops" / "programs"
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    "OMP_NUM_THREADS": "1",
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
}
LOOP = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    loss = model(torch.randn(3, 4)).square().mean()
    {clear}
    loss.backward()
    optimizer.step()
print("done", sys.argv[1:])
{end}
"""


def script(folder, *, clear="optimizer.zero_grad()", end="", name="train.py"):
    path = folder / name
    path.write_text(LOOP.format(clear=clear, end=end))
    return path


def run(*text, cwd=None):
    return forked.Program(forked.command("run", *text), cwd=cwd).ended()


def started(*text):
    """In a new Python, without the frames of the checks of types."""
    return subprocess.run(
        [sys.executable, "-m", "bathyscope", "run", *map(str, text)],
        capture_output=True,
        text=True,
        env=ENV,
        timeout=280,
        check=False,
    )


def line_of(path, text):
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_a_fault_is_named_with_its_line_and_the_script_keeps_its_own(tmp_path):
    path = script(tmp_path, clear="", end="sys.exit(5)")
    result = run(
        *("--steps", "50", "--json", tmp_path / "report.json", "--out", tmp_path / "page.html"),
        *(path, "--debug", "--steps", "1"),
    )
    assert result.stdout == "done ['--debug', '--steps', '1']\n"
    assert result.returncode == 5
    assert f"backward at train.py:{line_of(path, 'backward')}" in result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"][0]["code"] == "gradients-not-cleared"
    assert report["record"]["steps"] == 12
    page = (tmp_path / "page.html").read_text()
    assert "Backward at train.py" in page
    assert "Watched 12 steps of SGD" in page
    assert "Call optimizer.zero_grad()" in page
    assert "update over weight" in page


def test_a_healthy_script(tmp_path):
    result = run("--fail-on", "warning", "--out", tmp_path / "page.html", script(tmp_path))
    assert result.returncode == 0
    assert "problem" not in result.stderr
    assert "a command is missing" not in result.stderr  # the script's arguments are not ours
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_faults_of_loss_and_model_stand_in_the_same_list(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 4)\n"
        "    def forward(self, x):\n"
        "        print('called', self.training)\n"
        "        return self.b(torch.relu(self.a(x))).softmax(1)\n"
        "model = Net()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "criterion = nn.CrossEntropyLoss()\n"
        "torch.manual_seed(0)\n"
        "for step in range(4):\n"
        "    x = torch.randn(32, 6)\n"
        "    criterion(model(x), x[:, :4].argmax(1)).backward()\n"
        "    optimizer.step()\n"
        "print(torch.rand(()).item())\n"
    )
    plain = forked.Program(forked.script(path)).ended()
    assert plain.returncode == 0
    result = run("--json", tmp_path / "report.json", path)
    assert result.stdout == plain.stdout  # the diagnosis calls the model in silence
    codes = [f["code"] for f in json.loads((tmp_path / "report.json").read_text())["roots"]]
    assert {"gradients-not-cleared", "output-misfit"} <= set(codes[:3])
    alone = run("--no-diagnose", path)
    assert "gradients-not-cleared" in alone.stderr
    assert "output-misfit" not in alone.stderr


NET = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x = torch.randn(20 * {size}, 8)
y = x[:, :4].argmax(1)
layers = [m for _ in range({depth}) for m in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *layers, nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr={lr}, weight_decay=0.05)
for epoch in range({epochs}):
    for a, b in DataLoader(TensorDataset(x, y), batch_size={size}, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
"""


def test_findings_have_their_blocks_in_a_row_evidence_and_a_next_step(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(NET.format(depth=20, lr=1e-4, size=32, epochs=4))
    said = run(path).stderr
    assert "Evidence: " in said
    assert re.search(r" at \d+ to 4\d", said)  # blocks in a row by the first and the last
    assert "`bathyscope explain " in said
    assert "torch.optim.AdamW(model.parameters(), lr=0.0001, weight_decay=0.05)" in said
    assert "bs.treat(model, diagnosis, batches=loader)" in said
    assert (
        "   print(treatment.outcome)\n   print(treatment.code())\n   optimizer = treatment.optimizer"
        in said
    )


def test_a_loss_that_stays_at_the_constant_baseline_is_no_all_clear(tmp_path):
    """Nothing was "wrong with the loop and with what it trains" of a network that had learned nothing."""
    path = tmp_path / "train.py"
    path.write_text(NET.format(depth=0, lr=1e-3, size=8, epochs=1))
    result = run("--out", tmp_path / "page.html", path)
    assert result.returncode == 0
    assert "Nothing is wrong" not in result.stderr
    assert "still at the constant baseline after 20 steps" in result.stderr
    assert "check that labels belong" in (tmp_path / "page.html").read_text()
    path.write_text(NET.format(depth=0, lr=1e-2, size=32, epochs=4))
    assert "still at the constant" not in run(path).stderr


def test_twin(tmp_path):
    result = run("--twin", "bfloat16", "--no-diagnose", script(tmp_path))
    assert result.returncode == 0
    assert "Twin (bfloat16): Both do the same over 2 steps, up to rounding." in result.stderr


def test_fail_on(tmp_path):
    assert run("--fail-on", "problem", script(tmp_path, clear="")).returncode == 3


def test_an_exception_is_the_scripts_own(tmp_path):
    path = script(tmp_path, clear="", end="raise LookupError('of mine')")
    result = run(path)
    assert result.returncode == 1
    assert "LookupError: of mine" in result.stderr
    assert "cli/run.py" not in result.stderr
    assert "gradients-not-cleared" in result.stderr


def test_an_exception_before_the_first_step(tmp_path):
    """It was said that weights which a rule of one's own updates are not seen."""
    path = tmp_path / "frozen.py"
    path.write_text(
        "import torch\n"
        "layer = torch.nn.Linear(2, 2).requires_grad_(False)\n"
        "layer(torch.ones(1, 2)).sum().backward()\n"
    )
    said = run(path).stderr
    assert "does not require grad" in said
    assert "ended with an error before its first step" in said
    assert "rule of your own" not in said


def test_a_module(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    script(tmp_path / "package", clear="", name="train.py")
    result = run("-m", "package.train", "x", cwd=tmp_path)
    assert result.stdout == "done ['x']\n"
    assert "gradients-not-cleared" in result.stderr


def test_a_script_that_trains_nothing(tmp_path):
    path = tmp_path / "nothing.py"
    path.write_text("print('hello')\n")
    result = run(path)
    assert (result.returncode, result.stdout) == (0, "hello\n")
    assert "nothing was trained" in result.stderr


def test_an_update_rule_of_ones_own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "for _ in range(5):\n"
        "    w.square().sum().backward()\n"
        "    with torch.no_grad():\n"
        "        w -= 0.1 * w.grad\n"
        "        w.grad = None\n"
    )
    result = run(path)
    assert result.returncode == 0
    assert "No optimizer of torch.optim took a step" in result.stderr


def test_ctrl_c_still_reports(tmp_path):
    path = script(
        tmp_path, clear="", end="print('waiting', flush=True)\nimport time\ntime.sleep(200)"
    )
    process = forked.Program(forked.command("run", path))
    while "waiting" not in process.written():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    ended = process.ended()
    assert ended.returncode == 130
    assert "gradients-not-cleared" in ended.stderr


def test_a_file_that_is_not_there(tmp_path):
    result = run(tmp_path / "missing.py")
    assert result.returncode == 2
    assert "There is no file" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.SCRIPTS)
def test_scripts_run_as_without_it(name):
    path = PROGRAMS / f"{name}.py"
    plain = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=ENV, check=False
    )
    watched = run(path)
    assert watched.stdout == plain.stdout
    assert watched.returncode == plain.returncode == 0
    assert "problem" in watched.stderr or "warning" in watched.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lo02", "lo04", "lo06", "lo08", "lo10", "lo14", "lo16", "lo18", "tc02"]
)
def test_file_and_line_of_the_fault(name):
    path = PROGRAMS / f"{name}.py"
    assert f"{path.name}:{line_of(path, '# the fault')}" in run(path).stderr


RANKS = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed({seed})
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
torch.manual_seed(rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2
    optimizer.step()
print("rank " + str(rank) + " done\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault", [True, False])
def test_two_ranks_of_torchrun(tmp_path, fault):
    path = tmp_path / "train.py"
    path.write_text(RANKS.format(seed="rank" if fault else "0"))
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0",
         "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "bathyscope", "run", str(path)],
        capture_output=True, text=True, env=ENV, timeout=280, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert sorted(line for line in result.stdout.splitlines() if "done" in line) == [
        "rank 0 done",
        "rank 1 done",
    ]
    assert result.stderr.count("watched 12 steps") == 1  # one report, of rank 0
    assert ("replicas-differ" in result.stderr) is fault


SHARED = """
import os
import torch, torch.distributed as dist
import torch.nn.functional as F
from torch import nn
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed({seed})
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
called = nn.parallel.DistributedDataParallel(model) if {wrapped} else model
torch.manual_seed(10 + rank)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    F.cross_entropy(called(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
    {after}
    dist.barrier()
    optimizer.step()
dist.destroy_process_group()
"""

RANK_FAULTS = {
    "none": ({"wrapped": True, "after": "pass"}, "One rank does the same, up to rounding"),
    "bypassed": ({"wrapped": False, "after": "pass"}, "it is not averaged over the ranks"),
    "sum": (
        {"wrapped": False, "after": "[dist.all_reduce(p.grad) for p in model.parameters()]"},
        "a sum over the ranks, not their mean",
    ),
    "weights": (
        {"wrapped": False, "after": "pass", "seed": "rank"},
        "They part at step 0 in the weights of block 0",
    ),
}


@pytest.mark.parametrize("fault", RANK_FAULTS)
def test_twin_of_one_and_two_ranks(tmp_path, fault):
    path = tmp_path / "train.py"
    settings, said = RANK_FAULTS[fault]
    path.write_text(SHARED.format(**({"seed": "0"} | settings)))
    text = ("run", "--no-diagnose", "--twin", "ranks", path)
    results = [process.ended() for process in forked.ranks(forked.command(*text), size=2)]
    assert [result.returncode for result in results] == [0, 0], results
    stderr = "".join(result.stderr for result in results)
    assert stderr.count("Twin (ranks):") == 1
    assert said in stderr


@pytest.mark.slow
def test_twin_under_torchrun(tmp_path):
    path = tmp_path / "train.py"
    settings, said = RANK_FAULTS["bypassed"]
    path.write_text(SHARED.format(**({"seed": "0"} | settings)))
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0",
         "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "bathyscope", "run", "--no-diagnose",
         "--twin", "ranks", str(path)],
        capture_output=True, text=True, env=ENV, timeout=280, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("Twin (ranks):") == 1
    assert said in result.stderr


def test_twin_of_ranks_needs_several(tmp_path):
    result = run("--twin", "ranks", script(tmp_path))
    assert result.returncode == 2
    assert "start it with torchrun" in result.stderr


def test_two_models_and_an_optimizer_of_ones_own(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "torch.manual_seed(0)\n"
        "class Signs(torch.optim.Optimizer):\n"
        "    def __init__(self, parameters, lr):\n"
        "        super().__init__(parameters, {'lr': lr})\n"
        "    @torch.no_grad()\n"
        "    def step(self, closure=None):\n"
        "        for group in self.param_groups:\n"
        "            for p in group['params']:\n"
        "                p -= group['lr'] * p.grad.sign()\n"
        "first, second = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
        "optimizers = [torch.optim.SGD(first.parameters(), lr=0.1), Signs(second.parameters(), lr=0.001)]\n"
        "for _ in range(6):\n"
        "    x = torch.randn(16, 4)\n"
        "    for model, optimizer in zip((first, second), optimizers):\n"
        "        optimizer.zero_grad()\n"
        "        (model(x) - x[:, :2]).square().mean().backward()\n"
        "        optimizer.step()\n"
        "raise ValueError('of mine')\n"
    )
    result = started(path)
    assert result.returncode == 1
    assert "ValueError: of mine" in result.stderr
    assert "cli/" not in result.stderr
    assert (
        "watched 12 steps of SGD (two.py:19), Signs (two.py:19) on Linear, Sequential"
        in result.stderr
    )
    assert (
        "Of 2 models that are trained one, a Linear, was diagnosed with its batch" in result.stderr
    )
    assert " at  [" not in result.stderr


@pytest.mark.parametrize("epsilon", ["1e-5", "0.1"])
def test_twin_of_another_script(tmp_path, epsilon):
    text = (
        "import torch\n"
        "from torch import nn\n"
        "import torch.nn.functional as F\n"
        "model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8, eps={}), nn.Linear(8, 3))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(4):\n"
        "    x = torch.randn(16, 6)\n"
        "    optimizer.zero_grad()\n"
        "    F.cross_entropy(model(x), x[:, :3].argmax(1)).backward()\n"
        "    optimizer.step()\n"
        "    print('step', step)\n"
    )
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(text.format("1e-5"))
    new.write_text(text.format(epsilon))
    result = run("--no-diagnose", "--twin", old, new)
    assert result.returncode == 0
    assert result.stdout == "".join(f"step {n}\n" for n in range(4))  # the other one is silent
    is_same = "Both do the same over 2 steps, up to rounding." in result.stderr
    assert is_same is (epsilon == "1e-5"), result.stderr
    if not is_same:
        assert "They part at step 0 in the output" in result.stderr


def test_an_option_of_run_behind_the_script_is_noted(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('done')\n")
    said = run(path, "--out", "report.html").stderr
    assert "write it before: bathyscope run --out … " in said
    assert said.index("write it before") < said.index(
        "no step of an optimizer"
    )  # it is said at once
    path.write_text("import sys\nout = sys.argv[2]  # --out\n")
    assert "write it before" not in run(path, "--out", "report.html").stderr


def test_a_script_that_goes_to_another_folder(tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    end = f"import os; os.chdir({str(away)!r})"
    script(tmp_path, end=end)
    script(tmp_path, end=end, name="old.py")
    result = run("--out", "report.html", "--twin", "old.py", "train.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Both do the same" in result.stderr
    assert (tmp_path / "report.html").is_file()
    assert not any(away.iterdir())
