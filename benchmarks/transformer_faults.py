"""Faults of transformers, planted at a block: what a diagnosis must name, and where.

`python -m benchmarks transformer_faults` plants each of twelve kinds at five places, in GPT-, BERT- and
ViT-like networks of 6 to 48 blocks, and counts how often kind and place are among the first three
findings; then it diagnoses healthy transformers and counts problems. The networks and places come
from seeds 1000 and up; thresholds were tuned on seeds below 100.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bathyscope import diagnose, nets

FIRST_HELD_OUT = 1000
_LOCATIONS = 5
_DEPTHS = (6, 8, 12, 16, 24, 32, 48)


def token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of tokens or of samples."""
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


@dataclass(slots=True)
class TreatmentContext:
    """A network with its batch, the rate meant for it, and where the fault was planted."""

    model: nn.Module
    batch: tuple[Tensor, Tensor]
    family: str
    lr: float = 3e-4
    location: str | None = None

    def attention(self, index: int) -> Any:
        """The attention layer of a block."""
        return next(
            m for m in self.model.blocks[index].modules() if type(m).__name__ == "Attention"
        )

    def at(self, index: int) -> None:
        """Remember the block."""
        self.location = f"blocks.{index}"


def context(seed: int, *, family: str | None = None, **options: Any) -> TreatmentContext:
    """A healthy network, drawn with its batch from a seed."""
    draw = random.Random(seed)
    family = family or draw.choice(("gpt", "bert", "vit"))
    depth = options.pop("depth", None) or draw.choice(_DEPTHS)
    width = draw.choice((32, 48, 64))
    chosen = {"width": width, "heads": draw.choice((2, 4)), "norm": "pre"} | options
    generator = torch.Generator().manual_seed(seed)
    if family == "vit":
        sizes: dict[str, Any] = {"image_size": 16, "patch": 4, "num_classes": 10}
        inputs = torch.randn(16, 3, 16, 16, generator=generator)
        labels = torch.randint(10, (16,), generator=generator)
    else:
        sizes = {"vocabulary": 40, "context": 24}
        inputs, labels = token_batch(family, generator)
    model = nets.build(f"{family}-{depth}", seed=seed, **(sizes | chosen))
    return TreatmentContext(model, (inputs, labels), family)


