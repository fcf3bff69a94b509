"""ResNet-18 from torchvision with seeded weights: convolutions, batch norm, pooling."""

from __future__ import annotations

from typing import Any

import torch

#: Batch, image side in pixels, classes, blocks of the four stages. Batch and image are large enough that the
#: last batch norm of a training step has more than a few values.
SIZES = {"base": (4, 224, 1000, (2, 2, 2, 2)), "small": (4, 64, 10, (1, 1, 1, 1))}


def make(size: str) -> torch.nn.Module:
    """Returns ResNet-18; the small size has one block per stage instead of two."""
    from torchvision.models.resnet import BasicBlock, ResNet

    _, _, classes, blocks = SIZES[size]
    return ResNet(BasicBlock, list(blocks), num_classes=classes)


def batch(size: str, generator: torch.Generator) -> tuple[tuple[Any, ...], Any]:
    """Returns (noise images, a class for each)."""
    count, side, classes, _ = SIZES[size]
    images = torch.randn(count, 3, side, side, generator=generator)
    return (images,), torch.randint(0, classes, (count,), generator=generator)


def loss(outputs: Any, targets: Any) -> Any:
    """Returns the cross entropy."""
    return torch.nn.functional.cross_entropy(outputs, targets)
