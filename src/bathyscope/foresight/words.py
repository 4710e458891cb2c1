"""The features of a forecast in words."""

import itertools
import math

from bathyscope.foresight.course import FirstSteps
from bathyscope.foresight.readings import Reading


def describe_evidence(name: str, reading: Reading) -> str:
    """One feature's value as a sentence's part.

    Args:
        name: of the feature.
        reading: where its value stands.
    """
    value, step = reading.values[name], reading.step
    losses, constant = reading.losses, reading.goal.constant_loss
    last = losses[-max(1, len(losses) // 4) :]
    match name:
        case "depth":
            return f"{round(10**value)} weighted layers"
        case "excess":
            return f"the first loss is {losses[0]:.3g}, the constant baseline's {constant:.3g}"
        case "gradient":
            return f"the gradient's norm is {10**value:.2g}"
        case "gradient_range":
            return f"gradients of the layers differ by a factor of {10**value:.2g}"
        case "update" | "update_miss":
            middle = reading.values["update"]
            return f"a step changes the middle layer's weights by {100 * 10**middle:.2g} %"
        case "update_range":
            return f"the largest relative step of a layer is {10**value:.2g} times the middle one"
        case "spread":
            return f"{100 * 10**value:.2g} % of the output depends on the sample"
        case "gone":
            mean = sum(last) / len(last)
            when = f"over the last {len(last)} of {step} steps"
            return f"the loss {when} is {mean:.3g}, the constant baseline's {constant:.3g}"
        case "slope":
            how = "fell" if value < 0 else "rose"
            fraction = 100 * abs(math.expm1(value))  # the slope is of the loss's logarithm
            return (
                f"the loss {how} by {fraction:.3g} % from the first half of the steps to the second"
            )
        case "spike":
            return f"the largest loss is {max(losses):.3g}, the constant baseline's {constant:.3g}"
        case "score" if reading.goal.kind == "labels":
            chance = reading.goal.chance
            right = value * (1 - chance) + chance
            return f"{100 * right:.0f} % of the labels are right, by chance {100 * chance:.0f} %"
        case "score":
            gone = round(100 * value)  # not -0
            return f"{gone} % of the way from the best constant to the targets is gone"
        case _:
            return f"the outputs moved towards their targets with a cosine of {value:.2f}"


def describe_feature(name: str, course: FirstSteps) -> str:
    """One feature of a course as a sentence's part."""
    reading, plan = course.readings[-1], course.plan
    steps, losses = len(course.losses), course.losses
    match name:
        case "slope" | "late slope" if "slope" in reading.values:
            return describe_evidence("slope", reading)
        case "noise" | "late spread":
            jumps = [abs(b - a) for a, b in itertools.pairwise(losses)]
            return f"the loss changes by {sum(jumps) / max(1, len(jumps)):.2g} from step to step"
        case "gradient" | "late gradient" | "gradient change" | "gradient spread":
            norms = course.gradient_norms
            return f"the gradient's norm went from {norms[0]:.2g} to {norms[-1]:.2g}"
        case "rate" | "rate so far" | "factor now" | "fraction of rates" | "factor at the end":
            now = sum(plan.rates.at(steps - 1)) / len(plan.rates.at(steps - 1))
            return f"the learning rate is {now:.2g}, the largest {plan.rates.largest:.2g}"
        case "budget" | "fraction of budget":
            return f"{steps} of {plan.budget} steps were seen"
        case "parameters" | "batch" | "clipped" | "adaptive" | "momentum" | "depth":
            return f"{course.num_parameters} parameters, {course.batch_size} samples a step"
        case "first gradient range":
            return describe_evidence("gradient_range", course.readings[0])
        case "first update":
            return describe_evidence("update", course.readings[0])
        case "gradient_range" | "update" | "update_miss" | "update_range" | "spread":
            return describe_evidence(name, reading)
        case "score" | "alignment" if reading.goal.kind != "other" and name in reading.values:
            return describe_evidence(name, reading)
        case _:
            tail = losses[-max(1, steps // 4) :]
            constant = (
                ""
                if course.baseline is None
                else f", the constant baseline's {course.baseline:.3g}"
            )
            return (
                f"the loss over the last {len(tail)} of {steps} steps is {sum(tail) / len(tail):.3g}, the "
                f"untrained network's {losses[0]:.3g}{constant}"
            )
