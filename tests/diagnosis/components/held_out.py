"""Faults in the components of other transformers, written down before any of them was diagnosed.

The networks are those of transformers, of `bathyscope.nets` (fused attention) and of `nn.TransformerEncoder`.
Those that nothing shows without a reference are marked so, and only counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bathyscope import nets
from tests.diagnosis.components import networks as small

VOCABULARY, LENGTH, WIDTH, HEADS = 60, 16, 32, 4


@dataclass(frozen=True)
class HeldOut:
    """A fault: its component, the network, how it is planted, the codes that name it, if it can be seen."""

    name: str
    component: str
    network: str
    plant: Callable[[Any], None]
    codes: tuple[str, ...]
    visible: bool = True


HELD_OUT: list[HeldOut] = []


def fault(component: str, network: str, *codes: str, visible: bool = True):
    """Add the fault that a function plants."""

    def add(plant):
        name = plant.__name__.replace("_", " ")
        HELD_OUT.append(HeldOut(name, component, network, plant, codes, visible))
        return plant

    return add


class Encoder(nn.Module):
    """Torch's own layers behind tables of tokens and positions: one answer for a padded sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.position = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 4)

    def look_up(self, input_ids):
        return self.token(input_ids)

    def add_positions(self, x):
        return x + self.position.weight[: x.shape[1]]

    def forward(self, input_ids, attention_mask):
        x = self.add_positions(self.look_up(input_ids))
        return self.head(self.body(x, src_key_padding_mask=attention_mask == 0)[:, 0])


@cache
def _transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


def _own(name: str) -> Callable[[], nn.Module]:
    if name == "vit":
        return lambda: nets.build("vit-4", seed=0, image_size=16, patch=4, num_classes=4)
    sizes = {"vocabulary": small.VOCABULARY, "context": small.LENGTH, "width": 32, "heads": 4}
    return lambda: nets.build(f"{name}-4", seed=0, **sizes)


def _gpt2():
    config = _transformers().GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=WIDTH, n_layer=4, n_head=HEADS,
        bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    return _transformers().GPT2LMHeadModel(config)


def _bert():
    config = _transformers().BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=HEADS,
        intermediate_size=64, max_position_embeddings=32, num_labels=4,
    )  # fmt: skip
    return _transformers().BertForSequenceClassification(config)


def _t5():
    config = _transformers().T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=3, num_heads=HEADS,
        decoder_start_token_id=0,
    )  # fmt: skip
    return _transformers().T5ForConditionalGeneration(config)


def _vit():
    config = _transformers().ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=HEADS, intermediate_size=64,
        image_size=16, patch_size=4, num_labels=4,
    )  # fmt: skip
    return _transformers().ViTForImageClassification(config)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "own gpt": _own("gpt"), "own bert": _own("bert"), "own vit": _own("vit"), "torch": Encoder,
    "gpt2": _gpt2, "bert": _bert, "t5": _t5, "vit": _vit,
}  # fmt: skip
OF_OTHERS = ("gpt2", "bert", "t5", "vit")


