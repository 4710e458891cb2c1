"""Command lines with odd words, and files that are damaged, each rebuilt from its number."""

import contextlib
import io
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.fuzzing.judge import Outcome

MODELS = """
import torch, sys
from torch import nn
def plain(): return nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
def flat(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
def lazy(): return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
def meta(): return flat().to("meta")
def fails(): raise ValueError("a model of the user's")
def leaves(): sys.exit(0)
def nothing(): return None
def needs(argument): return flat()
number = 3
def batch(): return torch.randn(6, 1, 8, 8), torch.arange(6)
def short(): return [(torch.randn(6, 1, 8, 8), torch.arange(6))]
def broken():
    yield torch.randn(6, 1, 8, 8), torch.arange(6)
    raise OSError("the disk is gone")
"""
RECIPE = '{"steps": [{"name": "draw-weights"}, {"name": "scale-rate", "factor": 0.1}]}'
EVENT = '{"code": "loss-spike", "step": 7, "began": "batch", "numbers": {"loss": 9.0}}\n'
HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b]52;c;aGk=\x07\x9b31m[/red][bold]"
"""Sets the title, clears the screen, writes to the clipboard, and breaks markup, if it is obeyed."""
SPECIAL = ("/dev/null", "/dev/full")
"""Targets that are not regular files."""
_MODEL = (
    "odd:flat",
    "odd:plain",
    "odd:lazy",
    "odd:meta",
    "odd:fails",
    "odd:leaves",
    "odd:nothing",
    "odd:needs",
    "odd:number",
    "odd:",
    ":f",
    ".odd:flat",
    "odd.py:flat",
    "nothere:f",
    "broken_module:f",
    "plain-8",
    "plain-9999999",
    "plain--3",
    "resnet-x",
    "",
    " ",
    "odd:flat:flat",
    "../odd:flat",
    "x" * 500,
    "\u202e",
    f"resnet-{HOSTILE}",
)
_DATA = (
    "digits",
    "odd:batch",
    "odd:short",
    "odd:broken",
    "odd:fails",
    "mnist9",
    "",
    "loop",
    ":x",
    "odd.py:batch",
)
_NUMBERS = ("1", "0", "-1", "1e9", "nan", "inf", "x", "", "0.1", "99999999999999999999")
_TEXT = (
    "",
    "x",
    "-",
    "--",
    "loop/a",
    "/nowhere/x.json",
    "a.json",
    "out.html",
    "cross_entropy",
    "mse",
    "*",
    "0",
    "--help",
)
_CASE = {
    "--data": _DATA,
    "--loss": ("cross_entropy", "cross-entropy", "mse", "odd:fails", "x", ""),
    "--optimizer": ("sgd", "adam", "x", ""),
    "--lr": _NUMBERS,
    "--samples": ("8", *_NUMBERS),
    "--seed": _NUMBERS,
    "--weights": ("weights.safetensors", "damaged", "loop/a", ".", ""),
    "--blocks": ("1", "*", "", "zz"),
    "--json": ("-", "a.json", "loop/a", "/nowhere/a", "", *SPECIAL),
    "--momentum": _NUMBERS,
    "--set": ("x=1", "x", "=", "", f"{HOSTILE}=1"),
}
_OUT = ("r.html", "r.json", "r.xyz", "loop/a", ".", "", "x" * 300, *SPECIAL)
_OWN: dict[str, dict[str, tuple[str, ...]]] = {
    "diagnose": {
        "--probes": ("standard", "x", ""),
        "--out": _OUT,
        "--fail-on": ("severe", "problem", "x", ""),
        "--steps": ("1", "0", "-1", "x", "nan"),
        "--thresholds": ("damaged", "loop/a", "x"),
        "--budget": _NUMBERS,
        "--most-blocks": _NUMBERS,
        "--memory": _NUMBERS,
        "--silence": ("dead-units", "x", ""),
        "--against": ("damaged", "loop/a", "grid.toml", ""),
        "--recipe": ("damaged", "loop/a", "recipe.json", ""),
    },
    "hessian": {
        "-k": ("1", "0", "-1", "x"),
        "--matrix": ("hessian", "gauss-newton", "x", ""),
        "--batchnorm": ("batch", "x"),
        "--parameters": ("1.*", "x", ""),
        "--vectors": ("2", "0", "x"),
        "--lanczos": ("2", "0", "x"),
    },
    "certify": {"--out": ("c.json", "loop/a")},
    "forecast": {"--budget": _NUMBERS, "--spend": ("1", "0", "-1", "x", "nan")},
    "treat": {
        "--recipe": ("recipe.json", "damaged", "loop/a", "grid.toml", "", "hostile.json"),
        "--allow": ("settings", "x", "", "settings,x"),
        "--spend": ("0", "-1", "x", "nan"),
        "--save": _OUT,
        "--save-recipe": ("new.json", "loop/a", "."),
    },
    "compare": {"--steps": ("1", "0", "-1", "x"), "--out": ("out", "loop/a", "odd.py")},
    "train": {
        "--out": ("t", "loop/a", "odd.py", "."),
        "--epochs": ("1", "0", "-1", "x"),
        "--schedule": ("constant", "x", ""),
        "--config": ("damaged", "loop/a", "grid.toml"),
        "--save-seconds": _NUMBERS,
        "--save-steps": ("1", "0", "x"),
    },
    "check": {"--model": ("odd:flat", "x", ""), "--fail-on": ("violated", "x", "")},
}
_LOCATIONS = {
    "reproduce": {
        "": ("x", "list", "", "nests.figure_99", "shortcut_length.figure_4"),
        "--preset": ("x", "", "printed"),
        "--out": ("loop/a", "odd.py"),
        "--seeds": ("0", "-1", "x", "nan"),
        "--workers": ("0", "-1", "x"),
    },
    "sweep": {
        "": ("grid.toml", "damaged", "loop/a", ".", "nowhere", "", "hostile.toml"),
        "--out": ("loop/a", "odd.py", "s"),
        "--on": ("x", "", "dask://", "slurmx"),
        "--workers": ("0", "-1", "x"),
    },
    "show": {
        "": (".", "damaged", "loop/a", "nowhere", "odd.py", "", "log", "hostile", HOSTILE),
        "--metric": ("loss", "x", ""),
        "--table": ("t.csv", "loop/a", "t.xyz", "."),
        "--plot": ("p.png", "loop/a", "p.xyz"),
    },
    "autopsy": {
        "": (".", "damaged", "loop/a", "nowhere", "weights.safetensors", "log", "", "hostile"),
        "--json": ("-", "loop/a"),
    },
    "data fetch": {
        "": ("mnist", "digits", "x", "", "folder:loop"),
        "--data-dir": ("here", "loop/a", "odd.py", ""),
        "--from": ("damaged", "loop/a", "nowhere", ".", "odd.py"),
    },
    "data path": {"": ("mnist", "digits", "x", ""), "--data-dir": ("here", "loop/a", "")},
    "data list": {"": ("",), "--data-dir": ("here", "loop/a", "odd.py")},
    "nets": {
        "": ("plain-8", "x", "", "plain-9999999"),
        "--size": _NUMBERS,
        "--channels": _NUMBERS,
        "--classes": _NUMBERS,
    },
    "explain": {"": ("dead-units", "x", ""), "--json": ("-", "loop/a")},
}
_ALONE: tuple[tuple[str, ...], ...] = (
    ("explain", "dead-units"),
    ("explain", "x"),
    ("explain",),
    ("nets",),
    ("nets", "--json"),
    ("nets", "plain-8"),
    ("check", "list"),
    ("check", "x"),
    ("check", "nests.theorem_99"),
    ("reproduce", "list"),
    ("reproduce", "x"),
    ("show", "."),
    ("show", "runs"),
    ("show", "damaged"),
    ("show", "loop/a"),
    ("show", "nowhere"),
    ("data", "list"),
    ("data", "path", "digits"),
    ("data", "path", "x"),
    ("data", "fetch", "x"),
    ("data", "x"),
    ("sweep", "damaged"),
    ("sweep", "grid.toml", "--dry-run"),
    ("sweep", "nowhere.toml"),
    ("sweep", "."),
    ("sweep", "loop/a"),
    ("x",),
    (),
    ("--version",),
    ("-h",),
    ("compare",),
    ("compare", "odd:flat"),
    ("train",),
    ("forecast", "x"),
    ("treat",),
    ("diagnose",),
    ("diagnose", "--help"),
    ("train", "odd:flat", "--out", "loop/a"),
)


