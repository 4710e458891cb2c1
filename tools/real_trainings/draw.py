"""Draw the list of cases from a seed, before any of them is run."""

import math
import random
from collections.abc import Callable

from tools.real_trainings.case import Case, Setting
from tools.real_trainings.networks.parts import INITIALIZATIONS
from tools.real_trainings.tasks.registry import TASKS
from tools.real_trainings.tasks.task import Task

SEED = 2037
NUM_SETTINGS = 6
SHORTEST = 300
HELD_OUT_TASK = "segment-shapes"
HELD_OUT_FAMILY = "mixer"
DECADES = 3.0
"""Learning rates spread over this many decades, half of them above the sensible rate."""

NETWORKS: dict[str, dict[str, int]] = {
    "cifar-10": {"conv": 3, "vit": 3, "mixer": 4},
    "segment-shapes": {"unet": 3, "conv": 2},
}
"""Networks per family of a task; four per task, evenly over its families, where it is not named."""

ADAM_RATES = {"vit": 2e-3, "mixer": 2e-3, "transformer": 2e-3, "recurrent": 5e-3}
"""Sensible rates of Adam with these widths; 3e-3 for the other families."""

ACTIVATIONS = ("relu", "relu", "gelu", "tanh", "silu", "leaky-relu")


def draw_cases(seed: int = SEED) -> list[Case]:
    """All cases, interleaved over the tasks: every prefix is balanced and has whole groups."""
    groups: dict[str, list[list[Case]]] = {}
    for name, task in TASKS.items():
        draw = random.Random(f"{seed}/{name}")
        families = NETWORKS.get(name) or {
            family: 4 // len(task.families) for family in task.families
        }
        turns = [f for turn in range(9) for f, count in families.items() if turn < count]
        groups[name] = [
            _draw_group(draw, task, family, f"{name}/{index:02d}")
            for index, family in enumerate(turns)
        ]
    longest = max(len(networks) for networks in groups.values())
    return [
        networks[index][setting]
        for index in range(longest)
        for setting in range(NUM_SETTINGS)
        for networks in groups.values()
        if index < len(networks)
    ]


def _draw_group(draw: random.Random, task: Task, family: str, network_id: str) -> list[Case]:
    """One network with its budget and several settings, the first of them sensible."""
    network = FAMILIES[family](draw)
    initialization = draw.choice(("default",) * 4 + INITIALIZATIONS)
    budget = 50 * round(_log_uniform(draw, SHORTEST, task.longest) / 50)
    cases = []
    for number in range(NUM_SETTINGS):
        is_reference = number == 0
        setting = (_draw_reference if is_reference else _draw_setting)(draw, task, family)
        cases.append(
            Case(
                id=f"{network_id}/{number}",
                network_id=network_id,
                task=task.name,
                kind=task.kind,
                family=family,
                network=network,
                initialization=initialization,
                budget=budget,
                setting=setting,
                is_reference=is_reference,
                is_held_out=task.name == HELD_OUT_TASK or family == HELD_OUT_FAMILY,
            )
        )
    return cases


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def _sensible_rate(optimizer: str, task: Task, family: str) -> float:
    adam = ADAM_RATES.get(family, 3e-3)
    return {
        "sgd": task.sgd_rate,
        # momentum 0.9 makes a step ten times as long in the end; people lower the rate less
        "momentum": 0.2 * task.sgd_rate,
        "adam": adam,
        "adamw": adam,
        "rmsprop": 0.5 * adam,
    }[optimizer]


