"""Whether a pass in two halves, the second with the cache of the first, gives what one pass gives."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.core.nested import predictions
from bathyscope.measure.dependence.eval_pass import EvalPass
from bathyscope.measure.dependence.position_map import output_positions

_CACHES = (
    "past_key_values",
    "past_key_value",
    "past_kv",
    "past",
    "layer_past",
    "kv_cache",
    "cache",
)
_FEWEST = 4


def cache_difference(model: nn.Module, ran: EvalPass) -> float | None:
    """‖f(x) − [f(x_1), f(x_2 | cache of x_1)]‖∞/‖f(x)‖∞ over the second half; None without a cache.

    A cache is an argument of `forward` with one of the usual names; the model gives it out in its output,
    under that name or as the second entry of a tuple, when `use_cache=True` or always. Samples with padding
    are left out, and so are models that take more than tokens. The caller protects the model.

    Args:
        model: in eval mode.
        ran: a pass of it.
    """
    arguments = inspect.signature(model.forward).parameters
    name = next((n for n in _CACHES if n in arguments), None)
    main = next((one for one in ran.named if one.role == "tokens"), None)
    if name is None or main is None or main.tensor.ndim != 2 or ran.input_axis != 0:
        return None
    if any(one.role not in ("tokens", "labels", "mask") for one in ran.named):
        return None
    if any(one.role == "mask" and not bool(one.tensor.bool().all()) for one in ran.named):
        return None
    length = main.tensor.shape[1]
    if length < _FEWEST or ran.main is None or output_positions(ran, ran.main) != (1,):
        return None
    if sum(one.role == "tokens" for one in ran.named) > 1:
        return None
    options = {"use_cache": True} if "use_cache" in arguments else {}
    half = length // 2
    first_argument = next(iter(arguments))
    key = main.name if main.name in arguments else first_argument
    try:
        with torch.no_grad():
            first = model(**{key: main.tensor[:, :half]}, **options)
            cache = _cache_in(first, name)
            if cache is None:
                return None
            second = model(**{key: main.tensor[:, half:], name: cache}, **options)
    except Exception:  # a model of another convention: nothing can be said of its cache
        return None
    parts = [predictions(one) for one in (first, second)]
    if any(part is None or part.ndim != ran.by_sample.ndim for part in parts):
        return None
    whole = ran.by_sample.detach()
    joined = torch.cat([part for part in parts if part is not None], 1)
    if joined.shape != whole.shape:
        return None
    size = float(whole.abs().max())
    apart = float((joined - whole).abs().max())
    return apart / size if size else apart


def _cache_in(output: Any, name: str) -> object:
    if isinstance(output, Tensor):
        return None
    for known in (name, *_CACHES):
        value = output.get(known) if isinstance(output, Mapping) else getattr(output, known, None)
        if value is not None:
            return value
    if isinstance(output, (tuple, list)) and len(output) == 2:
        return output[1]
    return None
