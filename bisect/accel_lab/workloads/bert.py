"""BERT from transformers' configuration with seeded weights: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import torch

#: Batch, tokens, and what differs from the configuration's defaults, which are those of BERT-base.
SIZES = {
    "base": (2, 128, {}),
    # The vocabulary of bert-base-multilingual-cased: four times that of BERT-base, all else is the same.
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
    """The encoder with its pooler. Without dropout, so that two runs of a training step can be compared."""
    from transformers import BertConfig, BertModel

    _, _, settings = SIZES[size]
    return BertModel(
        BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **settings),
    )


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Token ids and a mask, the last sequence a quarter shorter; the targets are values for all outputs."""
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
    """Squared distance of both outputs to the targets."""
    whole, pooled = outputs[0], outputs[1]
    distance = torch.nn.functional.mse_loss
    return distance(whole, targets[0].to(whole.dtype)) + distance(pooled, targets[1].to(pooled.dtype))
