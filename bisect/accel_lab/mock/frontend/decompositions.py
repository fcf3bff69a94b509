"""The decomposition table of both front ends: core ATen plus norms, activations and losses."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions

from . import attention

#: Decompositions beyond core ATen; those that a torch build lacks are skipped.
_FURTHER = [
    "native_layer_norm",
    "_softmax",
    "_log_softmax",
    "gelu",
    "silu",
    "hardswish",
    "hardsigmoid",
    "elu",
    "celu",
    "mish",
    "softplus",
    "leaky_relu_backward",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional",
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",
    "cudnn_batch_norm",
    "native_group_norm",
    "addmv",
    "baddbmm",
    "addcmul",
    "addcdiv",
    "lerp",
    "rsub",
    "linalg_vector_norm",
    "logsumexp",
    "native_dropout_backward",
    "nll_loss_forward",
    "nll_loss_backward",
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "l1_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "square",
    "stack",
    "masked_fill",
    "split",
    "chunk",
    "unbind",
    "glu",
    "log_sigmoid_forward",
    "softplus_backward",
    "tanh_backward",
    "sigmoid_backward",
    "threshold_backward",
    "gelu_backward",
    "silu_backward",
    "_softmax_backward_data",
    "_log_softmax_backward_data",
    "native_layer_norm_backward",
    "native_batch_norm_backward",
    "native_group_norm_backward",
    "batch_norm_backward",
    "hardtanh_backward",
    "elu_backward",
    "index_add",
    "index_copy",
    "roll",
    "eye",
    "triu",
    "tril",
    "upsample_nearest2d",
    "upsample_bilinear2d",
    "reflection_pad2d",
    "replication_pad2d",
    "_fused_rms_norm",
]
#: Operators that units of the device run directly, so they are not decomposed.
_NATIVE = [
    "embedding_dense_backward",
    "triu",
    "tril",
    "roll",
    "diagonal_copy",
    "max_pool2d_with_indices",
    "avg_pool2d",
    "_adaptive_avg_pool2d",
    "select_scatter",
    "slice_scatter",
    "full_like",
    "new_full",
    "zeros_like",
    "ones_like",
]


def _packets(names: list[str]) -> list[Any]:
    return [packet for name in names if (packet := getattr(torch.ops.aten, name, None)) is not None]


def table() -> dict[Any, Any]:
    """Returns the decompositions by operator overload."""
    return dict(_table())


@functools.cache
def _table() -> dict[Any, Any]:
    found = dict(core_aten_decompositions())
    for packet in _packets(_FURTHER):
        try:
            found.update(get_decompositions([packet]))
        except Exception:  # a packet whose overloads this build does not decompose
            continue
    found.update(attention.table())
    native = {overload for packet in _packets(_NATIVE) for overload in _overloads(packet)}
    return {operator: function for operator, function in found.items() if operator not in native}


def _overloads(packet: Any) -> list[Any]:
    return [getattr(packet, name) for name in packet.overloads()]