def command(number: int) -> tuple[str, ...]:
    """The command line of a number."""
    draw = random.Random(number)
    if number < len(_ALONE):
        return _ALONE[number]
    if draw.random() < 0.15:
        line = list(draw.choice(_ALONE))
        line.insert(draw.randint(0, len(line)), draw.choice(_TEXT))
        return tuple(line)
    if draw.random() < 0.3:
        verb = draw.choice(list(_LOCATIONS))
        locations = dict(_LOCATIONS[verb])
        text = [*verb.split(), draw.choice(locations.pop(""))]
        if verb == "reproduce":  # never one that would run for minutes
            text += ["--preset", draw.choice(locations["--preset"])]
        if verb == "sweep":
            text.append("--dry-run")
        return (*text, *_drawn_options(draw, locations))
    verb = draw.choice(list(_OWN))
    text = [verb, draw.choice(_MODEL) if draw.random() < 0.5 else "odd:flat"]
    if verb == "compare":
        text.append("odd:flat")
    if verb == "check":
        text[1] = draw.choice(("norm_preservation.lemma_1", "x", "nests.theorem_99", "list"))
    if verb == "train":  # a later word of the same option goes before this one
        text += ["--out", "t", "--set", "max_steps=2", "--resume"]
    if verb == "treat":
        text += ["--recipe", "recipe.json"]
    text += ["--samples", "8", "--data", "odd:batch"]
    return (*text, *_drawn_options(draw, {**_CASE, **_OWN[verb]}))


