"""Which line of the user's own code a call comes from."""

import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

import torch

_LIBRARIES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).resolve().parents[1]),  # this package
    *(p for key in ("stdlib", "platstdlib") if (p := sysconfig.get_paths().get(key))),
    "<",  # code without a file
)
_SITE = ("site-packages", "dist-packages")
_is_own: dict[CodeType, bool] = {}
_MOST_CODES = 4096


def user_line() -> str | None:
    """File and line of the innermost frame outside of torch, bathyscope and the standard library.

    A frame of another installed package is taken only where there is none of the user's own.
    """
    frame: FrameType | None = sys._getframe(1)
    other = None
    while frame is not None:
        code = frame.f_code
        own = _is_own.get(code)
        if own is None:
            own = _look_up(code)
        if own:
            return f"{Path(code.co_filename).name}:{frame.f_lineno}"
        if other is None and any(part in code.co_filename for part in _SITE):
            is_library = code.co_filename.startswith(_LIBRARIES)
            other = None if is_library else (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None if other is None else f"{Path(other[0]).name}:{other[1]}"


def _look_up(code: CodeType) -> bool:
    if len(_is_own) >= _MOST_CODES:
        _is_own.clear()
    name = code.co_filename
    result = not name.startswith(_LIBRARIES) and not any(part in name for part in _SITE)
    _is_own[code] = result
    return result
