"""How products are made: kept or recomputed, in blocks, over processes, without growing."""

import gc
import os
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from curvature_cases import NAMES, case, reference
from torch import nn
from torch.utils.checkpoint import checkpoint

from bathyscope.curvature import gauss_newton, hessian
from bathyscope.curvature.products import CurvatureOperator, DiagonalBlock
from bathyscope.curvature.terms import GaussNewtonTerm, HessianTerm
from tests.forked import result_in_fork
from tests.two_processes import results


def operator_of(model, data, make=HessianTerm.of, **options):
    return CurvatureOperator(hessian(model, data).operator.objective, make, **options)


@pytest.mark.parametrize("make", [HessianTerm.of, GaussNewtonTerm.of])
@pytest.mark.parametrize("name", NAMES)
def test_recomputed_is_kept(name, make):
    model, (x, y) = case(name)
    data = [(x[:7], y[:7]), (x[7:], y[7:])]
    kept, recomputed = operator_of(model, data, make), operator_of(model, data, make, budget=0)
    assert kept.plan.kept
    assert not recomputed.plan.kept
    assert recomputed.plan.graph_bytes < kept.plan.graph_bytes
    block = torch.randn(kept.shape[0], 3, dtype=torch.float64)
    torch.testing.assert_close(kept @ block, recomputed @ block, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("make", [HessianTerm.of, GaussNewtonTerm.of])
@pytest.mark.parametrize("name", NAMES)
def test_a_block_of_vectors_is_each_vector(name, make):
    operator = operator_of(*case(name), make)
    block = torch.randn(operator.shape[0], 5, dtype=torch.float64)
    each = torch.cat([operator @ block[:, i : i + 1] for i in range(5)], dim=1)
    torch.testing.assert_close(operator @ block, each, rtol=1e-9, atol=1e-11)


def test_an_operation_that_cannot_be_batched_is_run_vector_by_vector():
    class Square(torch.autograd.Function):
        """Twice differentiable, but vmap knows no rule for it."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * Pass.apply(grad) * x

    class Pass(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            grad.sum().item()  # a number out of a batched tensor is what vmap refuses
            return grad

    model, (x, y) = case("mlp")
    result = hessian(model, (x, y), loss=lambda o, t: Square.apply(o).mean()).dense()
    truth = reference(model, [(x, y)], loss=lambda o, t: (o**2).mean())
    torch.testing.assert_close(result, truth, rtol=1e-9, atol=1e-11)


def test_checkpointed_models():
    class Checkpointed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    model, batch = case("residual")
    wrapped = Checkpointed(model)
    torch.testing.assert_close(
        hessian(wrapped, batch).dense(), reference(model, [batch]), rtol=1e-9, atol=1e-11
    )


def test_diagonal_block():
    model, batch = case("residual")
    whole = reference(model, [batch])
    operator = operator_of(model, batch)
    positions = [2, 5]
    columns = [c for s in operator.slices_of(positions) for c in range(s.start, s.stop)]
    part = DiagonalBlock(operator, positions)
    eye = torch.eye(part.dim, dtype=torch.float64)
    torch.testing.assert_close(part @ eye, whole[columns][:, columns], rtol=1e-9, atol=1e-11)


def test_the_plan_is_said_in_words():
    H = hessian(*case("conv"))
    assert "kept graph" in str(H.plan)
    assert "peak about" in str(H.plan)
    assert H.plan.peak_bytes > H.plan.graph_bytes > 0


def test_stated_graph_is_what_torch_saves():
    """Against torch's own hooks, which see every tensor saved while the graph is made."""
    model, (x, y) = case("conv", samples=64)
    seen = {}

    def pack(tensor):
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    operator = operator_of(model, (x, y))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), operator.session():
        pass
    assert operator.plan.graph_bytes == pytest.approx(sum(seen.values()), rel=0.1)


def test_dropping_the_matrix_frees_its_graph():
    model, batch = case("conv", dtype=torch.float32)
    H = hessian(model, batch)
    H.extremes(1)
    term = weakref.ref(H.operator._terms[0][1])
    del H
    gc.collect()
    assert term() is None
    assert all(p.grad is None for p in model.parameters())


