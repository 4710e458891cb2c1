"""A recipe: remedies in their order, as data that is saved, reported, printed as code and applied again."""

import ast
import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from bathyscope.core.arguments import check_path
from bathyscope.core.batch import check_parameters, check_values
from bathyscope.core.calls import unwrap
from bathyscope.core.errors import BathyscopeError, UsageError
from bathyscope.core.files import check_location, make_folder, write_atomic
from bathyscope.core.json_values import JsonMapping
from bathyscope.remedies.activations import TailorActivations
from bathyscope.remedies.attention import NormalizeQueries, NormFirst, PenalizeLogZ, ScaleBranches
from bathyscope.remedies.change import Change
from bathyscope.remedies.edit_plan import plan_edits
from bathyscope.remedies.interface import (
    AddActivations,
    DropActivation,
    ReplaceActivation,
    ScaleOutputs,
    StandardizeInputs,
)
from bathyscope.remedies.learned_factor import LearnFactors
from bathyscope.remedies.normalize import AddNorms
from bathyscope.remedies.remedy import CHANGE_LEVELS, ChangeLevel
from bathyscope.remedies.rescale import ProjectTransitions, ScaleWeights, SetWeights
from bathyscope.remedies.settings import (
    ClipGradient,
    DecayWeights,
    ReplaceOptimizer,
    ScaleRate,
    WarmUp,
)
from bathyscope.remedies.shortcut import AddShortcuts, fit_to
from bathyscope.remedies.start import DrawWeights, StartRecurrence, drawing_code

AnyRemedy = Annotated[
    ScaleRate
    | DecayWeights
    | ClipGradient
    | WarmUp
    | ReplaceOptimizer
    | DrawWeights
    | StartRecurrence
    | ScaleWeights
    | SetWeights
    | ProjectTransitions
    | TailorActivations
    | AddShortcuts
    | AddNorms
    | StandardizeInputs
    | NormalizeQueries
    | NormFirst
    | ScaleBranches
    | LearnFactors
    | PenalizeLogZ
    | DropActivation
    | ReplaceActivation
    | AddActivations
    | ScaleOutputs,
    Field(discriminator="name"),
]

_IMPORTS = {
    "math": "import math",
    "bathyscope": "import bathyscope",
    "torch": "import torch",
    "F": "import torch.nn.functional as F",
    "Tensor": "from torch import Tensor",
    "nn": "from torch import nn",
    "RemovableHandle": "from torch.utils.hooks import RemovableHandle",
}
"""What printed code may need, by the word that shows it."""

LEARNING_RATE = 0.1
"""Of the optimizer where none is given: SGD with momentum 0.9, as the papers train."""