def _draw_reference(draw: random.Random, task: Task, family: str) -> Setting:
    """Adam or AdamW within a factor of 2 of the sensible rate, with a usual schedule."""
    optimizer = draw.choice(("adam", "adamw"))
    rate = _sensible_rate(optimizer, task, family) * _log_uniform(draw, 0.5, 2.0)
    return Setting(
        optimizer=optimizer,
        learning_rate=float(f"{rate:.3g}"),
        batch_size=task.batch_sizes[len(task.batch_sizes) // 2],
        schedule=draw.choice(("constant", "cosine-warmup", "linear")),
        clip=1.0,
        weight_decay=0.01 if optimizer == "adamw" else 0.0,
    )


def _draw_setting(draw: random.Random, task: Task, family: str) -> Setting:
    optimizer = draw.choice(("sgd", "momentum", "adam", "adamw", "rmsprop"))
    factor = 10 ** (DECADES / 2)
    rate = _sensible_rate(optimizer, task, family) * _log_uniform(draw, 1 / factor, factor)
    decays = (0.0, 0.01, 0.1) if optimizer == "adamw" else (0.0, 0.0, 1e-4, 1e-3)
    return Setting(
        optimizer=optimizer,
        learning_rate=float(f"{rate:.3g}"),
        batch_size=draw.choice(task.batch_sizes),
        schedule=draw.choice(
            ("constant", "constant", "cosine-warmup", "one-cycle", "step", "linear")
        ),
        clip=draw.choice((None, None, None, 1.0, 0.1)),
        weight_decay=draw.choice(decays),
    )


def _draw_dense(draw: random.Random) -> dict[str, object]:
    return {
        "width": draw.choice((16, 32, 64)),
        "depth": draw.choice((1, 2, 3, 4, 6, 8, 12)),
        "norm": draw.choice(("none", "none", "layer", "batch")),
        "activation": draw.choice(ACTIVATIONS),
        "residual": draw.random() < 0.4,
    }


def _draw_conv(draw: random.Random) -> dict[str, object]:
    return {
        "width": draw.choice((6, 8, 12)),
        "depth": draw.choice((2, 3, 4, 6, 8)),
        "norm": draw.choice(("none", "batch", "batch", "group")),
        "activation": draw.choice(ACTIVATIONS),
        "residual": draw.random() < 0.4,
    }


def _draw_unet(draw: random.Random) -> dict[str, object]:
    return {**_draw_conv(draw), "width": draw.choice((4, 6, 8)), "depth": draw.choice((1, 1, 2))}


def _draw_transformer(draw: random.Random) -> dict[str, object]:
    return {
        "width": draw.choice((16, 24, 32)),
        "depth": draw.choice((1, 2, 3, 4)),
        "heads": draw.choice((2, 4)),
        "norm": draw.choice(("pre", "pre", "post", "none")),
        "activation": draw.choice(("gelu", "relu", "silu", "tanh")),
    }


def _draw_mixer(draw: random.Random) -> dict[str, object]:
    return {
        "width": draw.choice((16, 24, 32)),
        "depth": draw.choice((1, 2, 3, 4)),
        "norm": draw.choice(("layer", "layer", "none")),
        "activation": draw.choice(("gelu", "relu", "silu", "tanh")),
    }


def _draw_recurrent(draw: random.Random) -> dict[str, object]:
    return {
        "cell": draw.choice(("lstm", "gru", "lstm", "gru", "rnn")),
        "width": draw.choice((16, 24, 32)),
        "depth": draw.choice((1, 1, 2)),
    }


def _draw_graph(draw: random.Random) -> dict[str, object]:
    return {
        "width": draw.choice((16, 24, 32)),
        "depth": draw.choice((1, 2, 3, 4, 6, 8)),
        "norm": draw.choice(("none", "layer")),
        "activation": draw.choice(ACTIVATIONS),
        "residual": draw.random() < 0.4,
    }


FAMILIES: dict[str, Callable[[random.Random], dict[str, object]]] = {
    "dense": _draw_dense,
    "conv": _draw_conv,
    "unet": _draw_unet,
    "vit": _draw_transformer,
    "mixer": _draw_mixer,
    "transformer": _draw_transformer,
    "recurrent": _draw_recurrent,
    "graph": _draw_graph,
}
