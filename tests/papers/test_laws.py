"""The laws of claims on made-up numbers: met at their bounds, and missed a little beyond each of them."""

import copy
import math

import pytest

from bathyscope.papers.nests.claims import assumptions, critical_points
from bathyscope.papers.norm_preservation.claims import branch_bound, depths, procrustes, sizes
from bathyscope.papers.shortcut_length.claims import dynamics, small_weights, zero_hessian
from bathyscope.papers.singularity.claims import findings, matrices, stability


def block(ratio, delta, network="He"):
    return {"network": network, "block": "b", "ratio": ratio, "delta": delta}


def matrix(norm, minimum, largest):
    return {"norm": norm, "smallest": minimum, "largest": largest}


def case(n, **changed):
    rounded = dict.fromkeys(
        ("gradient", "largest_entry", "off_diagonal", "closed_form_error", "toeplitz_error"), 0.0
    )
    moments = {"positions": "pre", "condition_of_moments": 4.0, "condition_numbers": [4.0, 4.0]}
    return {"n": n, **rounded, **moments, "most_negative": -0.5, **changed}


CASES = [case(1), case(2), case(3)]
ENDS = {kind: {"condition": [1.0, 3.0], "error": [0.0, 0.0]} for kind in ("residual", "aggregated")}
# law, numbers at its bounds, and changes of which each is beyond one bound: where, and the value
LAWS = [
    (
        branch_bound.lemma_1,
        {"matrices": [matrix(0.1, 0.95, 1.05), matrix(2.0, 0.5, 2.5), matrix(0.5, 0.5, 1.5)]},
        {("matrices", 2, "smallest"): 0.49, ("matrices", 2, "largest"): 1.51},
    ),
    (
        branch_bound.corollary_1,
        {"blocks": [block(1.0, 2.0), block(0.9, 0.1), block(1.1, 0.1)]},
        {("blocks", 1, "ratio"): 0.89, ("blocks", 2, "ratio"): 1.11},
    ),
    (
        branch_bound.says_nothing,
        {"blocks": [block(1.0, 5.0), block(1.0, 1.0), block(1.0, 1.5, branch_bound._SCALED)]},
        {("blocks", 1, "delta"): 0.99},
    ),
    (
        branch_bound.says_something_at_he,
        {"blocks": [block(1.0, 0.2), block(1.0, 1.0), block(1.0, 9.0, branch_bound._SCALED)]},
        {("blocks", 0, "delta"): 1.01, ("blocks", 1, "delta"): 1.01},
    ),
    (
        assumptions.assumption_1,
        {"drawn": 5, "of": 5, "dead": False, "perturbed": True},
        {("drawn",): 4, ("dead",): True, ("perturbed",): False},
    ),
    (
        assumptions.assumption_4,
        {"drawn": 5, "trained": 5, "of": 5},
        {("drawn",): 4, ("trained",): 4},
    ),
    (
        zero_hessian.theorem_2,
        {"cases": CASES},
        {
            ("cases", 1, "gradient"): 1e-6,
            ("cases", 2, "gradient"): 1e-6,
            ("cases", 2, "largest_entry"): 1e-6,
            ("cases", 1, "off_diagonal"): 1e-6,
            ("cases", 1, "closed_form_error"): 1e-6,
            ("cases", 1, "condition_numbers", 1): 4.001,
            ("cases", 1, "most_negative"): -0.49,
            ("cases", 0, "toeplitz_error"): 1e-6,
            ("cases", 0, "closed_form_error"): 1e-6,
        },
    ),
    (
        zero_hessian.equation_10,
        {"units": [2, 4, 8], "condition_numbers": [1.0, 2.0, 8.0]},
        {("condition_numbers", 0): 2.1, ("condition_numbers", 2): 7.9},
    ),
    (
        matrices.theorem_1,
        {
            "smallest_after_nearest": 1e-12,
            "size_of_nearest_over_distance": 1.0,
            "smallest_after_smaller": 5e-4,
        },
        {
            ("smallest_after_nearest",): 2e-12,
            ("size_of_nearest_over_distance",): 1.001,
            ("smallest_after_smaller",): 4e-4,
        },
    ),
    (
        matrices.lemma_4_square,
        {"square": 1, "tall": 1, "wide": 0},
        {("square",): 0, ("tall",): 0, ("wide",): 1},
    ),
    (
        stability.proposition_2_first_order,
        {"over_bound": {"small": 1.0, "large": 1.0, "inconsistent": 1.0}},
        {
            ("over_bound", "small"): 1.001,
            ("over_bound", "large"): 0.99,
            ("over_bound", "inconsistent"): 0.99,
        },
    ),
    (
        stability.remark_7,
        {"condition_number": math.inf, "amplification": 1e6},
        {("condition_number",): 1e300, ("amplification",): 9e5},
    ),
    (
        stability.corollary_2_equal,
        {"gaussian": {"residual": 2.0, "aggregated": 2.0}, "equal_variance": ENDS},
        {
            ("gaussian", "residual"): 1.9,
            ("equal_variance", "residual", "condition", 0): 0.5,
            ("equal_variance", "aggregated", "condition", 1): 3.1,
        },
    ),
    (
        procrustes.equation_8_hermitian,
        {
            "hermitian_spread": 0.0,
            "distance": 2.0,
            "smallest_distance_of_others": 2.0,
            "wide_residual": 0.5,
        },
        {("hermitian_spread",): 1e-4, ("distance",): 2.1, ("wide_residual",): 0.49},
    ),
    (
        procrustes.equation_9_divided,
        {"divided_error": 0.0, "smallest_order": 1.6, "largest_eigenvalue": 3.0},
        {("divided_error",): 1e-4, ("smallest_order",): 1.5, ("largest_eigenvalue",): 2.9},
    ),
    (
        small_weights.lemma_2,
        {
            "arrived": 0.0,
            "longest_step": 0.2,
            "step": 0.2,
            "path_lengths": [1.0, 3.0],
            "length_bound": 3.0,
            "smallest_distance": 0.25,
            "rho": 0.5,
        },
        {
            ("arrived",): 1e-4,
            ("longest_step",): 0.21,
            ("path_lengths", 1): 3.1,
            ("smallest_distance",): 0.24,
        },
    ),
    (
        small_weights.theorem_1_in_units,
        {
            "errors": [0.0, 0.0],
            "largest_norm_times_root": [2.0, 2.0 * 1.05],
            "bound_times_root": 2.1,
        },
        {("errors", 1): 1e-4, ("largest_norm_times_root", 0): 1.9, ("bound_times_root",): 2.0},
    ),
    (
        findings.finding_1_corrected,
        {
            "singular_at_start": 0.0,
            "gradient_growth_at_start": findings.EXPLODING,
            "singular_at_end": 0.1,
        },
        {
            ("singular_at_start",): 0.01,
            ("gradient_growth_at_start",): 0.99 * findings.EXPLODING,
            ("singular_at_end",): 0.09,
        },
    ),
]


