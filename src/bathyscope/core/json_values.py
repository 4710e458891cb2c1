"""Values as JSON can hold them, and back, exactly.

JSON knows neither infinity nor NaN: they are written as the strings "inf", "-inf" and "nan". A real
string that reads so is written with a backslash in front, so that nothing is lost on the way back.
"""

import re
from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

# What is written as a JSON object: names, and values whose kind the reader of each name knows.
JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]

_SPECIAL = re.compile(r"\\*(inf|-inf|nan)")


def encode_json(value: object) -> object:
    """A value in JSON's own types, infinities and NaN as strings, other objects as their text.

    Examples:
        >>> encode_json({"ratio": (1.5, float("inf"), None), "what": "inf"})
        {'ratio': [1.5, 'inf', None], 'what': '\\\\inf'}
    """
    if isinstance(value, Mapping):
        return {str(key): encode_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [encode_json(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"\\{value}" if _SPECIAL.fullmatch(value) else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if isfinite(value):
            return float(value)
        return "nan" if isnan(value) else "inf" if value > 0 else "-inf"
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return encode_json(value.item())
    return encode_json(str(value))


def name_non_finite(value: object) -> Any:
    """The same with NaN and infinities, which JSON has not, as `nan`, `inf` and `-inf`; strings as they are.

    Examples:
        >>> name_non_finite({"loss": float("nan"), "steps": (1, 2)})
        {'loss': 'nan', 'steps': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {key: name_non_finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [name_non_finite(part) for part in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def decode_json(value: object) -> Any:
    """What `encode_json` was given, sequences as tuples.

    Examples:
        >>> decode_json({"ratio": [1.5, "inf", None], "what": "\\\\inf"})
        {'ratio': (1.5, inf, None), 'what': 'inf'}
    """
    if isinstance(value, Mapping):
        return {key: decode_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(decode_json(item) for item in value)
    if isinstance(value, str) and _SPECIAL.fullmatch(value):
        return value[1:] if value.startswith("\\") else float(value)
    return value