def _drawn_options(draw: random.Random, options: dict[str, tuple[str, ...]]) -> list[str]:
    chosen = draw.sample(list(options), k=draw.randint(0, min(3, len(options))))
    return [word for option in chosen for word in (option, draw.choice(options[option]))]


def run_command(text: tuple[str, ...]) -> Outcome:
    """Run it in this process: its exit code must be one that is promised, and no traceback shown."""
    from bathyscope.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = sys.argv[:], sys.path[:]
    sys.argv = ["bathyscope", *text]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
                code: object = 0
            except SystemExit as error:
                code = 0 if error.code is None else error.code
            except BaseException as error:  # nothing may pass main
                return Outcome("defect", f"{type(error).__name__} passed main: {str(error)[:150]}")
    finally:
        sys.argv, sys.path[:] = before
    said = err.getvalue().strip()
    if any(not c.isprintable() and c not in "\n\t" for c in out.getvalue() + said):
        return Outcome("defect", "an escape sequence reaches the terminal")
    if replaced := [name for name in SPECIAL if Path(name).is_file()]:
        return Outcome("defect", f"{replaced[0]} was replaced by a file")
    if "Traceback" in said or "--debug shows where" in said:
        return Outcome("defect", f"raw: {said.splitlines()[-1][:250]}")
    if code not in (0, 1, 2, 3):
        return Outcome("defect", f"exit code {code!r}")
    if code and not said and not out.getvalue().strip():
        return Outcome("defect", f"exit code {code} and not a word")
    return Outcome("answered" if code in (0, 3) else "refused", said)


