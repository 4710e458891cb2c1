"""Remedies for what attention and the residual stream of a transformer show."""

from collections.abc import Iterator, Sequence

from torch import nn

from bathyscope.core.records import Finding
from bathyscope.remedies import (
    AddNorms,
    DrawWeights,
    LearnFactors,
    NormalizeQueries,
    NormFirst,
    PenalizeLogZ,
    ScaleBranches,
    ScaleRate,
    ScaleWeights,
    WarmUp,
)
from bathyscope.rules.targeted.context import Context, Steps

_TABLE_STD = 0.02  # of GPT-2's embedding
_WARM_UP = 100
_QUERIES = ("query", "key", "q_proj", "k_proj", "to_q", "to_k", "q_lin", "k_lin")
_FUSED = ("c_attn", "qkv", "qkv_proj", "query_key_value")
_HEADS = ("heads", "num_heads", "num_attention_heads", "n_heads", "n_head")
_ATTENTION = frozenset({"attn", "self_attn"})
_FEED_FORWARD = frozenset({"mlp", "linear2"})
# LayerScale's start: 0.1 up to 18 blocks, 1e-5 for deeper ones (Touvron et al. 2021, section 2)
_SHALLOW, _SHALLOW_START, _DEEP_START = 18, 0.1, 1e-5


def shrink_embedding(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """The table of the embedding, scaled to the standard deviation that GPT-2 starts with."""
    for finding in findings:
        yield _smaller(finding.blocks[0], finding.evidence.get("table_rms"), aim=_TABLE_STD)


def shrink_head(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """The head, unless it is an embedding that is scaled already; then z-loss."""
    tied = any(finding.code == "embedding-scale" for finding in context.findings)
    for finding in findings:
        if finding.blocks and not tied:
            yield _smaller(finding.blocks[0], finding.evidence.get("output_std"), aim=1.0)
        if finding.blocks:
            yield (PenalizeLogZ(layer=finding.blocks[0]),)


def normalize_queries(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """QK-norm, by itself and at a lower learning rate; then the named blocks re-initialized."""
    if (remedy := query_layers(context.model)) is not None:
        yield (remedy,)
        yield remedy, ScaleRate(factor=0.1)
    yield from reinitialize_named(context, findings)


def reinitialize_named(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """All that the findings name, with each layer's own gain."""
    yield (DrawWeights(layers=tuple(dict.fromkeys(b for f in findings for b in f.blocks))),)


def query_layers(model: nn.Module) -> NormalizeQueries | None:
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
            return NormalizeQueries(layers=layers, heads=count, fused=fused)
    return None


def _num_heads(module: nn.Module) -> int | None:
    counts = (getattr(module, name, None) for name in _HEADS)
    return next((count for count in counts if isinstance(count, int)), None)


def tame_post_norm(context: Context, findings: Sequence[Finding]) -> Iterator[Steps]:
    """Warm-up, a lower learning rate, pre-norm, and DeepNorm's scales."""
    model = context.model
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
    if (scaled := layer_scale(model)) is not None:
        yield NormFirst(blocks=switches), *norms, scaled
    branches = residual_branches(model)
    # N blocks hold 2N branches: α = (2N)^¼ on the stream, β = (8N)^(−¼) on the weights
    stream = len(branches) ** 0.25
    yield ScaleBranches(layers=branches, factor=1 / stream), WarmUp(steps=_WARM_UP)
    yield ScaleBranches(layers=branches, factor=1 / stream), ScaleRate(factor=0.3)


def residual_branches(model: nn.Module) -> tuple[str, ...]:
    """The modules of a transformer whose outputs are added to the stream, as libraries name them.

    Those of the catalog, of `nn.TransformerEncoder`, and of blocks that hold attention and feed-forward
    as children of known names (GPT-2, Llama, timm's ViT); none for another network.

    Examples:
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> residual_branches(nn.Sequential(layer))
        ('0.self_attn', '0.linear2')
    """
    result: list[str] = []
    for name, module in model.named_modules():
        children = dict(module.named_children())
        at = f"{name}." if name else ""
        attention = [child for child in children if child in _ATTENTION]
        feed_forward = [child for child in children if child in _FEED_FORWARD]
        if len(attention) == len(feed_forward) == 1:
            result += [f"{at}{child}" for child in (*attention, *feed_forward)]
        elif all(_is_residual(children.get(part)) for part in ("attention", "mlp")):
            result += [f"{at}attention.branch", f"{at}mlp.branch"]
    return tuple(result)


def _is_residual(module: nn.Module | None) -> bool:
    held = () if module is None else dict(module.named_children())
    return "branch" in held and "shortcut" in held


def rezero(model: nn.Module) -> LearnFactors | None:
    """ReZero on the branches of a transformer; None where they are not known."""
    branches = residual_branches(model)
    return LearnFactors(layers=branches) if branches else None


def layer_scale(model: nn.Module) -> LearnFactors | None:
    """LayerScale on the branches of a transformer, started by its depth as its authors do."""
    branches = residual_branches(model)
    widths = {_width(model.get_submodule(name)) for name in branches}
    width = widths.pop() if len(widths) == 1 else None
    if width is None:
        return None
    start = _SHALLOW_START if len(branches) <= 2 * _SHALLOW else _DEEP_START
    return LearnFactors(layers=branches, size=width, start=start)


def _width(branch: nn.Module) -> int | None:
    """How many features a branch gives out: as many as its last linear map does."""
    maps = [m for m in branch.modules() if isinstance(m, nn.Linear)]
    return maps[-1].out_features if maps else None


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
