"""Run the benchmarks named on the command line, or all but the long ones: one JSON object per line.

python -m benchmarks measure hosvd
python -m benchmarks --against OLD.jsonl        # and what got slower since, by more than a tenth
python -m benchmarks diagnose --against HEAD~5  # the same of a revision, both measured here in turns
python -m benchmarks measure --rounds 3         # three times as many repeats of each case
"""

import importlib
import json
import sys
from pathlib import Path

from benchmarks.against import Line, changes, checked_out, in_turns, is_revision, read_lines

# Modules of this package with a function `lines(rounds=…)`; each is imported when its turn comes. All of them
# together take nine minutes of one core (docs/cost.md): `rounds` multiplies their repeats.
BENCHMARKS = (
    "commands",
    "training_step",
    "hosvd",
    "measure",
    "diagnose",
    "watching",
    "ledger",
    "training_loop",
    "conv_spectrum",
    "procrustes",
    "curvature",
)
# Counts rather than ratios, or of many minutes: only when named; their options are their own.
LONG = (
    *("estimators", "kill", "treatment", "growth", "imagenet_stream", "transformer_faults"),
    *("events", "fuzz", "soak", "real_bugs", "attention", "dependence", "forecast", "gpu"),
    "device",
)


def main(phrase: list[str]) -> int:
    """Print the lines of each; words from another `--` on are a benchmark's.

    Returns:
        0; 1 where something is slower than in the earlier run; 2 for a name or file that is not there.
    """
    if {"-h", "--help"} & set(phrase):
        print(f"{__doc__}\nThere are {', '.join(BENCHMARKS)};\nof many minutes {', '.join(LONG)}.")
        return 0
    given = ""
    if "--against" in phrase:
        location = phrase.index("--against")
        given = phrase[location + 1] if location + 1 < len(phrase) else ""
        phrase = phrase[:location] + phrase[location + 2 :]
        if not Path(given).is_file() and not is_revision(given):
            print(f"--against takes the lines of an earlier run, or a revision, but {given!r} is no file "
                  "and no commit.", file=sys.stderr)  # fmt: skip
            return 2
    names = phrase[: next((i for i, word in enumerate(phrase) if word.startswith("--")), None)]
    if unknown := [name for name in names if name not in (*BENCHMARKS, *LONG)]:
        there_are = ", ".join((*BENCHMARKS, *LONG))
        print(f"There is no benchmark named {unknown[0]}; there are {there_are}.", file=sys.stderr)
        return 2
    try:
        rounds = _rounds(phrase)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    earlier, measured = _measure(names or list(BENCHMARKS), given, rounds=rounds)
    result = changes(earlier, measured)
    for kind, text in result:
        print(f"{kind}: {text}", file=sys.stderr)
    if earlier and not result:
        print("Nothing changed by more than a tenth.", file=sys.stderr)
    return 1 if any(kind == "slower" for kind, _ in result) else 0


def _rounds(phrase: list[str]) -> int:
    """How many times as many repeats as usual are asked for."""
    if "--rounds" not in phrase:
        return 1
    text = "".join(phrase[phrase.index("--rounds") + 1 :][:1])
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--rounds takes a whole number from 1 on, but {text!r} was given.")
    return int(text)


def _measure(names: list[str], against: str, *, rounds: int = 1) -> tuple[list[Line], list[Line]]:
    """The lines of before, if any, and those of now, which are printed as they come."""
    earlier: list[Line] = []
    measured: list[Line] = []
    if against and not Path(against).is_file():
        with checked_out(against) as tree:
            for old, new in in_turns(tree, Path.cwd(), names, rounds=rounds):
                print(json.dumps({**new, "before": old}), flush=True)
                earlier.append(old)
                measured.append(new)
        return earlier, measured
    for name in names:
        options = {"rounds": rounds} if name in BENCHMARKS else {}
        for line in importlib.import_module(f"benchmarks.{name}").lines(**options):
            print(json.dumps(line), flush=True)
            measured.append(line)
    return read_lines(Path(against)) if against else [], measured


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
