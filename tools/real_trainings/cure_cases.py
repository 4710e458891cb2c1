"""Which failing and lagging trainings of the table `treat` is scored on; drawn before any was treated."""

import json
import random
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.real_trainings.case import Case, read_cases
from tools.real_trainings.labels import label_records
from tools.real_trainings.store import read_records

FOLDER = Path(__file__).parent / "cures"
CASES = FOLDER / "cases.jsonl"
EACH, SHUFFLED, PER_TASK = 15, 4, 3
LARGEST_BUDGET, LARGEST_SECONDS = 800, 4.0
"""What is drawn from: short trainings, so that four whole trainings of each can be had."""

SEED = 37
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

    def made(id: str, purpose: str, *, is_shuffled: bool = False) -> CureCase:
        label, end = labels[id, 0], labels[id, 0].end
        constant = records[id, 0].constant_loss
        known = end if end < float("inf") else None
        return CureCase(id, label.label, purpose, is_shuffled, constant, label.best, known)

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


def _is_short(case: Case, seconds: float) -> bool:
    return case.budget <= LARGEST_BUDGET and seconds <= LARGEST_SECONDS


def write(cases: list[CureCase]) -> None:
    """One JSON object a line."""
    FOLDER.mkdir(exist_ok=True)
    CASES.write_text("".join(json.dumps(asdict(case)) + "\n" for case in cases))


def read() -> list[CureCase]:
    """The cases as they were drawn."""
    return [CureCase(**json.loads(line)) for line in CASES.read_text().splitlines()]
