"""BERT with transformers' configuration and seeded random weights; downloads nothing."""

from __future__ import annotations

from typing import Any

import torch

#: Batch, tokens, and changes to the configuration's defaults (BERT-base).
SIZES = {
    "base": (2, 128, {}),
    # The vocabulary of bert-base-multilingual-cased, four times that of BERT-base; all else is equal.
    "multilingual": (2, 128, {"vocab_size": 119_547}),
    "small": (
        2,
        16,
        {
            "vocab_size": 512,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "max_position_embeddings": 64,
        },
    ),
}


def make(size: str) -> torch.nn.Module:
    """Returns the encoder with its pooler, without dropout, so that training steps are comparable."""
    from transformers import BertConfig, BertModel

    _, _, settings = SIZES[size]
    return BertModel(
        BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **settings),
    )


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Returns (token ids and mask, targets); the last sequence is a quarter shorter."""
    count, length, settings = SIZES[size]
    words = settings.get("vocab_size", 30_522)
    width = settings.get("hidden_size", 768)
    ids = torch.randint(0, words, (count, length), generator=generator)
    mask = torch.ones(count, length, dtype=torch.long)
    mask[-1, length - length // 4 :] = 0
    targets = (
        torch.randn(count, length, width, generator=generator),
        torch.randn(count, width, generator=generator),
    )
    return (ids, mask), targets


def loss(outputs: Any, targets: Any) -> Any:
    """Returns the sum of both outputs' mean squared errors."""
    whole, pooled = outputs[0], outputs[1]
    distance = torch.nn.functional.mse_loss
    return distance(whole, targets[0].to(whole.dtype)) + distance(pooled, targets[1].to(pooled.dtype))
