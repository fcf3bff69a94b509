"""Spawned workers compile what they compute; the parent compiles nothing."""

import multiprocessing

import torch


def discount(rate: torch.Tensor) -> torch.Tensor:
    steps = torch.full((300,), 0.3, dtype=torch.bfloat16)
    return torch.exp(-rate[:, None] * torch.cumsum(steps, 0, dtype=torch.float32)[None])


def work(seed: int) -> float:
    rate = torch.rand(2, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(torch.compile(discount)(rate), discount(rate), rtol=1e-4, atol=0)
    return rate.sum().item()


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(sum(pool.map(work, range(3))))
