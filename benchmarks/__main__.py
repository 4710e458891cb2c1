"""Run the benchmarks named on the command line, or all: one JSON object a line."""

import importlib
import json
import sys

# Modules of this package with a function `lines()`; each is imported when its turn comes.
BENCHMARKS = (
    "training_step",
    "hosvd",
    "measure",
    "attention",
    "watching",
    "forecast",
    "training_loop",
    "stacked",
    "conv_spectrum",
    "procrustes",
    "estimators",
    "kill",
    "curvature",
    "treatment",
)
# Counts rather than ratios, of half an hour: only when named.
LONG = ("growth", "imagenet_stream", "transformer_faults", "events", "fuzz", "soak", "real_bugs")


def main(names: list[str]) -> int:
    """Print the lines of each; 2 for a name that is not there. Words from `--` on are a benchmark's."""
    names = names[: next((i for i, word in enumerate(names) if word.startswith("--")), None)]
    if unknown := [name for name in names if name not in (*BENCHMARKS, *LONG)]:
        there_are = ", ".join((*BENCHMARKS, *LONG))
        print(f"There is no benchmark named {unknown[0]}; there are {there_are}.", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        for line in importlib.import_module(f"benchmarks.{name}").lines():
            print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
