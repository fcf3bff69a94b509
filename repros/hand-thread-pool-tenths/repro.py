"""Wrong numbers, silently, in what the threads of a pool compute."""

from concurrent.futures import ThreadPoolExecutor

import torch


@torch.compile
def pieces(lengths: torch.Tensor) -> torch.Tensor:
    return torch.div(lengths, torch.full_like(lengths, 0.1), rounding_mode="floor")


def serve(start: int) -> int:
    return int(pieces(torch.arange(start, start + 8).float()).sum().item())


if __name__ == "__main__":
    with ThreadPoolExecutor(max_workers=3) as pool:
        print(list(pool.map(serve, range(1, 7))))
