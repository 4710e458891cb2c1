"""Faults in the components of transformers on which the rules were tuned."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from tests.diagnosis.components.networks import HEADS, LENGTH, VOCABULARY, WIDTH


@dataclass(frozen=True)
class Fault:
    """A fault: the component in which it lies, the network, how it is planted, and the codes that name it."""

    name: str
    component: str
    family: str
    plant: Callable[[nn.Module], None]
    codes: tuple[str, ...]


FAULTS: list[Fault] = []


def fault(component: str, family: str, *codes: str):
    """Add the fault that a function plants."""

    def add(plant):
        FAULTS.append(Fault(plant.__name__.replace("_", " "), component, family, plant, codes))
        return plant

    return add


def _hidden(model, which):
    def mask(scores, is_padding):
        return scores.masked_fill(which(*scores.shape[-2:]), -math.inf)

    model.blocks[1].attention.mask = mask


@fault("mask", "gpt", "missing-causal-mask")
def no_causal_mask_in_one_block(model):
    model.blocks[1].attention.mask = lambda scores, is_padding: scores


@fault("mask", "gpt", "missing-causal-mask")
def causal_mask_off_by_one(model):
    _hidden(model, lambda q, k: torch.ones(q, k, dtype=torch.bool).triu(2 + k - q))


@fault("mask", "gpt", "missing-causal-mask")
def causal_mask_of_minus_one(model):
    for block in model.blocks:
        block.attention.mask = lambda scores, _: scores - torch.ones(scores.shape[-2:]).triu(1)


@fault("mask", "gpt", "missing-causal-mask")
def inverted_causal_mask(model):
    for block in model.blocks:
        block.attention.mask = lambda scores, _: scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool).tril(-1), -math.inf
        )


@fault("softmax", "gpt", "attention-weights")
def softmax_over_queries(model):
    model.blocks[2].attention.mask = lambda scores, _: scores
    model.blocks[2].attention.weigh = lambda scores: scores.softmax(-2)


@fault("softmax", "bert", "attention-weights")
def softmax_twice(model):
    for block in model.blocks:
        block.attention.weigh = lambda scores: scores.softmax(-1).softmax(-1)


@fault("softmax", "vit", "attention-weights")
def no_softmax(model):
    for block in model.blocks:
        block.attention.weigh = lambda scores: scores


@fault("scores", "gpt", "missing-attention-scale")
def no_scale(model):
    for block in model.blocks:
        block.attention.scaled = False


@fault("qkv", "gpt", "tied-heads")
def tied_heads(model):
    for layer in ("query", "key", "value"):
        weight = getattr(model.blocks[1].attention, layer).weight.data
        weight[: WIDTH // HEADS] = weight[WIDTH // HEADS : 2 * WIDTH // HEADS]


@fault("qkv", "bert", "dead-heads")
def no_values(model):
    model.blocks[2].attention.value.weight.data.zero_()


@fault("qkv", "vit", "tied-heads")
def one_layer_for_keys_and_values(model):
    for block in model.blocks:
        block.attention.value = block.attention.key


@fault("qkv", "gpt", "partly-frozen")
def frozen_queries(model):
    for block in model.blocks:
        block.attention.query.requires_grad_(False)


@fault("output projection", "bert", "crossed-heads")
def heads_merged_by_a_view(model):
    for block in model.blocks:
        block.attention.merge = lambda x: x.reshape(x.shape[0], x.shape[2], -1)


@fault("qkv", "vit", "crossed-heads")
def heads_split_by_a_view(model):
    for block in model.blocks:
        block.attention.split = lambda x: x.reshape(x.shape[0], HEADS, x.shape[1], -1)


@fault("residual", "gpt", "missing-shortcut")
def no_shortcut_in_one_block(model):
    model.blocks[2].add = lambda x, branch: branch


@fault("residual", "bert", "random-in-eval", "noise-in-forward")
def noise_in_the_stream(model):
    model.blocks[1].add = lambda x, branch: x + branch + 0.5 * torch.randn_like(x)


@fault("norm", "gpt", "norm-gain")
def large_gain(model):
    model.blocks[1].mlp_norm.weight.data.mul_(100)


@fault("norm", "vit", "norm-gain")
def large_offset(model):
    model.blocks[1].attention_norm.bias.data.fill_(30.0)


@fault("norm", "t5", "norm-gain")
def zero_gain(model):
    model.decoder[1].mlp_norm.weight.data.zero_()


@fault("norm", "gpt", "norm-epsilon")
def epsilon_of_one(model):
    for block in model.blocks:
        block.attention_norm.eps = block.mlp_norm.eps = 1.0


@fault("mlp", "bert", "missing-activation")
def no_activation(model):
    for block in model.blocks:
        block.activate = lambda x: x


@fault("mlp", "gpt", "dead-units")
def half_of_the_hidden_units_dead(model):
    model.blocks[1].up.weight.data[: 2 * WIDTH] = 0


@fault("head", "gpt", "constant-classes")
def dead_classes(model):
    model.head.weight.data[: VOCABULARY // 2] = 0


@fault("embedding", "gpt", "lost-tokens")
def lost_rows(model):
    model.token.weight.data[: VOCABULARY // 4] = 0


@fault("embedding", "bert", "lost-tokens")
def vocabulary_cut_off(model):
    whole = model.token.forward
    model.token.forward = lambda tokens: whole(tokens.clamp(max=VOCABULARY // 2))


@fault("embedding", "t5", "lost-tokens")
def dead_dimensions(model):
    model.token.weight.data[:, : WIDTH // 2] = 0


@fault("positions", "bert", "positions-unused", "lost-tokens")
def no_positions(model):
    model.positions = lambda x, begin=0: torch.zeros(x.shape[1], WIDTH)


@fault("positions", "gpt", "lost-tokens")
def positions_cut_off(model):
    model.positions = lambda x, begin=0: model.position(
        torch.arange(begin, begin + x.shape[1]).clamp(max=LENGTH // 2)
    )


@fault("mask", "bert", "padding-read")
def padding_mask_dropped(model):
    for block in model.blocks:
        block.attention.mask = lambda scores, is_padding: scores


@fault("mask", "bert", "padding-read")
def padding_mask_inverted(model):
    for block in model.blocks:
        block.attention.mask = lambda scores, is_padding: scores.masked_fill(
            ~is_padding[:, None, None], -1e9
        )


@fault("softmax", "bert", "random-in-eval")
def dropout_of_weights_in_eval_mode(model):
    for block in model.blocks:
        block.attention.weigh = lambda scores: F.dropout(scores.softmax(-1), 0.2)


@fault("cache", "gpt", "stale-cache")
def positions_of_cached_passes_begin_again(model):
    model.positions = lambda x, begin=0: model.position(torch.arange(x.shape[1]))


@fault("cache", "gpt", "stale-cache")
def cache_forgets_values(model):
    def remember(past, key, value):
        if past is None:
            return key, value
        return torch.cat([past[0], key], 2), torch.cat([torch.zeros_like(past[1]), value], 2)

    model.blocks[1].attention.remember = remember


@fault("mask", "t5", "missing-causal-mask")
def decoder_without_causal_mask(model):
    for block in model.decoder:
        block.attention.causal = False


@fault("qkv", "t5", "unread-input")
def cross_attention_reads_the_decoder(model):
    model.source = lambda x, encoded: x
    for block in model.decoder:
        block.cross.mask = lambda scores, is_padding: scores


@fault("mask", "t5", "padding-read")
def cross_attention_reads_padding(model):
    for block in model.decoder:
        block.cross.mask = lambda scores, is_padding: scores
