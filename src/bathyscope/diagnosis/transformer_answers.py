"""What the findings of transformers ask for: recipes that enter the race first."""

from collections.abc import Iterator, Sequence

from torch import nn

from bathyscope.core.records import Finding
from bathyscope.remedies import (
    AddNorms,
    DrawWeights,
    NormaliseQueries,
    NormFirst,
    PenaliseLogZ,
    ScaleBranches,
    ScaleRate,
    ScaleWeights,
    WarmUp,
)
from bathyscope.remedies.recipe import AnyRemedy

Steps = tuple[AnyRemedy, ...]

_TABLE_STD = 0.02  # of GPT-2's embedding
_WARM_UP = 100
_QUERIES = ("query", "key", "q_proj", "k_proj", "to_q", "to_k", "q_lin", "k_lin")
_FUSED = ("c_attn", "qkv", "qkv_proj", "query_key_value")
_HEADS = ("heads", "num_heads", "num_attention_heads", "n_heads", "n_head")
_SHARP = frozenset({"entropy-collapse", "attention-logit-growth", "missing-attention-scale"})
_DRAWN = frozenset({"uniform-attention", "dead-heads"})
_FIRST_DRAWN = frozenset({"token-collapse", "stream-outgrows-branches"})


def transformer_answers(model: nn.Module, findings: Sequence[Finding]) -> Iterator[Steps]:
    """Recipes for what the rules of attention and stream have found, the mildest first for each."""
    found = {finding.code: finding for finding in findings}
    if (told := found.get("embedding-scale")) is not None:
        yield _smaller(told.blocks[0], told.evidence.get("table_rms"), aim=_TABLE_STD)
    if (told := found.get("output-logit-drift")) is not None and told.blocks:
        if "embedding-scale" not in found:
            yield _smaller(told.blocks[0], told.evidence.get("output_std"), aim=1.0)
        yield (PenaliseLogZ(layer=told.blocks[0]),)
    if "post-norm-imbalance" in found:
        yield from _for_post_norm(model)
    for code in _FIRST_DRAWN & found.keys():
        yield (DrawWeights(layers=found[code].blocks[:1]),)
    for code in _DRAWN & found.keys():
        yield (DrawWeights(layers=found[code].blocks),)
    if _SHARP & found.keys():
        named = dict.fromkeys(
            b for code in sorted(_SHARP & found.keys()) for b in found[code].blocks
        )
        yield from _for_sharp_attention(model)
        yield (DrawWeights(layers=tuple(named)),)


def query_layers(model: nn.Module) -> NormaliseQueries | None:
    """QK-norm for the layers of a model that make queries and keys; None where none are known.

    Layers are known by the names that libraries give them, heads by the module around them.

    Examples:
        >>> from bathyscope import nets
        >>> remedy = query_layers(nets.build("gpt-3", seed=0))
        >>> len(remedy.layers), remedy.heads
        (6, 4)
    """
    named = dict(model.named_modules())
    for names, fused in ((_QUERIES, False), (_FUSED, True)):
        layers = tuple(name for name in named if name.rpartition(".")[2] in names)
        heads = {_num_heads(named[name.rpartition(".")[0]]) for name in layers}
        if layers and len(heads) == 1 and (count := heads.pop()) is not None:
            return NormaliseQueries(layers=layers, heads=count, fused=fused)
    return None


def _num_heads(module: nn.Module) -> int | None:
    counts = (getattr(module, name, None) for name in _HEADS)
    return next((count for count in counts if isinstance(count, int)), None)


def _for_sharp_attention(model: nn.Module) -> Iterator[Steps]:
    remedy = query_layers(model)
    if remedy is not None:
        yield (remedy,)
        yield remedy, ScaleRate(factor=0.1)


def _for_post_norm(model: nn.Module) -> Iterator[Steps]:
    """Warm-up, a lower rate, norms first, and DeepNorm's scales."""
    yield (WarmUp(steps=_WARM_UP),)
    yield (ScaleRate(factor=0.1),)
    switches = tuple(
        name
        for name, module in model.named_modules()
        if getattr(module, "norm_first", None) is False and _has_norm_to_move(module)
    )
    if not switches:
        return
    head = _last_linear(model)
    norms = (AddNorms(layers=(head,)),) if head is not None else ()
    yield NormFirst(blocks=switches), *norms
    yield NormFirst(blocks=switches), *norms, ScaleRate(factor=0.3)
    branches = _branches(model, switches)
    # N blocks hold 2N branches: α = (2N)^¼ on the stream, β = (8N)^(−¼) on the weights
    stream = len(branches) ** 0.25
    yield ScaleBranches(layers=branches, factor=1 / stream), WarmUp(steps=_WARM_UP)
    yield ScaleBranches(layers=branches, factor=1 / stream), ScaleRate(factor=0.3)


def _branches(model: nn.Module, switches: tuple[str, ...]) -> tuple[str, ...]:
    """The modules whose outputs are added to the stream."""
    found: list[str] = []
    for name in switches:
        block = model.get_submodule(name)
        if isinstance(getattr(block, "branch", None), nn.Module):
            found.append(f"{name}.branch")
        else:
            found += [f"{name}.self_attn", f"{name}.linear2"]
    return tuple(found)


def _has_norm_to_move(module: nn.Module) -> bool:
    if isinstance(module, nn.TransformerEncoderLayer):
        return True
    norm, shortcut = getattr(module, "post", None), getattr(module, "shortcut", None)
    return "Norm" in type(norm).__name__ and shortcut is not None


def _last_linear(model: nn.Module) -> str | None:
    """The last linear layer outside the blocks: what reads the stream at its end."""
    inside = [n for n, m in model.named_modules() if hasattr(m, "norm_first")]
    outside = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not any(name.startswith(f"{n}.") for n in inside)
    ]
    return outside[-1] if outside else None


def _smaller(layer: str, size: object, *, aim: float) -> Steps:
    factor = aim / float(size) if isinstance(size, (int, float)) and size > 0 else aim
    return (ScaleWeights(factors={layer: factor}, purpose="scaled down"),)
