"""Development of an operator: the second start declares what the operator writes to."""
import os
import subprocess
import sys
import tempfile

CHILD = '''
import sys
import torch

writes = sys.argv[1]
counter = torch.zeros(1)


@torch.library.custom_op("metrics::count", mutates_args=(("total",) if writes == "yes" else ()))
def count(x: torch.Tensor, total: torch.Tensor) -> None:
    total.add_((x > 0).sum())


@count.register_fake
def _(x, total):
    return None


@torch.compile
def layer(x, total):
    count(x, total)
    return x * 2


layer(torch.ones(5), counter)
print(int(counter.item()))
'''


def start(writes, cache):
    env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache)
    run = subprocess.run([sys.executable, "-c", CHILD, writes], env=env, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(run.stderr)
    return run.stdout.strip().splitlines()[-1]


with tempfile.TemporaryDirectory() as cache:
    first = start("no", cache)
    second = start("yes", cache)
print("without the declaration:", first, "- with it:", second)
assert second == "5", f"the operator ran, but {second} was counted instead of 5"
