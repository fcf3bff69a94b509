"""Requests are served by a pool of threads that share one compiled function; nothing is wrong."""

import time
from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(0)
WEIGHT = torch.randn(16, 16)


@torch.compile
def score(rows: torch.Tensor) -> torch.Tensor:
    return torch.softmax(rows @ WEIGHT, dim=-1).amax(dim=-1)


def serve(seed: int) -> float:
    rows = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
    time.sleep(0.01 * (seed % 3))
    return score(rows).sum().item()


if __name__ == "__main__":
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = list(pool.map(serve, range(10)))
    print("served", len(answers), "requests at", time.strftime("%H:%M:%S"))
