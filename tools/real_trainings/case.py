"""One training to be run: a task, a network for it and the settings of its training."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "table"
"""The folder of the case list and of the recorded parts."""

CASES = TABLE / "cases.jsonl"


@dataclass(frozen=True)
class Setting:
    """How a network is trained; everything a user would choose besides the network.

    Attributes:
        optimizer: a key of `optimizers.OPTIMIZERS`.
        learning_rate: the largest of the schedule.
        batch_size: samples per step.
        schedule: a key of `schedules.SCHEDULES`.
        clip: the largest allowed gradient norm, or None.
        weight_decay: as the optimizer has it.
    """

    optimizer: str
    learning_rate: float
    batch_size: int
    schedule: str
    clip: float | None
    weight_decay: float


@dataclass(frozen=True)
class Case:
    """A training of the table; two seeds of it are run.

    Attributes:
        id: `network_id` and the number of the setting.
        network_id: shared by the settings of one network, which also share the budget.
        task: a key of `TASKS`.
        kind: the task's kind.
        family: the network's family, a key of the task's `families`.
        network: the choices that build the network.
        initialization: one of `INITIALIZATIONS`.
        budget: steps of the training.
        setting: how it is trained.
        is_reference: a sensible setting, so that every group has one that ought to train.
        is_held_out: kept to the end and scored once; nothing may be tuned on it.
    """

    id: str
    network_id: str
    task: str
    kind: str
    family: str
    network: Mapping[str, Any]
    initialization: str
    budget: int
    setting: Setting
    is_reference: bool
    is_held_out: bool


def write_cases(cases: list[Case], path: Path = CASES) -> None:
    """Write one JSON object per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(case)) + "\n" for case in cases))


def read_cases(path: Path = CASES) -> list[Case]:
    """The cases of the list, in the order in which they are run."""
    cases = []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        cases.append(Case(**{**fields, "setting": Setting(**fields["setting"])}))
    return cases
