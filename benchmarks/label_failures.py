"""Which numbers of `failing_networks` fail untreated: one JSON object a line, resumable.

python -m benchmarks.label_failures OUT.jsonl FIRST COUNT
"""

import json
import sys
import time
from pathlib import Path

import torch

from benchmarks.failing_networks import FailureDraw, is_failing, untreated_accuracies


def main(out: Path, first: int, count: int) -> None:
    """Label the numbers from `first` that the file does not hold."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # fading signals end in numbers that a CPU is slow on
    done = set()
    if out.exists():
        done = {json.loads(line)["number"] for line in out.read_text().splitlines()}
    for number in range(first, first + count):
        if number in done:
            continue
        began = time.process_time()
        accuracies = untreated_accuracies(FailureDraw.of(number))
        line = {
            "number": number,
            "fails": is_failing(accuracies),
            "accuracies": [round(a, 3) for a in accuracies],
            "seconds": round(time.process_time() - began, 2),
        }
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
