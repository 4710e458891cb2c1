"""Which failing and lagging trainings of the table `treat` is scored on; drawn before any was treated."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tools.real_trainings.case import Case, read_cases
from tools.real_trainings.labels import Labeled, label_records
from tools.real_trainings.record import Record
from tools.real_trainings.store import read_records

FOLDER = Path(__file__).parent / "cures"
CASES = FOLDER / "cases.jsonl"
SECOND = FOLDER / "second-cases.jsonl"
EACH, SHUFFLED, PER_TASK = 15, 4, 3
LARGEST_BUDGET, LARGEST_SECONDS = 800, 4.0
"""What is drawn from: short trainings, so that four whole trainings of each can be had."""

SEED = 37
PER_NETWORK, LARGEST_SECOND, SLOWEST = 2, 1200, 0.03
"""Of the second list: what the first left is fewer networks, so longer trainings are taken too."""

_SHUFFLEABLE = ("mnist", "fashion-mnist", "cifar-10", "tagging", "multilabel-shapes")


@dataclass(frozen=True)
class CureCase:
    """A training to be treated.

    Attributes:
        id: of the table's case; seed 0 of it failed or lagged.
        label: which of the two.
        purpose: `score`, or `development`, which may be looked at.
        is_shuffled: its targets are shuffled within each batch, so that nothing can help it.
        constant, best: ends of the constant baseline and of the best setting of the same network.
        end: of the training as the table has it.
    """

    id: str
    label: str
    purpose: str
    is_shuffled: bool
    constant: float
    best: float
    end: float | None


def draw() -> list[CureCase]:
    """30 trainings to score, at most three of a task; four with shuffled targets; eight to develop on."""
    by_id = {case.id: case for case in read_cases()}
    records = {(r.id, r.seed): r for r in read_records() if r.seed == 0}
    labels = label_records(by_id.values(), records.values())
    generator = random.Random(SEED)
    order = sorted(id for id, seed in labels if seed == 0)
    generator.shuffle(order)

    made = partial(_made, labels, records)
    fits = [id for id in order if _is_short(by_id[id], records[id, 0].cpu_seconds)]
    chosen: list[CureCase] = []
    taken: Counter[str] = Counter()
    used: set[str] = set()  # a network is drawn once
    for purpose, number in (("score", EACH), ("development", 4)):
        for wanted in ("fails", "lags"):
            left = number
            for id in fits:
                case, label = by_id[id], labels[id, 0]
                is_curable = label.reason != "no setting trains"
                if left and label.label == wanted and is_curable and case.network_id not in used:
                    if purpose == "score" and taken[case.task] >= PER_TASK:
                        continue
                    taken[case.task] += 1
                    used.add(case.network_id)
                    chosen.append(made(id, purpose))
                    left -= 1
    for id in fits:
        case = by_id[id]
        if case.task in _SHUFFLEABLE and case.network_id not in used:
            used.add(case.network_id)
            chosen.append(made(id, "score", is_shuffled=True))
            if sum(c.is_shuffled for c in chosen) == SHUFFLED:
                break
    return chosen


def draw_second() -> list[CureCase]:
    """30 more and four with shuffled targets, of networks that the first list does not hold.

    Failing ones first, as they are fewer; at most two of a network and four of a task.
    """
    by_id = {case.id: case for case in read_cases()}
    records = {(r.id, r.seed): r for r in read_records() if r.seed == 0}
    labels = label_records(by_id.values(), records.values())
    taken = {by_id[case.id].network_id for case in read()}
    order = sorted(id for id, _ in labels)
    random.Random(SEED + 1).shuffle(order)
    fits = [
        id
        for id in order
        if by_id[id].network_id not in taken
        and not by_id[id].is_held_out
        and by_id[id].budget <= LARGEST_SECOND
        and records[id, 0].step_seconds <= SLOWEST
    ]
    chosen: list[CureCase] = []
    networks: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    for wanted, most in (("fails", EACH), ("lags", 2 * EACH)):
        for id in fits:
            case, label = by_id[id], labels[id, 0]
            is_full = networks[case.network_id] >= PER_NETWORK or tasks[case.task] >= PER_TASK + 1
            is_curable = label.reason != "no setting trains"
            if label.label == wanted and is_curable and not is_full and len(chosen) < most:
                networks[case.network_id] += 1
                tasks[case.task] += 1
                chosen.append(_made(labels, records, id, "score"))
    free = [i for i in fits if by_id[i].task in _SHUFFLEABLE and i not in {c.id for c in chosen}]
    shuffled = [_made(labels, records, i, "score", is_shuffled=True) for i in free[:SHUFFLED]]
    return chosen + shuffled


def _made(
    labels: Mapping[tuple[str, int], Labeled],
    records: Mapping[tuple[str, int], Record],
    id: str,
    purpose: str,
    *,
    is_shuffled: bool = False,
) -> CureCase:
    label, end = labels[id, 0], labels[id, 0].end
    constant = records[id, 0].constant_loss
    known = end if end < float("inf") else None
    return CureCase(id, label.label, purpose, is_shuffled, constant, label.best, known)


def _is_short(case: Case, seconds: float) -> bool:
    return case.budget <= LARGEST_BUDGET and seconds <= LARGEST_SECONDS


def write(cases: list[CureCase], path: Path = CASES) -> None:
    """One JSON object a line."""
    FOLDER.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(asdict(case)) + "\n" for case in cases))


def read(path: Path = CASES) -> list[CureCase]:
    """The cases as they were drawn."""
    return [CureCase(**json.loads(line)) for line in path.read_text().splitlines()]