LAWS += [
    (
        sizes.four_times,
        {"error": 0.01, "increase": 0.01, "saving": 3.5},
        {("error",): 0.011, ("increase",): 0.011, ("saving",): 3.49},
    ),
    (
        depths.depth_helps_skips,
        {
            "plain": {"shallow": {"all": 0.5}, "deep": {"all": 0.5}},
            "residual": {"shallow": {"others": 0.3}, "deep": {"others": 0.3}},
        },
        {("plain", "deep", "all"): 0.49, ("residual", "deep", "others"): 0.31},
    ),
    (
        depths.first_is_worst,
        {"deep": {"transitions": [0.4, 0.4, 0.1], "others": 0.4}},
        {("deep", "transitions", 1): 0.41, ("deep", "others"): 0.41},
    ),
    (
        depths.alike_when_shallow,
        {"plain": {"all": 0.6}, "residual": {"all": 0.3}},
        {("plain", "all"): 0.61, ("residual", "all"): 0.29},
    ),
    (
        critical_points.full_rank_is_global,
        {
            "outputs": 1,
            "points": [
                {"directions": (), "output_rank": 0, "epsilon": 1e-5},
                {"directions": (0,), "output_rank": 1, "epsilon": 1e-6},
            ],
        },
        {("points", 0, "epsilon"): 9e-6, ("points", 1, "epsilon"): 2e-6},
    ),
    (
        dynamics.like_orthogonal,
        {"fall": 0.1, "orthogonal": math.log(1.5), "shortcut_2": math.log(3)},
        {("fall",): 0.2, ("orthogonal",): math.log(1.6), ("shortcut_2",): math.log(2.9)},
    ),
]


@pytest.mark.parametrize(
    ("law", "numbers", "beyond"), LAWS, ids=lambda part: getattr(part, "__name__", "")
)
def test_a_law_is_met_at_its_bounds_and_missed_beyond_each(law, numbers, beyond):
    assert [relation for relation in law(numbers) if not relation.holds] == []
    for location, value in beyond.items():
        changed = copy.deepcopy(numbers)
        inside = changed
        for key in location[:-1]:
            inside = inside[key]
        inside[location[-1]] = value
        assert not all(relation.holds for relation in law(changed)), location