def test_free_and_ask_again():
    H = hessian(*case("mlp"))
    before = H.dense()
    H.free()
    assert H.operator._terms is None
    assert torch.equal(H.dense(), before)


def growth_in_a_hundred_calls():
    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    conv = [nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)]
    model = nn.Sequential(*conv)
    batch = (torch.randn(64, 1, 8, 8), torch.randint(0, 4, (64,)))
    for i in range(100):
        hessian(model, batch).extremes(1, ends="largest", max_products=6)
        if i == 19:
            before = resident()
    return resident() - before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_a_hundred_calls_do_not_grow():
    """Resident size after 20 calls and after 100: flat to 2 MB, in a process of its own."""
    assert result_in_fork(growth_in_a_hundred_calls) < 2_000_000


def one_of_two(rank, folder):
    model, (x, y) = case("mlp", samples=17)
    model = nn.parallel.DistributedDataParallel(model)
    mine = (x[:5], y[:5]) if rank == 0 else [(x[5:13], y[5:13]), (x[13:], y[13:])]
    H, G = hessian(model, mine), gauss_newton(model, mine)
    out = (H.dense(), H.extremes(3).largest.values, G.dense(), H.trace(exact=False, probes=4).value)
    if rank == 0:
        mine[0].mul_(2)  # one process alone has to make its graph again
    return (*out, H.dense())


def test_two_processes_are_one(tmp_path):
    """Each process holds its own, unequal part of the data; both must see the whole matrix."""
    both = results(tmp_path, one_of_two)
    model, batch = case("mlp", samples=17)
    H = hessian(model, batch)
    gn = H.gauss_newton().dense()
    changed = (torch.cat([2 * batch[0][:5], batch[0][5:]]), batch[1])
    after = hessian(model, changed).dense()
    for dense, top, gauss, trace, again in both:
        torch.testing.assert_close(dense, H.dense(), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(top, H.extremes(3).largest.values, rtol=1e-6, atol=0)
        torch.testing.assert_close(gauss, gn, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(again, after, rtol=1e-9, atol=1e-12)
        assert trace == pytest.approx(H.trace(exact=False, probes=4).value, rel=1e-9)


def each_its_own(rank, folder):
    """Both at once, each with data of its own; then one alone, for which the other does not wait."""
    model, (x, y) = case("mlp", samples=17)
    both = hessian(model, (x[:5], y[:5]) if rank == 0 else (x[5:], y[5:])).dense()
    alone = hessian(model, (x, y)).dense() if rank == 0 else None
    return both, alone


def test_the_hessian_of_a_plain_module_in_a_group_is_that_process_s_own(tmp_path):
    (first, alone), (second, _) = results(tmp_path, each_its_own)
    model, (x, y) = case("mlp", samples=17)
    for result, part in ((first, slice(5)), (second, slice(5, None)), (alone, slice(None))):
        truth = hessian(model, (x[part], y[part])).dense()
        torch.testing.assert_close(result, truth, rtol=1e-9, atol=1e-12)


def test_loss_that_sums_outputs_of_its_own():
    """Own losses: anything that gives a scalar, here with a penalty on the output."""
    model, batch = case("mlp")

    def loss(output, y):
        return F.cross_entropy(output, y) + 0.1 * output.square().mean()

    truth = reference(model, [batch], loss=loss)
    torch.testing.assert_close(
        hessian(model, batch, loss=loss).dense(), truth, rtol=1e-9, atol=1e-11
    )


def test_the_old_graph_is_let_go_before_a_new_one_is_made():
    """Otherwise both are in memory at once."""
    model, (x, y) = case("mlp")
    kept = []

    def make(*given, **options):
        kept.append(operator._terms is not None)
        return HessianTerm.of(*given, **options)

    operator = operator_of(model, (x, y), make=make)
    one = torch.ones(operator.shape[0], 1, dtype=torch.float64)
    _ = operator @ one
    x.mul_(2)
    _ = operator @ one
    assert len(kept) >= 2
    assert not any(kept)


def test_a_product_with_no_vector_is_empty():
    H = hessian(*case("conv"))
    assert (H @ torch.zeros(H.shape[0], 0, dtype=torch.float64)).shape == (H.shape[0], 0)
