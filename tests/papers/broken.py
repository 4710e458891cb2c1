"""For every coded claim a statement that is wrong: a sign flipped, a factor or an assumption dropped."""

import math

from bathyscope.claims import at_least, at_most, equal
from bathyscope.papers.norm_preservation.claims.smooth_map import rate
from bathyscope.papers.singularity.claims.findings import EXPLODING


def vanishes(key):
    """The quantity that belongs to the wrong form is claimed to be zero."""
    return lambda n: [at_most(key, n[key], 1e-9)]


def vanishes_in(rows, key):
    """The same in every row."""
    return lambda n: [at_most(key, row[key], 1e-9) for row in n[rows]]


def faster(deltas):
    """δ ~ log(2L)/L² instead of log(2L)/L."""

    def law(n):
        scaled = [r * L for r, L in zip(rate(n, deltas), n["blocks"], strict=True)]
        return [at_most("δ·L²/log(2L)", scaled[-1] / scaled[0], 1.1)]

    return law


BROKEN = {
    "nests.assumption_1": lambda n: [at_least("dead features count", n["dead"], 1)],
    "nests.assumption_4": lambda n: [at_most("lost in training", n["trained"], n["of"] - 1)],
    "shortcut_length.assumption_3": lambda n: [
        equal("tanh", n["tanh"]["left_slope"], 0.0, slack=0.1)
    ],
    "norm_preservation.section_4_1_start": lambda n: [
        at_least("plain begins far from 1", n["plain"]["spread_at_start"], math.log(10))
    ],
    "norm_preservation.section_4_1_stable": lambda n: [
        at_least("ratios leave 1", n["residual"]["spread_at_end"], math.log(10))
    ],
    "norm_preservation.section_4_1_one_block": lambda n: [
        at_most("one block does no harm", n["one_block"], 0.5)
    ],
    "shortcut_length.equation_1": vanishes("error_without_shortcuts"),
    "shortcut_length.definition_1": vanishes("error_without_shortcuts"),
    "shortcut_length.equation_3": lambda n: [
        at_least(
            "κ falls with depth", n["condition_in_weights"][0], 2 * n["condition_in_weights"][2]
        )
    ],
    "shortcut_length.theorem_1": lambda n: [
        at_most(
            "‖W‖·R",
            n["largest_norm_times_root"][-1] * math.sqrt(n["units"][-1]),
            1.05 * n["largest_norm_times_root"][0] * math.sqrt(n["units"][0]),
        )
    ],
    "shortcut_length.definition_4": lambda n: [
        equal("order", order, k - 1, slack=0.25)
        for k, order in zip(n["n"], n["orders"], strict=True)
    ],
    "shortcut_length.theorem_2": lambda n: [
        at_least("a minimum", c["most_negative"], 0.0) for c in n["cases"] if c["n"] == 2
    ],
    "shortcut_length.equation_10": lambda n: [
        at_most("bounded", n["condition_numbers"][-1], 1.5 * n["condition_numbers"][0])
    ],
    "shortcut_length.equation_22": lambda n: [equal("copies", n["copies_of_the_largest"][0], 2)],
    "shortcut_length.equation_29": vanishes("cross_with_other_sign"),
    "shortcut_length.lemma_1": lambda n: [at_least("stays", n["moved_to"], 1e-3)],
    "shortcut_length.lemma_2": lambda n: [
        at_most("shorter", max(n["path_lengths"]), n["length_bound"] / 100)
    ],
    "shortcut_length.lemma_3": vanishes("n2_may_not"),
    "shortcut_length.lemma_4": vanishes("n1_order_ignored"),
    "norm_preservation.theorem_1": faster("by_gradients"),
    "norm_preservation.lemma_2": faster("by_slopes"),
    "norm_preservation.corollary_1": lambda n: [
        at_most("ratio", row["ratio"], 1 - row["delta"]) for row in n["blocks"]
    ],
    "norm_preservation.equation_3": vanishes("output_error_without_identity"),
    "norm_preservation.equation_10": vanishes("gradient_error_without_transpose"),
    "norm_preservation.theorem_2": lambda n: [
        at_most("ratio", case["largest_ratio"], 1 - case["delta"]) for case in n["cases"]
    ],
    "norm_preservation.equation_5": vanishes("svd_error_with_squares"),
    "norm_preservation.equation_7": lambda n: [equal("σ = 1", n["gain_at_one"], 1.0, slack=1e-6)],
    "norm_preservation.section_3_relu": lambda n: [
        equal("no √2", row["gain_without_factor"], 1.0, slack=0.04) for row in n["layers"]
    ],
    "norm_preservation.theorem_3": lambda n: [at_most("any", max(n["errors"].values()), 1e-10)],
    "norm_preservation.equation_8": lambda n: [
        at_least("farther than others", n["distance"], 1.01 * n["smallest_distance_of_others"])
    ],
    "norm_preservation.equation_9": lambda n: [at_most("linear", n["smallest_order"], 1.2)],
    "norm_preservation.algorithm_1": lambda n: [at_least("cut", n["cut_smallest"], 0.99)],
    "norm_preservation.lemma_1": lambda n: [
        at_least("σ_min", row["smallest"], 1 + row["norm"]) for row in n["matrices"]
    ],
    "norm_preservation.lemma_3": lambda n: [
        at_most("any det", case["largest_weight"], case["delta"]) for case in n["cases"]
    ],
    "singularity.equation_2": vanishes("error_of_the_other_form"),
    "singularity.equation_5": vanishes("error_of_the_other_form"),
    "singularity.equation_8": vanishes("error_of_the_other_form"),
    "singularity.definition_1": lambda n: [
        equal("any matrix", row["rank"], n["size"]) for row in n["matrices"]
    ],
    "singularity.lemma_1": lambda n: [at_least("far apart", n["quantile_gaps"]["power"], 0.5)],
    "singularity.proposition_1": lambda n: [at_least("singular", n["singular"], 1)],
    "singularity.corollary_1": lambda n: [
        at_least("deficient", max(row["deficient"] for row in n["layers"]), 1)
    ],
    "singularity.theorem_1": lambda n: [at_most("less is enough", n["smallest_after_smaller"], 0)],
    "singularity.lemma_2": lambda n: [at_most("σ^m", max(n["symmetric_halved"]), 1e-9)],
    "singularity.equation_14": vanishes("error_without_the_last"),
    "singularity.theorem_2": lambda n: [at_most("no collapse", n["top_fraction"][82], 0.5)],
    "singularity.remark_1": lambda n: [equal("full rank", n["last"]["rank"], 8)],
    "singularity.theorem_3": vanishes("shrunk_error"),
    "singularity.theorem_4": vanishes("shrunk_error"),
    "singularity.remark_2": lambda n: [at_least("κ", n["scaled"]["condition_number"], 1e3)],
    "singularity.remark_3": lambda n: [at_least("κ", n["scaled"]["condition_number"], 1e3)],
    "singularity.section_4_deletion": vanishes("residual_before"),
    "singularity.lemma_3": lambda n: [
        equal("variance", n["variance"], 2 * n["expected_variance"], slack=0.5)
    ],
    "singularity.lemma_4": lambda n: [at_least("wide", n["wide"], 1)],
    "singularity.lemma_5": lambda n: [at_most("narrow", n["lacking"]["narrow middle"], 0)],
    "singularity.definition_3": vanishes("gradient_without_transpose"),
    "singularity.definition_4": vanishes("step_with_other_sign"),
    "singularity.remark_4": lambda n: [equal("first", n["gradient_first"], n["width"])],
    "singularity.remark_5": lambda n: [at_most("rank", n["scaled"]["smallest_gradient"], 15)],
    "singularity.remark_6": lambda n: [at_most("rank", n["scaled"]["smallest_gradient"], 15)],
    "singularity.proposition_2": lambda n: [at_most("large", n["over_bound"]["large"], 1.0)],
    "singularity.remark_7": lambda n: [at_most("calm", n["amplification"], 1e3)],
    "singularity.remark_8": lambda n: [
        at_least("violent", n["residual, scaled"]["amplification"], 1e3)
    ],
    "singularity.theorem_5": lambda n: [
        at_least("σ_min", row["smallest"], row["upper"]) for row in n["shapes"]
    ],
    "singularity.corollary_2": lambda n: [
        at_most("flipped", n["gaussian"]["residual"], n["gaussian"]["aggregated"])
    ],
    "singularity.remark_9": lambda n: [
        at_most(
            "flipped",
            n["amplification"]["residual"]["gaussian"],
            n["amplification"]["aggregated"]["gaussian"],
        )
    ],
    "residual_alignment.ra_3": lambda n: [at_most("no energy", n["energy"][0], 0.5)],
    "residual_alignment.ra_4": lambda n: [at_least("grows", n["exponent"], 0.0)],
    "curse_of_depth.variance": lambda n: [at_most("stays", n["plain"]["variance_exponent"], 0.1)],
    "curse_of_depth.cure": lambda n: [at_least("grows", n["scaled"]["variance_exponent"], 0.5)],
    "hyper_connections.closed": lambda n: [at_most("shrinks", n["bound_norm"], 0.9)],
    "hyper_connections.amplifies": lambda n: [at_most("no gain", n["free_gain"], 10)],
    "completep.step": lambda n: [equal("no matter", n["root"], n["whole"], slack=0.1)],
    "cutting_the_skip.conditioning": lambda n: [
        at_most("no need of skips", n["no skips"][0] / n["skips"][0], 10)
    ],
    "singularity.equation_39": vanishes("error_without_skip"),
    "singularity.section_7_delta_orthogonal": vanishes("spread_after"),
    "singularity.section_7_highway": vanishes("difference_before"),
    "singularity.section_7_architecture_search": lambda n: [
        at_most("avoids skips", n["preferred"]["skips"], n["passed_over"]["skips"])
    ],
    "singularity.finding_1": lambda n: [
        at_most("gradients stay", n["gradient_growth_at_start"], EXPLODING)
    ],
    "singularity.finding_2": lambda n: [
        at_most("does not train", n["normalized"]["resnet"]["train_accuracy"], 0.5)
    ],
    "singularity.finding_3": lambda n: [
        at_least("worse κ", n["condition"]["resnext"], n["condition"]["resnet"])
    ],
    "singularity.finding_4": lambda n: [at_most("no lag", n["lags"]["delta_orthogonal"], 0)],
    "singularity.section_5_square": lambda n: [
        equal("does not fall", n["exponent"], 0.0, slack=0.2)
    ],
    "shortcut_length.section_4_1_variance": lambda n: [
        at_most("kept", n["variance"]["shortcuts"][-1], 10.0)
    ],
    "shortcut_length.section_5_length_1": lambda n: [
        at_most("like length 2", n["shortcut_2"], math.log(1.5))
    ],
    "norm_preservation.section_3_channels": lambda n: [
        at_most("few are enough", n["layers"][0]["deviation"], 0.02)
    ],
    "norm_preservation.section_4_svd": lambda n: [at_least("another", n["difference"], 1e-3)],
    "norm_preservation.section_4_1_depth": lambda n: [
        at_least("deeper is worse", n["residual"]["deep"]["others"], n["plain"]["deep"]["all"])
    ],
    "norm_preservation.section_4_1_transitions": lambda n: [
        at_most("transitions are best", max(n["deep"]["transitions"]), n["deep"]["others"])
    ],
    "norm_preservation.section_4_1_shallow": lambda n: [
        at_least("plain is far worse", n["plain"]["all"], 2 * n["residual"]["all"])
    ],
    "norm_preservation.section_4_1_first_transition": lambda n: [
        at_least("the last", n["deep"]["transitions"][2], n["deep"]["transitions"][0])
    ],
    "norm_preservation.section_4_3_parameters": lambda n: [at_least("five", n["saving"], 5.0)],
    "nests.section_2_2_coupling": vanishes("later_features"),
    "nests.section_2_2_whole": lambda n: [at_least("convex", n["smallest"], 0.0)],
    "nests.theorem_1_i": lambda n: [at_most("any rank", p["epsilon"], 1e-6) for p in n["points"]],
    "nests.theorem_1_losses": lambda n: [at_least("lost", r["epsilon"], 0.01) for r in n["losses"]],
    "nests.theorem_2_ranks": lambda n: [
        at_most("only at zero", p["output_rank"], 0) for p in n["points"] if p["epsilon"] > 1e-6
    ],
    "nests.section_4_convex": vanishes_in("cases", "risk_elsewhere"),
    "nests.equation_2": vanishes("error_without_the_last"),
    "nests.equation_4": vanishes("error_without_the_last"),
    "nests.equation_9": vanishes("error_without_the_last"),
    "nests.proposition_1": lambda n: [at_least("convex", n["zero"]["smallest_curvature"], 0)],
    "nests.proposition_2": lambda n: [at_most("ε ≤ 0", c["drawn"], -1e-6) for c in n["cases"]],
    "nests.equation_7": lambda n: [at_most("cut off", n["largest_rise_tolerance"], 1e-9)],
    "nests.theorem_1": lambda n: [at_most("any M", n["attainable_by_width"][17], 1e-6)],
    "nests.remark_2": lambda n: [at_least("worse", n["risks"][-1], n["risks"][0])],
    "nests.corollary_1": lambda n: [at_least("worse", n["risks"][-1], n["risks"][0])],
    "nests.corollary_2": lambda n: [at_least("worse", min(n["risks"]), n["linear"])],
    "nests.section_3_2": lambda n: [equal("any W", n["rank_of_shared"], n["needed"])],
    "nests.theorem_2": lambda n: [at_least("no way", n["saddle"]["smallest_curvature"], 0)],
    "nests.proposition_3": lambda n: [
        at_least("worse", c["risk"], c["linear"]) for c in n["cases"]
    ],
    "nests.proposition_4": vanishes("difference_with_a_block_doubled"),
}
