"""The public face: every question against the dense reference, and the model left alone."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from curvature_cases import NAMES, assert_same_state, case, reference, state_of
from torch import nn

import bathyscope as bs
from bathyscope.core.errors import BathyscopeError, UnknownName, UsageError
from bathyscope.curvature import Unresolved, gauss_newton, hessian


def error(result, truth):
    return float((result - truth).abs().max() / truth.abs().max().clamp_min(1e-30))


@pytest.mark.parametrize("batchnorm", ["batch", "running"])
@pytest.mark.parametrize("name", NAMES)
def test_dense_is_torch_func_hessian(name, batchnorm):
    model, batch = case(name)
    model.train()
    truth = reference(model, [batch], batchnorm=batchnorm)
    assert error(hessian(model, batch, batchnorm=batchnorm).dense(), truth) < 1e-9


@pytest.mark.parametrize("name", ["mlp", "residual", "attention", "partial"])
def test_ragged_loader_is_the_full_batch(name):
    model, (x, y) = case(name, samples=17)
    ragged = [(x[:8], y[:8]), (x[8:16], y[8:16]), (x[16:], y[16:])]
    whole = hessian(model, (x, y))
    parts = hessian(model, ragged)
    assert error(parts.dense(), whole.dense()) < 1e-9
    top, other = whole.extremes(3), parts.extremes(3)
    np.testing.assert_allclose(top.largest.values, other.largest.values, rtol=1e-6)


def test_a_torch_loader_and_a_generator_are_loaders():
    model, (x, y) = case("mlp", samples=10)
    truth = hessian(model, (x, y)).dense()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y), batch_size=4, shuffle=True
    )
    assert error(hessian(model, loader).dense(), truth) < 1e-9
    assert (
        error(hessian(model, (b for b in [(x[:7], y[:7]), (x[7:], y[7:])])).dense(), truth) < 1e-9
    )


def test_batchnorm_over_several_batches_is_the_weighted_mean_of_their_losses():
    model, (x, y) = case("conv", samples=10)
    parts = [(x[:6], y[:6]), (x[6:], y[6:])]
    result = hessian(model, parts)
    assert error(result.dense(), reference(model, parts)) < 1e-9
    assert any("its own statistics" in note for note in result.notes)


@pytest.mark.parametrize("name", NAMES)
def test_model_is_left_bit_for_bit(name):
    model, batch = case(name, dtype=torch.float32)
    model.train()
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    before = state_of(model)
    H = hessian(model, batch)
    H.extremes(2)
    H.density(probes=2, steps=5, outlier_steps=5)
    H.trace(exact=False, probes=2)
    H.dense()
    H.by_block()
    H.gauss_newton().extremes(1)
    assert_same_state(before, state_of(model))


def test_the_matrix_follows_the_parameters():
    model, batch = case("mlp")
    H = hessian(model, batch)
    before = H.dense()
    for change in (
        lambda p: p.data.mul_(1.5),
        lambda p: torch.no_grad()(p.mul_)(0.7),
    ):
        for parameter in model.parameters():
            change(parameter)
        after = H.dense()
        assert error(after, before) > 1e-3
        assert error(after, reference(model, [batch])) < 1e-9


@pytest.mark.parametrize("name", ["mlp", "conv", "residual", "attention", "tied", "partial"])
def test_gauss_newton_is_jacobian_hessian_jacobian(name):
    model, (x, y) = case(name, samples=6)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*curvature is zero")
        result = gauss_newton(model, (x, y), batchnorm="running").dense()
    model.eval()
    parameters = dict(model.named_parameters())

    def output(theta):
        return torch.func.functional_call(model, theta, (x,))

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        jacobian = torch.func.jacrev(output)(parameters)
        out = output(parameters).detach()
    j = torch.cat(
        [
            jacobian[n].reshape(out.numel(), -1) * float(p.requires_grad)
            for n, p in parameters.items()
        ],
        dim=1,
    )
    bend = torch.func.hessian(lambda o: F.cross_entropy(o, y))(out)
    truth = j.T @ bend.reshape(out.numel(), out.numel()) @ j
    assert error(result, truth.detach()) < 1e-9
    assert float(torch.linalg.eigvalsh(result)[0]) > -1e-12


def test_extremes_density_trace_agree_with_the_eigenvalues():
    model, batch = case("residual")
    H = hessian(model, batch)
    values = H.eigenvalues()
    ends = H.extremes(4)
    np.testing.assert_allclose(ends.largest.values, values.flip(0)[:4], rtol=1e-6)
    np.testing.assert_allclose(ends.smallest.values, values[:4], rtol=1e-6)
    estimate = H.trace(exact=False, probes=40)
    assert abs(estimate.value - float(values.sum())) < 4 * estimate.standard_error
    density = H.density(probes=4, steps=10, outlier_steps=10)
    fraction = density.fraction_below(0.1)
    assert fraction.lower <= float((values < 0.1).double().mean()) <= fraction.upper


def test_condition_number_in_its_definitions():
    weights = torch.tensor([8.0, 4.0, 2.0, 1.0, 0.0], dtype=torch.float64).sqrt()
    model = nn.Linear(5, 1, bias=False).double()
    batch = (torch.diag(weights), torch.zeros(5, 1, dtype=torch.float64))
    H = hessian(model, batch, loss=lambda o, y: 2.5 * F.mse_loss(o, y))
    np.testing.assert_allclose(H.eigenvalues(), [0, 1, 2, 4, 8], atol=1e-12)
    result = H.condition_number(definition="tolerance")
    assert result.value == pytest.approx(8.0)
    assert (result.rank, result.dim, result.exact) == (4, 5, True)
    assert H.condition_number(percentile=0.5).value == pytest.approx(4.0)
    with pytest.raises(Unresolved, match="counts as zero"):
        H.condition_number(definition="smallest")


def test_percentile_takes_the_lower_value_without_interpolation():
    model = nn.Linear(12, 1, bias=False).double()
    values = torch.arange(1.0, 13.0, dtype=torch.float64)
    x = torch.diag((values * 12 / 2).sqrt())
    H = hessian(model, (x, torch.zeros(12, 1, dtype=torch.float64)), loss=F.mse_loss)
    truth = np.quantile(values.numpy(), 0.1, method="lower")
    assert H.condition_number().reference == pytest.approx(truth)


def test_negative_index():
    model, batch = case("residual")
    H = hessian(model, batch)
    values = H.eigenvalues()
    assert H.negative_index(tolerance=1e-6).fraction == pytest.approx(
        float((values < -1e-6 * values.abs().max()).double().mean())
    )


def test_estimates_hold_the_truth_or_are_refused():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 3)
    )
    batch = (torch.randn(64, 8), torch.randint(0, 3, (64,)))
    H = hessian(model.double(), (batch[0].double(), batch[1]))
    values = H.eigenvalues()
    tolerance = 1e-3
    truth = float((values < -tolerance * values.abs().max()).double().mean())
    for steps in (5, 20, 60, 150):
        density = H.density(probes=6, steps=steps, outlier_steps=20)
        try:
            result = H.negative_index(
                exact=False, tolerance=tolerance, density=density, resolution=0.1
            )
            assert result.upper - result.lower <= 0.1
        except Unresolved as refusal:
            result = refusal
        assert result.lower <= truth <= result.upper
    sure = H.condition_number(percentile=0.9, exact=False, density=density)
    assert sure.lower <= H.condition_number(percentile=0.9).value <= sure.upper
    with pytest.raises(Unresolved, match="inside the spectrum"):
        H.condition_number(definition="smallest", exact=False, density=density)
    with pytest.raises(Unresolved, match="only known to lie between"):
        H.negative_index(exact=False, density=H.density(probes=2, steps=3, outlier_steps=0))


def test_questions_asked_together_share_their_products():
    H = hessian(*case("mlp"))
    d = H.shape[0]
    H.condition_number(definition="tolerance"), H.negative_index(), H.eigenvalues()
    assert H.num_products == d
    H.negative_index(exact=False, resolution=1.0)
    made = H.num_products
    H.condition_number(exact=False, percentile=0.9, resolution=1e12)
    assert H.density().products == made - d
    assert H.num_products == made
    H.density(seed=1)
    assert H.num_products > made


def test_what_is_remembered_is_forgotten_with_the_parameters():
    model, batch = case("mlp")
    H = hessian(model, batch)
    before, density = H.eigenvalues(), H.density()
    before.zero_()  # the caller's own
    assert float(H.eigenvalues().abs().max()) > 0
    with torch.no_grad():
        model[0].weight.mul_(2)
    truth = torch.linalg.eigvalsh(reference(model, [batch]))
    torch.testing.assert_close(H.eigenvalues(), truth, rtol=1e-9, atol=1e-11)
    assert not torch.equal(H.density().atoms, density.atoms)


def test_trace_of_a_small_network_is_exact():
    H = hessian(*case("conv"))
    assert H.shape[0] > 32 + 2 * 8  # more than the products of an estimate
    result = H.trace()
    assert result.value == pytest.approx(float(H.dense().trace()), rel=1e-12)
    assert (result.standard_error, result.products) == (0.0, H.shape[0])
    assert H.trace(exact=False, probes=4, sketch=2).products == 8


def test_one_vector_is_one_column():
    H = hessian(*case("residual"))
    v = torch.randn(H.shape[0], dtype=torch.float64)
    assert (H @ v).shape == v.shape
    torch.testing.assert_close(H @ v, (H @ v[:, None])[:, 0])
    torch.testing.assert_close(H @ v, H.dense() @ v, rtol=1e-9, atol=1e-11)


def test_parameters_by_glob():
    model, batch = case("residual")
    whole = reference(model, [batch])
    names = [n for n, p in model.named_parameters() for _ in range(p.numel())]
    chosen = [i for i, n in enumerate(names) if n.startswith("one.")]
    part = hessian(model, batch, parameters=["one.*"])
    assert error(part.dense(), whole[chosen][:, chosen]) < 1e-9
    with pytest.raises(UnknownName, match=r"one\.0\.weight"):
        hessian(model, batch, parameters=["one.0.weihgt"])


def test_frozen_and_unused_parameters_are_zero_rows():
    model, batch = case("partial")
    H = hessian(model, batch)
    matrix = H.dense()
    assert H.shape[0] == sum(p.numel() for p in model.parameters())
    named = {n: p.numel() for n, p in model.named_parameters()}
    start = 0
    for name, size in named.items():
        is_zero = bool((matrix[start : start + size] == 0).all())
        assert is_zero == (not name.startswith("used")), name
        start += size


def test_wrapped_models_are_unwrapped():
    model, batch = case("mlp")
    assert error(hessian(nn.DataParallel(model), batch).dense(), reference(model, [batch])) < 1e-9


def test_in_inference_mode_and_no_grad():
    model, batch = case("mlp")
    truth = reference(model, [batch])
    with torch.no_grad():
        assert error(hessian(model, batch).dense(), truth) < 1e-9
    with torch.inference_mode():
        assert error(hessian(model, batch).dense(), truth) < 1e-9


def test_fused_attention_falls_back_and_says_so():
    model, batch = case("attention", dtype=torch.float32)
    H = hessian(model, batch)
    with pytest.warns(UserWarning, match="math kernel"):
        result = H.dense()
    assert any("math kernel" in note for note in H.notes)
    assert error(result, reference(model, [batch])) < 1e-5


def test_loss_under_no_grad():
    model, batch = case("mlp")
    with pytest.raises(UsageError, match="no_grad"):
        hessian(model, batch, loss=torch.no_grad()(F.cross_entropy)).extremes(1)


def test_once_differentiable_loss():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.square().mean()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * grad * x / x.numel()

    model, batch = case("mlp")
    with pytest.raises(UsageError, match="only once"):
        hessian(model, batch, loss=lambda o, y: Once.apply(o)).extremes(1)


def test_linear_loss_of_a_linear_model_has_zero_curvature_and_a_note():
    model = nn.Linear(3, 1)
    H = hessian(model, (torch.ones(4, 3), torch.ones(4, 1)), loss=lambda o, y: (o - y).mean())
    with pytest.warns(UserWarning, match="curvature is zero"):
        assert float(H.dense().abs().max()) == 0.0
    assert float(H.extremes(1).largest.values) == 0.0


def test_nan_loss():
    model, batch = case("mlp")
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    with pytest.raises(UsageError, match="loss is nan"):
        hessian(model, batch).trace()


def test_second_derivative_that_overflows():
    model = nn.Linear(1, 1, bias=False)
    batch = (torch.zeros(2, 1), torch.zeros(2, 1))
    H = hessian(model, batch, loss=lambda o, y: (o - y).square().mean().add(0).sqrt())
    with pytest.raises(BathyscopeError, match="non-finite"):
        H.dense()


def test_no_parameters_and_all_frozen():
    with pytest.raises(UsageError, match="no parameters"):
        hessian(nn.ReLU(), (torch.ones(2, 3), torch.zeros(2)))
    model, batch = case("mlp")
    with pytest.raises(UsageError, match="frozen"):
        hessian(model.requires_grad_(False), batch)


def test_k_larger_than_the_dimension():
    model, batch = case("mlp")
    with pytest.raises(UsageError, match="choose k from 1 to 38"):
        hessian(model, batch).extremes(39)


def test_a_dense_matrix_that_would_not_fit_says_what_it_needs():
    model = nn.Linear(4000, 1000)
    with pytest.raises(UsageError, match=r"needs 128 TB.*extremes"):
        hessian(model, (torch.ones(1, 4000), torch.zeros(1, dtype=torch.long))).dense()


@pytest.mark.parametrize("data", [3, [], "x"])
def test_data_that_is_none(data):
    with pytest.raises(UsageError):
        hessian(nn.Linear(2, 2), data)


def test_wrong_batchnorm_mode():
    model, batch = case("mlp")
    with pytest.raises(Exception, match="batch"):
        hessian(model, batch, batchnorm="train")


def test_public_name():
    assert bs.hessian is hessian
