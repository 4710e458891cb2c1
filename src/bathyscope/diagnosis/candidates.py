"""What `treat` can try, and for which findings: the remedies of `bathyscope.remedies`, named."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bathyscope import remedies
from bathyscope.certificates import best_prediction_weights
from bathyscope.core.batch import Batch, LossFn
from bathyscope.core.blocks import Blocks
from bathyscope.core.errors import UsageError
from bathyscope.core.records import Block, Finding
from bathyscope.remedies import Change


@dataclass(frozen=True, slots=True)
class Case:
    """What a remedy works on: the model, or a copy of it, with its optimizer, batch and findings."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Batch
    blocks: Blocks
    findings: tuple[Finding, ...]
    loss: LossFn | None = None

    def named_by(self, codes: frozenset[str]) -> list[Block]:
        """The blocks that findings of these codes name."""
        labels = {label for f in self.findings if f.code in codes for label in f.blocks}
        return [b for b in self.blocks if b.label in labels]

    @property
    def equal_shaped(self) -> list[Block]:
        """The blocks whose output has the shape of their input."""
        return [b for b in self.blocks if b.in_shape == b.out_shape]


Apply = Callable[[Case], Change | None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A remedy: its name, the codes it is for, and what it does (None where it does not apply).

    One that `solves` lowers the loss at once: what it gains counts from the loss before it.
    """

    name: str
    codes: frozenset[str]
    apply: Apply
    solves: bool = False


_LOCAL = frozenset(
    {
        "not-finite",
        "exploding-weights",
        "ill-conditioned-weights",
        "dead-units",
        "silent-branch",
        "batchnorm-masks",
        "flat-start",
        "flat-to-second-order",
    }
)
_DEPTH = frozenset(
    {
        "exploding-gradient",
        "vanishing-gradient",
        "collapsed-representation",
        "singular-representation",
        "not-norm-preserving",
        "cut-gradient",
        "dead-units",
    }
)
_STEPS = frozenset(
    {
        "large-update",
        "exploding-gradient",
        "exploding-weights",
        "not-norm-preserving",
        "unstable-rate",
    }
)


def _reinitialise(case: Case) -> Change | None:
    blocks = case.named_by(_LOCAL)
    generator = torch.Generator().manual_seed(0)
    return remedies.reinitialise_(case.model, blocks, generator=generator) if blocks else None


def _shortcut(case: Case) -> Change | None:
    blocks = case.equal_shaped
    if not blocks:
        return None
    return remedies.shortcut_(case.model, blocks, scale=len(blocks) ** -0.5)


def _scale_branches(case: Case) -> Change | None:
    blocks = case.equal_shaped
    if not blocks:
        return None
    change = remedies.scale_(case.model, dict.fromkeys(blocks, len(blocks) ** -0.5))
    change.what = "scaled each branch by 1/√depth"
    return change


def _zero_last_layers(case: Case) -> Change | None:
    blocks = case.equal_shaped
    return remedies.zero_last_layers_(case.model, blocks) if blocks else None


def _normalise(case: Case) -> Change | None:
    try:
        return remedies.normalise_(case.model, case.blocks[1:])  # the first reads the user's data
    except UsageError:  # each block has a norm already
        return None


def _unit_variance(case: Case) -> Change | None:
    return remedies.unit_variance_(case.model, case.batch[0], case.blocks)


def _slower(case: Case) -> Change | None:
    return remedies.learning_rate_(case.optimizer, factor=0.1)


def _stable(case: Case) -> Change | None:
    """A tenth of the greatest rate that the curvature allows: it mostly grows once training begins."""
    told = next((f.evidence for f in case.findings if f.code == "unstable-rate"), None)
    if told is None:
        return None
    rate, stable = told["learning_rate"], told["stable_rate"]
    assert isinstance(rate, float)
    assert isinstance(stable, float)
    return remedies.learning_rate_(case.optimizer, factor=stable / (10 * rate))


def _faster(case: Case) -> Change | None:
    return remedies.learning_rate_(case.optimizer, factor=10.0)


def _procrustes(case: Case) -> Change | None:
    """Only where a transition is to blame: other blocks have their shortcut for that."""
    if not any(b.changes_dimension for b in case.named_by(frozenset({"not-norm-preserving"}))):
        return None
    layers = list(remedies.transition_layers(case.model).values())
    if not layers:
        return None
    change = Change("Procrustes projection of the transitions")
    change.keeping(*(p for layer in layers for p in layer.parameters(recurse=False)))
    handle = remedies.procrustes_(case.optimizer, layers)
    handle.project()
    return change.undone_by(handle.remove)


def _solve_prediction_weights(case: Case) -> Change | None:
    """Only where it was found: on a batch that is small beside the features it would fit the noise."""
    if not any(f.code == "worse-than-linear" for f in case.findings):
        return None
    try:
        values = best_prediction_weights(case.model, case.batch, loss=case.loss)
    except UsageError:  # outside the family, or nothing to solve for
        return None
    parameters = {name: case.model.get_parameter(name) for name in values}
    change = Change("solved for the prediction weights").keeping(*parameters.values())
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])
    return change


def _together(*remedies: Apply) -> Apply:
    """One remedy after the other; nothing is left changed where one of them does not apply."""

    def apply(case: Case) -> Change | None:
        done: list[Change] = []
        for remedy in remedies:
            change = remedy(case)
            if change is None:
                for earlier in reversed(done):
                    earlier.undo()
                return None
            done.append(change)
        joined = Change(
            ", and ".join(c.what for c in done),
            done[0].blocks,
            structural=any(c.structural for c in done),
        )
        for change in done:
            joined.undone_by(change.undo)
        return joined

    return apply


CANDIDATES: tuple[Candidate, ...] = (
    Candidate("re-initialise the named blocks", _LOCAL, _reinitialise),
    Candidate(
        "re-initialise the named blocks, and zero the last layer of each branch",
        frozenset({"flat-start", "flat-to-second-order"}),
        _together(_reinitialise, _zero_last_layers),
    ),
    Candidate("identity shortcut around equal-shaped blocks", _DEPTH, _shortcut),
    Candidate("scale each branch by 1/√depth", _DEPTH, _scale_branches),
    Candidate("zero the last layer of each branch", _DEPTH, _zero_last_layers),
    Candidate("layer normalisation where there is none", _DEPTH, _normalise),
    Candidate("rescale every layer to unit variance", _DEPTH | _LOCAL, _unit_variance),
    Candidate("Procrustes on the transitions", frozenset({"not-norm-preserving"}), _procrustes),
    Candidate("learning rate ÷ 10", _STEPS | _DEPTH, _slower),
    Candidate("learning rate at a tenth of the stable one", frozenset({"unstable-rate"}), _stable),
    Candidate(
        "solve for the prediction weights",
        frozenset({"worse-than-linear"}),
        _solve_prediction_weights,
        solves=True,
    ),
    Candidate("learning rate × 10", frozenset({"small-update"}), _faster),
    Candidate("shortcut, and learning rate ÷ 10", _DEPTH, _together(_shortcut, _slower)),
    Candidate("shortcut, and layer normalisation", _DEPTH, _together(_shortcut, _normalise)),
    Candidate(
        "shortcut, layer normalisation, and learning rate ÷ 10",
        _DEPTH,
        _together(_shortcut, _normalise, _slower),
    ),
    Candidate("unit variance, and learning rate ÷ 10", _DEPTH, _together(_unit_variance, _slower)),
)
