"""What a recording costs a job: steps of ResNet-18's training with and without it, as ratios within one run.

    python benchmarks/record_overhead.py [--steps N] [--rounds N] [--batch N] [--size N] [--json FILE]

Blocks of steps alternate: Inductor alone, recorded with no call checked, recorded with one call in a hundred
checked. Each is given as its CPU seconds over those of Inductor alone, the median of the rounds: wall time
means nothing on a shared machine. The bars are 1 % with no call checked and 5 % with one in a hundred.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bisect"))

EVERY = 100
BARS = {"none checked": 0.01, "one in a hundred checked": 0.05}


def measure(steps: int, rounds: int, batch: int, size: int) -> dict[str, Any]:
    """The ratios of all rounds, the seconds of a step, and what the recording says of itself."""
    import torch
    from torchvision.models import resnet18

    from accel_lab.child.capsule.recording import RecordedInductor, Recording, Sampling

    torch.manual_seed(0)
    torch.set_num_threads(1)
    recording = Recording(tempfile.mkdtemp(prefix="record-"), Sampling(every=0, first=0))

    def trainer(backend: Any) -> Callable[[], None]:
        model = resnet18(num_classes=10)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        compiled = torch.compile(model, backend=backend, dynamic=False)
        images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))

        def step() -> None:
            loss = torch.nn.functional.cross_entropy(compiled(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        for _ in range(3):
            step()
        return step

    plain, recorded = trainer("inductor"), trainer(RecordedInductor(recording, "inductor"))
    blocks = (
        ("inductor", plain, 0),
        ("none checked", recorded, 0),
        ("one in a hundred checked", recorded, EVERY),
    )
    found: dict[str, list[float]] = {name: [] for name, _, _ in blocks}
    for _ in range(rounds):
        for name, step, every in blocks:
            recording.sampling = recording.sampling._replace(every=every)
            began = time.process_time()
            for _ in range(steps):
                step()
            recording.finish_backward()
            found[name].append(time.process_time() - began)
    alone = found["inductor"]
    shares = {
        name: [seconds / base - 1.0 for seconds, base in zip(found[name], alone, strict=True)]
        for name in BARS
    }
    return {
        "step_cpu_s": statistics.median(alone) / steps,
        "share": {name: statistics.median(values) for name, values in shares.items()},
        "shares": shares,
        "spread_of_inductor_alone": (max(alone) - min(alone)) / statistics.median(alone),
        "check_over_step": recording.seconds / max(1, recording.checked) / (statistics.median(alone) / steps),
        "recording": recording.summary(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=EVERY, help="steps of a block; a multiple of 100")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="height and width of an image")
    parser.add_argument("--json", type=Path, help="also write all numbers there")
    given = parser.parse_args()
    if given.steps < EVERY or given.steps % EVERY:
        parser.error(f"--steps is a multiple of {EVERY}: so many calls make one that is checked")
    result = measure(given.steps, given.rounds, given.batch, given.size)
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))
    recording = result["recording"]
    spread = result["spread_of_inductor_alone"]
    print(
        f"a step: {result['step_cpu_s']:.3f} s of CPU; {recording['checked']} calls were checked, each as "
        f"long as {result['check_over_step']:.1f} steps (wall); spread of Inductor alone {spread:.1%}"
    )
    missed = []
    for name, bar in BARS.items():
        share = result["share"][name]
        print(f"{name:26s} {share:+.2%} of a step (bar {bar:.0%})")
        missed += [name] if share > bar else []
    if recording["capsules"] or recording["notes"]:
        print("not a clean run:", recording["capsules"], recording["notes"])
        return 1
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
