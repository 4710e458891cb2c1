"""The settings of a recipe as arguments of Hugging Face's `TrainingArguments`."""

from bathyscope.remedies import Recipe
from bathyscope.remedies.settings import (
    ClipGradient,
    DecayWeights,
    ReplaceOptimizer,
    ScaleRate,
    WarmUp,
)


def trainer_arguments(recipe: Recipe, learning_rate: float) -> str:
    """The call that has the recipe's settings; empty where it has none that a trainer knows.

    Args:
        recipe: what was found.
        learning_rate: that of the trainer, which a recipe may scale.

    Examples:
        >>> trainer_arguments(Recipe(steps=(ScaleRate(factor=0.1), WarmUp(steps=20))), 0.01)
        'TrainingArguments(learning_rate=0.001, warmup_steps=20)'
    """
    given: dict[str, float | str] = {}
    for step in recipe.steps:
        match step:
            case ReplaceOptimizer(kind="sgd"):
                given |= {"optim": "sgd", "optim_args": f"momentum={step.momentum:g}"}
                given |= {"learning_rate": step.lr, "weight_decay": step.weight_decay}
            case ReplaceOptimizer():  # without weight decay AdamW is Adam
                given["optim"] = "adamw_torch"
                given |= {"learning_rate": step.lr, "weight_decay": step.weight_decay}
            case ScaleRate():
                rate = float(given.get("learning_rate", learning_rate)) * step.factor
                given["learning_rate"] = float(f"{rate:.6g}")
            case DecayWeights():
                given["weight_decay"] = step.value
            case ClipGradient():
                given["max_grad_norm"] = step.norm
            case WarmUp():
                given["warmup_steps"] = step.steps
    if not given:
        return ""
    return f"TrainingArguments({', '.join(f'{name}={value!r}' for name, value in given.items())})"