class Recipe(BaseModel):
    """Remedies, applied one after the other.

    Examples:
        >>> recipe = Recipe(steps=(DrawWeights(scheme="orthogonal"), ScaleRate(factor=0.1)))
        >>> recipe.description
        'weights re-initialized (orthogonal, gain 1), learning rate × 0.1'
        >>> recipe.level
        'weights'
        >>> Recipe.parse(recipe.to_json()) == recipe
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["bathyscope-recipe-1"] = "bathyscope-recipe-1"
    steps: tuple[AnyRemedy, ...] = ()

    @property
    def level(self) -> ChangeLevel:
        """The deepest level of its steps."""
        return max((step.level for step in self.steps), key=CHANGE_LEVELS.index, default="settings")

    @property
    def description(self) -> str:
        """What is done, in words."""
        return ", ".join(step.description for step in self.steps) or "nothing"

    @property
    def beside_the_weights(self) -> "Recipe":
        """The steps that weights saved after it do not hold: what a network needs to load them."""
        return Recipe(steps=tuple(step for step in self.steps if not step.in_weights))

    def code(self, model: nn.Module | None = None, inputs: object = None) -> str:
        """The change as PyTorch code over the names `model` and `optimizer`.

        Parameter names stay as they are, so weights of the treated network load after it.

        Args:
            model: the network that it is for, as it was before; it is left so. With it, and with inputs
                for one forward pass, blocks get a changed `forward` (`x + 0.1 * block(norm(x))`) where
                that is the same, and hooks are left for the others.
            inputs: what the model takes.
        """
        if not self.steps:
            return "# nothing is changed\n"
        plan = None if model is None else plan_edits(self.steps, unwrap(model), inputs)
        rest = self.steps if plan is None else plan.rest
        helpers = dict.fromkeys(helper for step in rest if step for helper in step.helpers)
        if plan is not None and plan.needs_fit:
            helpers = {fit_to: None} | helpers
        texts = [h if isinstance(h, str) else _short_source(inspect.getsource(h)) for h in helpers]
        sections = [text.rstrip("\n") for text in texts]
        for k, (whole, step) in enumerate(zip(self.steps, rest, strict=True)):
            lines = []
            if plan is not None and k == plan.first:
                edited = (w for w, r in zip(self.steps, rest, strict=True) if w != r)
                lines += [*map(_comment, edited), *plan.lines]
            if step == whole:
                lines.append(_comment(whole))
            if isinstance(step, DrawWeights) and model is not None:
                lines.append(drawing_code(step, unwrap(model)).rstrip("\n"))
            elif step is not None:
                lines.append(step.code().rstrip("\n"))
            if lines:
                sections.append("\n".join(lines))
        text = "\n\n".join(sections) + "\n"
        imports = [line for name, line in _IMPORTS.items() if re.search(rf"\b{name}\b", text)]
        return "\n".join([*imports, "", text])

    def to_json(self) -> str:
        """As JSON, indented."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write it as JSON.

        Raises:
            UsageError: the file cannot be written.
        """
        path = check_path("path", path)
        check_location(path)
        make_folder(path.parent)
        write_atomic(path, self.to_json().encode())
        return path

    @classmethod
    def parse(
        cls, given: "Recipe | str | bytes | JsonMapping", *, source: str = "The recipe"
    ) -> "Recipe":
        """A recipe from its JSON text or the values in it.

        Raises:
            UsageError: it is none; the step and the field that do not fit are named.
        """
        if isinstance(given, Recipe):
            return given
        try:
            values = json.loads(given) if isinstance(given, (str, bytes)) else dict(given)
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = " ".join(str(part) for part in first["loc"])
            raise UsageError(
                f"{source} cannot be read: {first['msg']} (at {where or 'its top'}); "
                "give one that `treatment.recipe.save(path)` wrote."
            ) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{source} is not a JSON object ({type(error).__name__}: {error}); "
                "give one that `treatment.recipe.save(path)` wrote."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> "Recipe":
        """Read a recipe that was saved.

        Raises:
            UsageError: there is none at the path, or it cannot be read.
        """
        path = check_path("The recipe", path)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise UsageError(f"There is no recipe at {path}: {error.strerror}.") from error
        return cls.parse(text, source=f"The recipe {path}")

    def apply_(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Change:
        """Apply every step, or none.

        Returns:
            One change that takes all of them back; its `optimizer` is the one to train with.

        Raises:
            UsageError: a step does not fit; it is named, and nothing is left changed. Or the model has
                tensors without values.
        """
        root = unwrap(model)
        check_values(root)
        whole = Change(self.description, optimizer=optimizer)
        for number, step in enumerate(self.steps, 1):
            try:
                change = step.apply_(root, whole.optimizer or optimizer)
            except Exception as error:
                whole.undo()
                if not isinstance(error, BathyscopeError):
                    raise
                raise UsageError(
                    f"Step {number} of the recipe ({step.description}) does not fit: {error} "
                    "Nothing was changed."
                ) from error
            whole.undone_by(change.undo)
            whole.blocks = tuple(dict.fromkeys((*whole.blocks, *change.blocks)))
            whole.optimizer = change.optimizer or whole.optimizer
        return whole


def _comment(step: AnyRemedy) -> str:
    """What a step does; the words may hold names of anyone's choice, and no line may leave the comment."""
    return f"# {' '.join(step.description.split())}"


def _short_source(source: str) -> str:
    """A function's or class's source without blank lines, of its docstrings the first line of the first."""
    lines: list[str | None] = list(source.splitlines())
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or not ast.get_docstring(node):
            continue
        text = node.body[0]
        first, last = text.lineno - 1, (text.end_lineno or text.lineno) - 1
        if node is not tree.body[0]:
            lines[first : last + 1] = [None] * (last + 1 - first)
        elif last > first:
            lines[first] = f'{lines[first]}"""'
            lines[first + 1 : last + 1] = [None] * (last - first)
    return "\n".join(line for line in lines if line is not None and line.strip()) + "\n"


def apply_(
    model: nn.Module,
    recipe: Recipe | str | Path | Mapping[str, object],
    *,
    optimizer: torch.optim.Optimizer | None = None,
) -> torch.optim.Optimizer:
    """Apply a recipe to a fresh model, in place: all of its steps or none.

    Args:
        model: changed in place.
        recipe: `treatment.recipe`, the path at which it was saved, or the values of its JSON.
        optimizer: the one meant for training; SGD at 0.1 with momentum 0.9 by default.

    Returns:
        The optimizer to train with: the given one, unless a step of the recipe makes another.

    Raises:
        UsageError: the recipe cannot be read, or one of its steps does not fit: it is named, and
            nothing is left changed.

    Examples:
        >>> model = nn.Linear(2, 2)
        >>> optimizer = apply_(model, {"steps": [{"name": "replace-optimizer", "kind": "adam"}]})
        >>> type(optimizer).__name__
        'Adam'
    """
    check_parameters(model)
    if isinstance(recipe, (str, Path)):
        recipe = Recipe.load(recipe)
    elif not isinstance(recipe, (Recipe, Mapping)):
        raise UsageError(
            f"A recipe is what a treatment holds, or the path of its JSON, but a "
            f"{type(recipe).__name__} was given."
        )
    optimizer = optimizer_or_default(model, optimizer)
    used = Recipe.parse(recipe).apply_(model, optimizer).optimizer
    assert used is not None
    return used


def optimizer_or_default(
    model: nn.Module, optimizer: torch.optim.Optimizer | None
) -> torch.optim.Optimizer:
    """The optimizer given, or SGD as the papers train.

    Raises:
        UsageError: it is not an optimizer, or nothing is there to train.
    """
    if optimizer is None:
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            raise UsageError(
                "No parameter of the model requires a gradient; unfreeze those that are to be trained."
            )
        return torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(
            f"The optimizer is a torch.optim.Optimizer, but a {type(optimizer).__name__} was given."
        )
    return optimizer
