"""Wrong numbers, silently, in what some threads of a pool compute: no check of its own."""

from concurrent.futures import ThreadPoolExecutor

import torch


@torch.compile
def decay(rate: torch.Tensor) -> torch.Tensor:
    widths = torch.full((400,), 0.1, dtype=torch.bfloat16)
    times = torch.cumsum(widths, 0, dtype=torch.float32)
    return torch.exp(-rate[:, None] * times[None])


def run(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return decay(torch.rand(3, generator=generator)).mean(dim=1)


if __name__ == "__main__":
    with ThreadPoolExecutor(max_workers=3) as pool:
        for mean in pool.map(run, range(6)):
            print(mean.tolist())