@contextlib.contextmanager
def odd_location(folder: Path) -> Iterator[None]:
    """A folder with models, weights, damaged files and a loop of links, as the working folder."""
    (folder / "odd.py").write_text(MODELS)
    (folder / "broken_module.py").write_text("import nothing_of_that_name\n")
    (folder / "damaged").write_bytes(b"\x80\x04{[\xff")
    (folder / "grid.toml").write_text("[product]\nlr = [0.1, 0.2]\n")
    (folder / "recipe.json").write_text(RECIPE)
    for name, code in (("log", "loss-spike"), ("hostile", HOSTILE)):
        (folder / name).mkdir()
        (folder / name / "steps.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
        event = json.loads(EVENT) | {"code": code, "began": code}
        (folder / name / "events.jsonl").write_text(json.dumps(event) + "\n")
    (folder / "hostile.json").write_text(json.dumps({"steps": [{"name": HOSTILE}]}))
    (folder / "hostile.toml").write_text(f"[product]\n{json.dumps(HOSTILE)} = [1]\n")
    (folder / "loop").symlink_to("loop")
    before = Path.cwd()
    os.chdir(folder)
    try:
        import safetensors.torch
        import torch
        from torch import nn

        safetensors.torch.save_file(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10)).state_dict(),
            "weights.safetensors",
        )
        torch.manual_seed(0)
        yield
    finally:
        os.chdir(before)
        sys.modules.pop("odd", None)


def make_run(folder: Path) -> None:
    """A short training in a run folder, and a report."""
    run_command(
        (
            "train",
            "odd:flat",
            "--data",
            "digits",
            "--out",
            str(folder / "run"),
            "--epochs",
            "1",
            "--set",
            "max_steps=3",
        )
    )
    run_command(("diagnose", "odd:flat", "--json", str(folder / "report.json")))


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "emptied": lambda data, draw: b"",
    "cut": lambda data, draw: data[: len(data) // 2],
    "flipped": lambda data, draw: _flipped(data, draw),
    "a list": lambda data, draw: b"[1, 2]",
    "a number": lambda data, draw: b"3",
    "a string": lambda data, draw: b'"x"',
    "null": lambda data, draw: b"null",
    "an empty mapping": lambda data, draw: b"{}",
    "nested deeply": lambda data, draw: b"[" * 100_000,
    "not text": lambda data, draw: bytes(range(256)),
    "strange numbers": lambda data, draw: json.dumps({"num_samples": 1e400, "step": "x"}).encode(),
}


def _flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(5):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def damaged_file(number: int, folder: Path) -> tuple[str, Outcome]:
    """Damage one file of a run or a report, read it by every command that would, and mend it again."""
    draw = random.Random(number)
    files = sorted(
        p
        for p in folder.rglob("*")
        if p.is_file()
        and "__pycache__" not in p.parts
        and p.suffix in (".json", ".jsonl", ".pt", ".safetensors", ".toml")
        and not p.is_symlink()
    )
    path = files[number % len(files)]
    damage = draw.choice(list(DAMAGES))
    data = path.read_bytes()
    path.write_bytes(DAMAGES[damage](data, draw))
    name = f"{path.relative_to(folder)} {damage}"
    text = draw.choice(
        (
            ("show", "run"),
            ("show", "."),
            ("diagnose", "run"),
            ("certify", "run"),
            ("autopsy", "run"),
            ("autopsy", "log"),
            ("show", "log"),
            ("treat", "odd:flat", "--samples", "8", "--recipe", "recipe.json"),
            ("diagnose", "odd:flat", "--against", "report.json"),
            ("diagnose", "odd:flat", "--weights", "weights.safetensors"),
            ("sweep", "grid.toml", "--dry-run"),
            (
                "train",
                "odd:flat",
                "--data",
                "digits",
                "--out",
                "run",
                "--epochs",
                "1",
                "--set",
                "max_steps=3",
                "--resume",
            ),
        )
    )
    try:
        return f"{name}: {' '.join(text)}", run_command(text)
    finally:
        if path.parent.exists():
            path.write_bytes(data)
