"""Thirty-four silent bugs that people have reported, written as small programs with corrected twins.

Each file has `train(fault, seed)`, which returns a score on held-out data (lower is better), and is a script
of its own: `python lo02.py [--corrected] [--seed N]`. The line of the fault ends with `# the fault`.
`lo` are faults of the loop, `st` of model, batch or loss, `tc` those that TrainCheck (OSDI 2025) reproduces.
"""

NAMES = [
    "lo02",
    "lo04",
    "lo06",
    "lo08",
    "lo10",
    "lo12",
    "lo14",
    "lo16",
    "lo18",
    "st02",
    "st04",
    "st06",
    "st08",
    "st10",
    "st12",
    "st14",
    "st16",
    "st18",
    "st20",
    "st22",
    "st24",
    "st26",
    "st28",
    "st30",
    "st32",
    "st34",
    "tc02",
    "tc04",
    "tc06",
    "tc08",
    "tc10",
    "tc12",
    "tc14",
    "tc16",
]

SCRIPTS = [
    "lo02",
    "lo04",
    "lo06",
    "lo08",
    "lo10",
    "lo12",
    "lo14",
    "lo16",
    "lo18",
    "st16",
    "st18",
    "st34",
    "tc02",
    "tc06",
    "tc10",
    "tc14",
]
"""Those that are also run as files by `bathyscope run`."""
