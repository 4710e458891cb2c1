"""One process with the whole batch against two that share it: DistributedDataParallel and fully_shard."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import bathyscope as bs
from bathyscope.core import processes
from bathyscope.core.errors import BathyscopeError, UsageError
from tests.two_processes import results, start

SAMPLES = 24


class Residual(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.branch = nn.Sequential(norm, nn.Linear(7, 7), nn.ReLU(), nn.Dropout(0.2))

    def forward(self, x):
        return x + self.branch(x)


def network(dtype, *, batchnorm=True):
    torch.manual_seed(3)
    norm = nn.BatchNorm1d if batchnorm else nn.LayerNorm
    blocks = [Residual(norm(7)) for _ in range(3)]
    if not batchnorm:
        for block in blocks:
            block.branch[3] = nn.Identity()  # processes drop units of their own
    model = nn.Sequential(nn.Linear(5, 7), *blocks, nn.Linear(7, 3)).to(dtype)
    with torch.no_grad():
        model[2].branch[1].bias.fill_(-100.0)  # dead
    return model


def batch(dtype, number=0):
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(SAMPLES, 5, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(3, (SAMPLES,), generator=generator)


def part(whole, rank, first=SAMPLES // 2):
    return tuple(t[:first] if rank == 0 else t[first:] for t in whole)


def prepare(model, kind):
    if kind == "alone":
        return model
    if kind == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.fsdp import fully_shard

    for block in model[1:4]:
        fully_shard(block)
    return fully_shard(model)


def diagnosed(kind, rank, dtype):
    model = prepare(network(dtype), kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    given = batch(dtype) if kind == "alone" else part(batch(dtype), rank, 9)
    before = [p.detach().clone() for p in model.parameters()]
    torch.manual_seed(rank)
    state = torch.get_rng_state()
    result = bs.diagnose(model, given, optimizer=optimizer)
    assert torch.equal(torch.get_rng_state(), state)
    for p, kept in zip(model.parameters(), before, strict=True):
        assert p.grad is None
        assert torch.equal(p.detach(), kept)
    numbers = {
        f"{name}.{column}": list(values)
        for name, measured in result.measurements.items()
        for column, values in {**measured.columns, **measured.settings}.items()
        if column != "learning_rates" and not isinstance(values, str)
        for values in [values if isinstance(values, tuple) else (values,)]
    }
    findings = [(f.code, f.blocks, f.severity) for f in result.findings]
    return numbers, findings, result.title, [b.kind for b in result.blocks]


def curved(kind, rank, dtype):
    model = prepare(network(dtype, batchnorm=False), kind)
    data = batch(dtype) if kind == "alone" else part(batch(dtype), rank, 9)
    matrix = bs.hessian(model, data)
    return matrix.dense(), matrix.trace().value, matrix.by_block()["trace"]


def watched(kind, rank, dtype):
    model = prepare(network(dtype, batchnorm=False), kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with bs.watch(model, every=2, conditioning=dtype == torch.float64) as seen:
        for number in range(4):
            x, y = batch(dtype, number)
            if number == 3:
                x = 1e4 * x  # an event
            x, y = (x, y) if kind == "alone" else part((x, y), rank)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    history = seen.recording.history
    signals = [history.losses, history.total_gradients, history.input_scales]
    return seen.rows, torch.tensor([s.tolist() for s in signals]), [e.kind for e in seen.events]


def foretold(kind, rank, dtype):
    model = prepare(network(dtype), kind)
    whole = [batch(dtype, number) for number in range(4)]
    batches = whole if kind == "alone" else [part(b, rank) for b in whole]
    result = bs.forecast(model, batches, budget=100)
    return result.verdict, result.probability, result.spent


def treated(kind, rank, dtype):
    model = prepare(network(dtype, batchnorm=False), kind)
    whole = batch(dtype)
    given = whole if kind == "alone" else part(whole, rank)
    result = bs.diagnose(model, given)
    done = bs.treat(model, result, spend=300, allow="settings")
    return done.summary()["recipe"], done.helped, done.spent


ALONE = {"diagnose": diagnosed, "hessian": curved, "watch": watched, "forecast": foretold}


def everything(rank, folder):
    result = {}
    for kind in ("ddp", "fsdp"):
        for dtype in (torch.float64, torch.float32):
            for name, ask in ALONE.items():
                result[kind, dtype, name] = ask(kind, rank, dtype)
        result[kind, "treat"] = treated(kind, rank, torch.float64)
    return result


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return results(tmp_path_factory.mktemp("shared"), everything)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
class TestTwoProcessesAreOne:
    def near(self, dtype):
        return {"rel": 1e-9, "abs": 1e-12} if dtype == torch.float64 else {"rel": 1e-5, "abs": 1e-7}

    def test_diagnose(self, shared, kind, dtype):
        numbers, findings, title, kinds = diagnosed("alone", 0, dtype)
        for rank in range(2):
            there = shared[rank][kind, dtype, "diagnose"]
            assert there[1:] == (findings, title, kinds)
            assert there[0].keys() == numbers.keys()
            for name, values in numbers.items():
                for mine, theirs in zip(values, there[0][name], strict=True):
                    expected = mine
                    if isinstance(mine, float):
                        expected = pytest.approx(mine, **self.near(dtype), nan_ok=True)
                    assert theirs == expected, name
        assert "dead-units" in [code for code, _, _ in findings]

    def test_hessian(self, shared, kind, dtype):
        dense, trace, by_block = curved("alone", 0, dtype)
        for rank in range(2):
            there = shared[rank][kind, dtype, "hessian"]
            near = self.near(dtype)
            torch.testing.assert_close(there[0], dense, rtol=near["rel"], atol=near["abs"])
            assert there[1] == pytest.approx(trace, **near)
            assert there[2] == pytest.approx(by_block, **near)

    def test_watch(self, shared, kind, dtype):
        rows, signals, events = watched("alone", 0, dtype)
        near = self.near(dtype)
        assert len(rows) == 2 * 3
        for rank in range(2):
            there = shared[rank][kind, dtype, "watch"]
            assert there[2] == events
            torch.testing.assert_close(there[1], signals, rtol=near["rel"], atol=near["abs"])
            for mine, theirs in zip(rows, there[0], strict=True):
                assert theirs.keys() == mine.keys()
                for name, value in mine.items():
                    expected = pytest.approx(value, **near) if isinstance(value, float) else value
                    assert theirs[name] == expected, name

    def test_forecast(self, shared, kind, dtype):
        verdict, probability, spent = foretold("alone", 0, dtype)
        for rank in range(2):
            there = shared[rank][kind, dtype, "forecast"]
            assert (there[0], there[2]) == (verdict, spent)
            assert there[1] == pytest.approx(probability, **self.near(dtype))


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_treat_comes_to_the_same_recipe(shared, kind):
    expected = treated("alone", 0, torch.float64)
    assert [shared[rank][kind, "treat"] for rank in range(2)] == [expected, expected]


def disagreeing(rank, folder):
    processes.PATIENCE = 3.0
    said = []
    x, y = part(batch(torch.float64), rank)
    model = DistributedDataParallel(network(torch.float64))
    with torch.no_grad():
        model.module[0].bias[0] = float(rank)
    for ask in (
        lambda: bs.diagnose(model, (x, y)),
        lambda: bs.hessian(model, (x, y)) if rank else bs.forecast(model, [(x, y)]),
        lambda: bs.forecast(model, [(x, y)] * (1 + rank)),
        lambda: None if rank else bs.diagnose(model, (x, y)),
    ):
        try:
            ask()
        except BathyscopeError as error:
            said.append((type(error), str(error)))
    torch.distributed.barrier()
    return said


def test_processes_that_disagree_are_told(tmp_path):
    first, second = results(tmp_path, disagreeing)
    assert [kind for kind, _ in first] == [UsageError, UsageError, UsageError, BathyscopeError]
    assert first[:3] == second
    assert "0.bias of the model is float64 of shape (7,) with sum" in first[0][1]
    assert "process 0 calls forecast, process 1 hessian" in first[1][1]
    assert "0.bias" in first[2][1]  # the model is compared first
    assert "Process 1 has not called diagnose within 3 seconds" in first[3][1]


def deserted(rank, folder):
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(network(torch.float64))
    if rank == 1:
        processes._meet(processes.processes_of(model), _text(model))  # as if it came along
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(BathyscopeError, match="Another process of the group ended while diagnose"):
        bs.diagnose(model, part(batch(torch.float64), rank))
    (folder / "said").write_text(str(time.monotonic() - began))
    os._exit(0)


def _text(model):
    return processes._own_text(model, [part(batch(torch.float64), 1)], "diagnose")


def test_a_process_that_dies_is_told_of(tmp_path):
    both = start(tmp_path, deserted)
    for process in both:
        process.join(900)
    assert both[1].exitcode == -signal.SIGKILL
    assert (tmp_path / "said").exists()


@pytest.mark.slow
def test_torchrun_gives_one_report(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["-m", "bathyscope", "diagnose", "resnet-8", "--batch-size", "16"]
    command += ["--out", str(tmp_path / "report.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("written:") == 1
    assert done.stdout.count("resnet-8") == 1
    assert (tmp_path / "report.json").exists()
