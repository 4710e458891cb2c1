"""A Python script in this process, as `python` would run it."""

import runpy
import sys
import traceback
from pathlib import Path
from types import ModuleType

STOPPED = 130
"""The exit code of a process that Ctrl-C has ended, as a shell expects it."""


def run_script(script: list[str], *, is_module: bool) -> int | str | None:
    """Run it as `python` would; its exit code, or what it gave to `sys.exit`."""
    try:
        if is_module:
            sys.argv[:] = script
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(script[0], run_name="__main__", alter_sys=True)
        else:
            run_file(script)
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        sys.stdout.flush()
        print("KeyboardInterrupt", file=sys.stderr)
        return STOPPED
    except BaseException as error:
        sys.stdout.flush()
        _print_own_frames(error)
        return 1
    return 0


def run_file(script: list[str]) -> None:
    """Run a file as the main module; what it raises passes through."""
    path = Path(script[0])
    source = path.read_bytes()
    main = ModuleType("__main__")
    main.__file__ = script[0]
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    # it stays there to the end, as the script's own would: for workers, pickles and atexit
    sys.modules["__main__"] = main
    sys.argv[:] = script
    sys.path[0] = str(path.resolve().parent)
    exec(compile(source, script[0], "exec"), vars(main))


def _print_own_frames(error: BaseException) -> None:
    """The traceback as the script alone would have printed it."""
    here = str(Path(__file__).resolve())
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename).resolve() == Path(here):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