def batch_of(network: str) -> tuple[Any, Any, Any]:
    """Inputs, targets and loss for a network; those of others compute their own loss."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(5, VOCABULARY, (8, LENGTH), generator=generator)
    lengths = torch.tensor([16, 12, 9, 14, 8, 16, 11, 10])
    mask = (torch.arange(LENGTH)[None] < lengths[:, None]).long()
    padded = {"input_ids": tokens * mask, "attention_mask": mask}
    classes = torch.arange(8) % 4
    images = torch.randn(8, 3, 16, 16, generator=generator)
    answers = torch.randint(5, VOCABULARY, (8, 12), generator=generator)
    if network == "own bert":
        tokens = torch.randint(1, 39, (8, 16), generator=generator)
        is_masked = torch.rand(tokens.shape, generator=generator) < 0.3
        return tokens.masked_fill(is_masked, 39), tokens.masked_fill(~is_masked, -100), small.loss
    if network == "own gpt":
        return *small.batch_of("gpt"), small.loss
    return {
        "own vit": (images, classes, F.cross_entropy),
        "torch": (padded, classes, F.cross_entropy),
        "gpt2": ({"input_ids": tokens, "labels": tokens}, None, None),
        "bert": ({**padded, "labels": classes}, None, None),
        "t5": ({**padded, "labels": answers}, None, None),
        "vit": ({"pixel_values": images, "labels": classes}, None, None),
    }[network]


def build(network: str, seed: int = 0) -> nn.Module:
    """A healthy network."""
    torch.manual_seed(seed)
    return NETWORKS[network]()


def _with(module: nn.Module, **changed: Any) -> None:
    """Let a module be called with these arguments whatever it is given."""
    whole = module.forward
    module.forward = lambda *args, **kwargs: whole(*args, **{**kwargs, **changed})


def _attention(model: nn.Module, index: int) -> Any:
    return next(m for m in model.blocks[index].modules() if type(m).__name__ == "Attention")


@fault("mask", "gpt2", "missing-causal-mask")
def attention_of_one_layer_sees_ahead(model):
    attention = model.transformer.h[2].attn
    attention.is_causal = False
    whole = attention.forward

    def forward(hidden_states, *args, **kwargs):
        kwargs["attention_mask"] = torch.zeros(1, 1, hidden_states.shape[1], hidden_states.shape[1])
        return whole(hidden_states, *args, **kwargs)

    attention.forward = forward


@fault("cache", "gpt2", "stale-cache")
def position_ids_are_those_of_a_first_pass(model):
    whole = model.transformer.forward

    def forward(input_ids=None, **kwargs):
        kwargs["position_ids"] = torch.arange(input_ids.shape[1])[None]
        return whole(input_ids=input_ids, **kwargs)

    model.transformer.forward = forward


@fault("norm", "gpt2", "norm-gain")
def gain_of_zero(model):
    model.transformer.h[1].ln_2.weight.data.zero_()


@fault("qkv", "gpt2", "tied-heads")
def values_start_as_keys(model):
    weight = model.transformer.h[1].attn.c_attn.weight.data
    weight[:, 2 * WIDTH :] = weight[:, WIDTH : 2 * WIDTH]


@fault("mlp", "gpt2", "missing-activation")
def activation_is_the_identity(model):
    for block in model.transformer.h:
        block.mlp.act = nn.Identity()


@fault("embedding", "gpt2", "lost-tokens")
def half_of_the_dimensions_are_zero(model):
    model.transformer.wte.weight.data[:, : WIDTH // 2] = 0


@fault("output projection", "gpt2", "dead-heads")
def output_projection_of_one_layer_is_zero(model):
    model.transformer.h[2].attn.c_proj.weight.data.zero_()


@fault("head", "bert", "constant-classes")
def a_class_has_a_row_of_zeros(model):
    model.classifier.weight.data[1] = 0


@fault("mask", "bert", "padding-read")
def encoder_is_given_no_mask(model):
    _with(model.bert.encoder, attention_mask=None)


@fault("positions", "bert", "positions-unused", "lost-tokens")
def all_positions_are_the_first(model):
    model.bert.embeddings.position_ids.zero_()


@fault("residual", "bert", "missing-shortcut")
def output_of_one_layer_adds_nothing(model):
    last = model.bert.encoder.layer[1].output
    last.forward = lambda x, inputs: last.LayerNorm(last.dropout(last.dense(x)))


@fault("residual", "bert", "random-in-eval")
def dropout_does_not_follow_the_mode(model):
    model.bert.encoder.layer[2].output.dropout.forward = lambda x: F.dropout(x, 0.2, training=True)


@fault("qkv", "bert", "partly-frozen")
def keys_of_two_layers_are_frozen(model):
    for layer in model.bert.encoder.layer[:2]:
        layer.attention.self.key.weight.requires_grad_(False)


@fault("scores", "bert", "missing-attention-scale")
def scale_is_one(model):
    for layer in model.bert.encoder.layer:
        layer.attention.self.scaling = 1.0


@fault("mask", "t5", "missing-causal-mask")
def decoder_sees_its_answers(model):
    # no mask at all would be taken for a causal one
    _with(model.decoder.block[0].layer[0].SelfAttention, mask=torch.zeros(1, 1, 12, 12))


@fault("norm", "t5", "norm-epsilon")
def epsilon_of_ten(model):
    for module in model.modules():
        if type(module).__name__ == "T5LayerNorm":
            module.variance_epsilon = 10.0


@fault("embedding", "t5", "lost-tokens")
def half_of_the_vocabulary_is_one_token(model):
    model.shared.weight.data[30:] = model.shared.weight.data[30]


@fault("mask", "t5", "padding-read")
def cross_attention_is_given_no_mask(model):
    _with(model.decoder, encoder_attention_mask=None)


@fault("positions", "vit", "positions-unused", "lost-tokens")
def positions_of_patches_are_zero(model):
    model.vit.embeddings.position_embeddings.data.zero_()


@fault("head", "vit", "detached-parameters", "cut-gradient")
def features_are_detached_before_the_head(model):
    whole = model.classifier.forward
    model.classifier.forward = lambda x: whole(x.detach())


@fault("qkv", "own vit", "tied-heads")
def all_heads_start_alike(model):
    layer = _attention(model, 1)
    width = layer.query.weight.shape[0] // layer.heads
    for part in (layer.query, layer.key, layer.value):
        part.weight.data.copy_(part.weight.data[:width].repeat(layer.heads, 1))


@fault("mask", "own bert", "mixed-samples")
def attention_runs_over_the_samples(model):
    layer = _attention(model, 1)
    whole = layer.forward
    layer.forward = lambda x: whole(x.transpose(0, 1)).transpose(0, 1)


@fault("cache", "own gpt", "carried-state")
def the_stream_of_the_last_batch_is_added(model):
    block = model.blocks[1]
    whole, kept = block.forward, {}

    def forward(x):
        y = whole(x)
        before = kept.get("mean", 0.0)
        kept["mean"] = y.detach().mean((0, 1))
        return y + before

    block.forward = forward


@fault("mlp", "own gpt", "dead-units")
def hidden_bias_closes_the_units(model):
    first = next(m for m in model.blocks[2].mlp.modules() if isinstance(m, nn.Linear))
    first.bias.data.fill_(-50.0)


@fault("residual", "own vit", "noise-in-forward", "random-in-eval")
def noise_while_training(model):
    block = model.blocks[1]
    whole = block.forward
    block.forward = lambda x: whole(x) + (torch.randn_like(x) if model.training else 0)


@fault(
    "softmax", "own bert", "entropy-collapse", "attention-logit-growth", "missing-attention-scale"
)
def scores_are_multiplied_by_a_hundred(model):
    for index in range(4):
        for part in (_attention(model, index).query, _attention(model, index).key):
            part.weight.data.mul_(30)


@fault("positions", "torch", "place-in-batch")
def positions_are_added_along_the_samples(model):
    model.add_positions = lambda x: x + model.position.weight[: x.shape[0], None]


@fault("norm", "torch", "norm-gain")
def offset_hides_the_tokens(model):
    model.body.layers[1].norm1.bias.data.fill_(50.0)


@fault("embedding", "torch", "lost-tokens")
def tokens_modulo_sixteen(model):
    model.look_up = lambda tokens: model.token(tokens % 32)


@fault("output projection", "torch", "stream-outgrows-branches", "exploding-weights")
def output_projection_is_ten_thousand_times_too_large(model):
    model.body.layers[1].self_attn.out_proj.weight.data.mul_(1e4)


@fault("head", "torch", "padding-read")
def the_mean_runs_over_padding(model):
    def forward(input_ids, attention_mask):
        x = model.add_positions(model.look_up(input_ids))
        return model.head(model.body(x, src_key_padding_mask=attention_mask == 0).mean(1))

    model.forward = forward


@fault("qkv", "gpt2", visible=False)
def queries_and_keys_are_swapped(model):
    weight = model.transformer.h[1].attn.c_attn.weight.data
    weight[:, : 2 * WIDTH] = weight[:, : 2 * WIDTH].roll(WIDTH, 1)


@fault("positions", "gpt2", visible=False)
def positions_begin_at_one(model):
    whole = model.transformer.wpe.forward
    model.transformer.wpe.forward = lambda ids: whole(ids + 1)


@fault("residual", "bert", visible=False)
def a_little_more_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.3