def token_batch(family: str, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Tokens with what is asked of them: the next one, or of a network that sees both sides a masked one."""
    tokens = torch.randint(39, (8, 24), generator=generator)
    if family != "bert":
        return tokens, tokens.roll(-1, 1)
    is_masked = torch.rand(tokens.shape, generator=generator) < 0.25
    return tokens.masked_fill(is_masked, 39), tokens.masked_fill(~is_masked, -100)


def entropy_collapse(seed: int) -> TreatmentContext:
    """Queries and keys twenty times too large in one block."""
    case, index = _placed(seed)
    for layer in (case.attention(index).query, case.attention(index).key):
        layer.weight.data.mul_(30 / layer.weight.data.norm(dim=1).mean())
    return case


def attention_logit_growth(seed: int) -> TreatmentContext:
    """A bias of the keys that shifts all scores of a query alike."""
    case, index = _placed(seed)
    case.attention(index).key.bias.data.fill_(2000.0)
    return case


def uniform_attention(seed: int) -> TreatmentContext:
    """Queries and keys of next to nothing."""
    case, index = _placed(seed)
    for layer in (case.attention(index).query, case.attention(index).key):
        layer.weight.data.mul_(1e-3)
    return case


def dead_heads(seed: int) -> TreatmentContext:
    """A head without values, or one that the output layer ignores."""
    case, index = _placed(seed)
    layer = case.attention(index)
    width = layer.value.weight.shape[0] // layer.heads
    if seed % 2:
        layer.value.weight.data[:width] = 0
    else:
        layer.out.weight.data[:, :width] = 0
    return case


def token_collapse(seed: int) -> TreatmentContext:
    """A feed-forward layer whose bias drowns what distinguishes tokens."""
    case, index = _placed(seed)
    last = [m for m in case.model.blocks[index].mlp.modules() if isinstance(m, nn.Linear)][-1]
    last.bias.data.fill_(300.0)
    return case


def masked_row(seed: int) -> TreatmentContext:
    """One query that may look at nothing."""
    case, index = _placed(seed)
    _mix_with(case.attention(index), _with_a_hidden_row)
    return case


def missing_attention_scale(seed: int) -> TreatmentContext:
    """Scores without 1/√d, of queries and keys of unit deviation."""
    case, index = _placed(seed, width=64, heads=2)
    layer = case.attention(index)
    for part in (layer.query, layer.key):
        part.weight.data.normal_(0, 64**-0.5)
    _mix_with(layer, _without_scale)
    return case


def stream_outgrows_branches(seed: int) -> TreatmentContext:
    """An output layer of attention that is ten thousand times too large."""
    draw = random.Random(seed)
    case = context(seed)
    index = draw.randrange(len(case.model.blocks) - 2)
    case.at(index)
    case.attention(index).out.weight.data.mul_(1e4)
    return case


def embedding_scale(seed: int) -> TreatmentContext:
    """A token table of deviation 10, tied to the output."""
    case = context(seed, family="gpt" if seed % 2 else "bert")
    case.model.stem.token.weight.data.normal_(0, 10)
    case.location = "stem.token"
    return case


def post_norm_imbalance(seed: int) -> TreatmentContext:
    """A deep post-norm network at Adam 3e-3 from the first step on."""
    depth = random.Random(seed).choice((12, 16, 24, 32, 48))
    case = context(seed, norm="post", depth=depth)
    case.lr = 3e-3
    return case


def output_logit_drift(seed: int) -> TreatmentContext:
    """A head that is far too large, or whose bias shifts all logits."""
    case = context(seed, **({} if seed % 2 else {"family": "vit"}))
    if case.family == "vit" and seed % 2 == 0:
        case.model.head[-1].bias.data.fill_(120.0)
    else:
        case = context(seed, family="gpt", tied=False)
        case.model.head[-1].weight.data.mul_(300.0)
    case.location = f"head.{len(case.model.head) - 1}"
    return case


def positions_unused(seed: int) -> TreatmentContext:
    """A table of positions that is zero, in a network that sees both sides."""
    case = context(seed, family="bert" if seed % 2 else "vit")
    case.model.stem.position.weight.data.zero_()
    case.location = "stem.position"
    return case


FAULTS: dict[str, Callable[[int], TreatmentContext]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(entropy_collapse, attention_logit_growth, uniform_attention, dead_heads),
        *(token_collapse, masked_row, missing_attention_scale, stream_outgrows_branches),
        *(embedding_scale, post_norm_imbalance, output_logit_drift, positions_unused),
    )
}


def diagnosis_of(case: TreatmentContext) -> Any:
    """The standard diagnosis, with Adam at the patient's rate."""
    optimizer = torch.optim.Adam(case.model.parameters(), lr=case.lr)
    return diagnose(case.model, case.batch, loss=token_loss, optimizer=optimizer)


def is_named(code: str, case: TreatmentContext, findings: Any) -> bool:
    """Whether the first three findings hold the kind, and its first block is the place."""
    result = next((f for f in findings[:3] if f.code == code), None)
    return result is not None and (case.location is None or result.blocks[:1] == (case.location,))


def lines(*, first: int = FIRST_HELD_OUT) -> Iterator[dict[str, Any]]:
    """One line a kind, with the places that were missed; then one for the healthy networks."""
    torch.set_num_threads(1)
    right = 0
    for kind, (code, plant) in enumerate(FAULTS.items()):
        missed = []
        for location in range(_LOCATIONS):
            case = plant(first + 10 * kind + location)
            findings = diagnosis_of(case).findings
            if is_named(code, case, findings):
                right += 1
            else:
                result = [(f.code, f.blocks[:2]) for f in findings[:3]]
                missed.append(
                    {
                        "seed": first + 10 * kind + location,
                        "place": case.location,
                        "reported": result,
                    }
                )
        yield {"benchmark": "transformer_faults", "case": code, "missed": missed}
    yield {"benchmark": "transformer_faults", "case": "all", "right": right, "of": 60}
    blamed = []
    for seed in range(first + 500, first + 520):
        case = healthy(seed)
        problems = [f.code for f in diagnosis_of(case).findings if f.severity == "problem"]
        if problems:
            blamed.append({"seed": seed, "family": case.family, "reported": problems})
    yield {"benchmark": "transformer_faults", "case": "healthy", "of": 20, "blamed": blamed}


def healthy(seed: int) -> TreatmentContext:
    """A network as people train them: any norm, position and feed-forward, at Adam 3e-4."""
    draw = random.Random(seed)
    return context(
        seed,
        norm=draw.choice(("pre", "pre", "deep", "sandwich", "post")),
        norm_kind=draw.choice(("layer", "rms")),
        feed_forward=draw.choice(("gelu", "swiglu")),
        positions=draw.choice(("learned", "rotary")),
        qk_norm=draw.random() < 0.3,
        branch_scale=draw.choice(("none", "none", "layerscale")),
        depth=draw.choice((6, 8, 12, 16, 24)),
    )


def _placed(seed: int, **options: Any) -> tuple[TreatmentContext, int]:
    case = context(seed, **options)
    index = random.Random(seed).randrange(len(case.model.blocks))
    case.at(index)
    return case, index


def _mix_with(layer: Any, attend: Callable[[Tensor, Tensor, Tensor, bool], Tensor]) -> None:
    """Let the layer's tokens be mixed by another function."""

    def forward(x: Tensor) -> Tensor:
        query, key, value = (layer._split(m(x)) for m in (layer.query, layer.key, layer.value))
        return layer.out(attend(query, key, value, layer.causal).transpose(1, 2).flatten(2))

    layer.forward = forward


def _with_a_hidden_row(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    tokens = query.shape[2]
    seen = torch.ones(tokens, tokens, dtype=torch.bool)
    seen = seen.tril() if causal else seen
    seen[tokens // 2] = False
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def _without_scale(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=1.0)
