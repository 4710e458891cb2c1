"""The maps that linear networks are (equations 1 to 8), and what is left when layers are deleted."""

import torch

from bathyscope.claims.claim import Claim, Link, Measured, Numbers
from bathyscope.claims.reading import linear_layers
from bathyscope.claims.relation import Relation, at_most
from bathyscope.nets import ResidualBlock
from bathyscope.papers.singularity.claims.depth import Kind, batch_for, drawn


def measure_form(seed: int, kind: Kind) -> Measured:
    """The output of a network of five blocks against the product of its matrices."""
    network = drawn(kind, 5, seed=seed)
    x, _ = batch_for(seed)
    eye = torch.eye(x.shape[1], dtype=torch.float64)
    whole = other = eye
    with torch.no_grad():
        for block in network.blocks:
            layers = [layer.weight for layer in linear_layers(block)]
            lumped = sum(
                (b @ a for a, b in zip(layers[::2], layers[1::2], strict=True)),
                torch.zeros_like(eye),
            )
            skip = 0.0 if kind == "plain" else 1.0
            whole, other = (lumped + skip * eye) @ whole, (lumped + (1 - skip) * eye) @ other
        out = network(x)
    return Measured(
        numbers={
            "error": float((out - x @ whole.T).abs().max()),
            "error_of_the_other_form": float((out - x @ other.T).abs().max()),
        }
    )


def form(numbers: Numbers) -> list[Relation]:
    """The output is the product's."""
    return [at_most("difference of the outputs", numbers["error"], 1e-9)]


EQUATION_2 = Claim(
    name="singularity.equation_2",
    formula=r"h \mapsto W^l W^{l-1} h",
    statement="A block of the plain network is h ↦ W^l W^{l−1} h (equations 1 and 2).",
    tested="The output of a plain linear network against the product of its matrices.",
    definition="an identity of the implementation",
    measure=lambda seed: measure_form(seed, "plain"),
    law=form,
)
EQUATION_5 = Claim(
    name="singularity.equation_5",
    formula=r"h \mapsto (W^l W^{l-1} + I)\,h",
    statement="A residual block is h ↦ (W^l W^{l−1} + I) h (equations 3 to 5).",
    tested="The output of a residual linear network against the product of its matrices.",
    definition="an identity of the implementation",
    measure=lambda seed: measure_form(seed, "residual"),
    law=form,
)
EQUATION_8 = Claim(
    name="singularity.equation_8",
    formula=r"h \mapsto \Bigl(\sum_{k=1}^{s} W^{l,k} W^{l-1,k} + I\Bigr) h",
    statement="A block with s paths is h ↦ (Σ_k W^{l,k} W^{l−1,k} + I) h (equations 6 to 8).",
    tested="The output of an aggregated linear network against the product of its matrices.",
    definition="an identity of the implementation",
    measure=lambda seed: measure_form(seed, "aggregated"),
    law=form,
)


def measure_deletion(seed: int) -> Measured:
    """Outputs with every branch dropped, and of a plain network with every weight zero."""
    x, _ = batch_for(seed)
    result = {}
    with torch.no_grad():
        for kind in ("residual", "aggregated"):
            network = drawn(kind, 20, seed=seed)
            result[f"{kind}_before"] = float((network(x) - x).abs().max())
            for block in network.blocks:
                assert isinstance(block, ResidualBlock)
                block.branch_dropped = True
            result[kind] = float((network(x) - x).abs().max())
        plain = drawn("plain", 20, seed=seed)
        for parameter in plain.parameters():
            parameter.zero_()
        result["plain"] = float(plain(x).abs().max())
    return Measured(numbers=result)


def deletion(numbers: Numbers) -> list[Relation]:
    """The input comes out where there are skips, and nothing where there are none."""
    return [
        at_most("residual: output less input", numbers["residual"], 0.0),
        at_most("aggregated: output less input", numbers["aggregated"], 0.0),
        at_most("plain: output", numbers["plain"], 0.0),
    ]


SECTION_4_DELETION = Claim(
    name="singularity.section_4_deletion",
    statement="With all layers deleted a residual network returns its input, and a plain one zero.",
    tested="Outputs with all branches dropped, and with all weights zero.",
    definition="an identity of the implementation",
    links=(
        Link(
            to="singularity.layer_deletion",
            difference="the claim deletes all layers of a linear network at once; the study one "
            "block of a trained network at a time, and asks what that costs",
        ),
    ),
    measure=measure_deletion,
    law=deletion,
)
