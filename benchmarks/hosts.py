"""Larger scripts with a real bug of the compiler buried in the middle: what a reducer is for.

    python benchmarks/hosts.py mlp200:198131 ... [--out DIR]

A host is an ordinary model in plain torch; a fault is the operator sequence of a public issue. The
script that comes out is what a user would bring: it needs only torch, knows nothing of the lab, and
fails as the issue's own script does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One real bug. ``golden`` is its case in repros/; ``marks`` are names of its operators.

    ``setup`` and ``forward`` are the bodies of a module's two methods. ``forward`` is given ``h`` of any
    shape, leaves ``h`` of the same shape, and ``side``, a further result of the model.
    """

    golden: str
    setup: str
    forward: str
    marks: tuple[str, ...]
    training_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Host:
    """One model: the classes, the inputs, and whether the script trains it."""

    title: str
    model: str
    inputs: str
    training: bool = False


FAULTS: dict[str, Fault] = {
    "198131": Fault(
        golden="198131-full-slice-copy",
        setup="""
self.register_buffer("recent", torch.linspace(0, 1, 8).view(2, 4))
self.register_buffer("before", torch.zeros(2, 4))
""",
        forward="""
self.before[0:, :] = self.recent[0:, :]
self.recent.add_(h.detach().abs().mean() + 1)
side = self.recent.sum()
h = h + side / 100
""",
        marks=("copy_(", "copy.default", "slice", "setitem", "[0:", "[:"),
    ),
    "198101": Fault(
        golden="198101-dtype-view-late-write",
        setup='self.register_buffer("table", torch.arange(-12, 12).reshape(4, 6))',
        forward="""
half = self.table.view(torch.int32) * 2
half.sub_(-4)
self.table[:, 2:5] = 2
side = half.view(torch.int64)
h = h + side.gt(0).float().mean()
""",
        marks=("int32",),
    ),
    "196570": Fault(
        golden="196570-outer-loop-fusion",
        setup='self.register_buffer("scores", torch.randn(8, 8))',
        forward="""
bias = torch.full((8, 8), -10000.0)
line = torch.arange(8)
bias[line.unsqueeze(0), line.unsqueeze(1)] = 0
side = torch.softmax(self.scores * h.detach().abs().mean() + bias, dim=-1)
h = h + side.amax()
""",
        marks=("index_put", "setitem", "] = 0"),
    ),
    "194347": Fault(
        golden="194347-minimum-signed-zero",
        setup="""
self.register_buffer("low", torch.tensor([-0.0]))
self.register_buffer("high", torch.tensor([0.0]))
""",
        forward="""
side = torch.minimum(self.low, self.high)
h = torch.where(torch.signbit(side), -h, h)
""",
        marks=("minimum",),
    ),
    "198119": Fault(
        golden="198119-avg-pool-ceil-grad",
        setup="self.mix = nn.Parameter(torch.ones(25))",
        forward="""
side = F.avg_pool2d((h.mean() * self.mix).view(1, 1, 5, 5), 3, stride=3, ceil_mode=True)
h = h + side.sum()
""",
        marks=("avg_pool2d",),
        training_only=True,
    ),
}

_TRANSFORMER = '''
class Block(nn.Module):
    """Attention and a feed-forward net, each behind a norm and beside a shortcut."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attend(self, h):
        batch, length, width = h.shape
        q, k, v = self.qkv(h).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, h):
        h = h + self.attend(self.norm1(h))
        return h + self.down(F.gelu(self.up(self.norm2(h))))


class Model(nn.Module):
    def __init__(self, layers=12, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.first = nn.ModuleList([Block(width, heads) for _ in range(layers // 2)])
        self.middle = Middle()
        self.last = nn.ModuleList([Block(width, heads) for _ in range(layers - layers // 2)])
        self.head = nn.Linear(width, 32)

    def forward(self, tokens):
        h = self.embed(tokens)
        for block in self.first:
            h = block(h)
        h, side = self.middle(h)
        for block in self.last:
            h = block(h)
        return self.head(h), side
'''

_RESNET = '''
class Basic(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.short = nn.Sequential()
        if stride != 1 or into != out:
            self.short = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.short(x))


class Model(nn.Module):
    """ResNet-18 (2, 2, 2, 2 blocks), an eighth as wide as the published one."""

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1)
        sizes = [(1, 1, 1), (1, 2, 2), (2, 4, 2), (4, 8, 2)]
        stages = [
            nn.Sequential(Basic(width * a, width * b, stride), Basic(width * b, width * b, 1))
            for a, b, stride in sizes
        ]
        self.first, self.last = nn.Sequential(*stages[:2]), nn.Sequential(*stages[2:])
        self.middle = Middle()
        self.head = nn.Linear(8 * width, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.bn(self.conv(x))))
        h, side = self.middle(self.first(x))
        return self.head(self.last(h).mean((2, 3))), side
'''

_MLP = '''
class Layer(nn.Module):
    """Four operators: linear, an activation, a scale, a shortcut."""

    def __init__(self, width, act):
        super().__init__()
        self.linear, self.act = nn.Linear(width, width), act

    def forward(self, h):
        return h + 0.5 * self.act(self.linear(h))


class Model(nn.Module):
    """50 layers of four operators each."""

    def __init__(self, layers=50, width=12):
        super().__init__()
        acts = [torch.tanh, torch.sigmoid, torch.sin, F.relu, F.silu]
        made = [Layer(width, acts[i % len(acts)]) for i in range(layers)]
        self.first, self.last = nn.Sequential(*made[: layers // 2]), nn.Sequential(*made[layers // 2 :])
        self.middle = Middle()

    def forward(self, x):
        h, side = self.middle(self.first(x))
        return self.last(h), side
'''

_TRAINED = '''
class Model(nn.Module):
    """A small net with dropout left out, so that two runs of a step are the same step."""

    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Sequential(
            nn.Linear(8, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width), nn.Tanh()
        )
        self.middle = Middle()
        self.last = nn.Sequential(
            nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, 4)
        )

    def forward(self, x):
        h, side = self.middle(self.first(x))
        return self.last(h), side
'''

HOSTS: dict[str, Host] = {
    "transformer": Host(
        title="a transformer of 12 layers",
        model=_TRANSFORMER,
        inputs="torch.randint(0, 32, (2, 6), generator=generator)",
    ),
    "resnet18": Host(
        title="ResNet-18", model=_RESNET, inputs="torch.randn(2, 3, 32, 32, generator=generator)"
    ),
    "mlp200": Host(
        title="an MLP of 200 operators", model=_MLP, inputs="torch.randn(4, 12, generator=generator)"
    ),
    "training": Host(
        title="a training step",
        model=_TRAINED,
        inputs="torch.randn(5, 8, generator=generator)",
        training=True,
    ),
}

_HEAD = '''"""{title}: the compiled model is compared with the same model run eagerly."""
import torch
import torch.nn.functional as F
from torch import nn


class Middle(nn.Module):
    def __init__(self):
        super().__init__()
{setup}

    def forward(self, h):
{forward}
        return h, side

'''

_INFER = """

def build():
    torch.manual_seed(0)
    return Model().eval()


def run(model, fn):
    generator = torch.Generator().manual_seed(1)
    x = {inputs}
    with torch.no_grad():
        out, side = fn(x)
    return {{"out": out, "side": side, **dict(model.named_buffers())}}


model, reference = build(), build()
got = run(model, torch.compile(model))
want = run(reference, reference)
for name in want:
    torch.testing.assert_close(got[name], want[name], rtol=1e-3, atol=1e-4, equal_nan=True)
"""

_TRAIN = """

def build():
    torch.manual_seed(0)
    return Model()


def step(model, fn):
    generator = torch.Generator().manual_seed(1)
    x = {inputs}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out, side = fn(x)
    loss = out.square().mean() + torch.tanh(side.float()).mean()
    loss.backward()
    optimizer.step()
    return {{"loss": loss.detach(), "side": side.detach(), **model.state_dict()}}


model, reference = build(), build()
got = step(model, torch.compile(model))
want = step(reference, reference)
for name in want:
    torch.testing.assert_close(got[name], want[name], rtol=1e-3, atol=1e-4, equal_nan=True)
"""


def names() -> list[str]:
    """Every pair that makes sense, as ``host:fault``."""
    return [
        f"{host}:{fault}"
        for host, made in HOSTS.items()
        for fault, bug in FAULTS.items()
        if made.training or not bug.training_only
    ]


def split(name: str) -> tuple[str, str]:
    """``host:fault`` in two; a pair that cannot be written is an error that says why."""
    host, _, fault = name.partition(":")
    if host not in HOSTS or fault not in FAULTS:
        raise ValueError(f"{name}: want one of {', '.join(HOSTS)}, a colon, one of {', '.join(FAULTS)}")
    if FAULTS[fault].training_only and not HOSTS[host].training:
        raise ValueError(f"{name}: this bug is in the backward pass, and {host} has none")
    return host, fault


def source(host: str, fault: str) -> str:
    """The text of the script."""
    made, bug = HOSTS[host], FAULTS[fault]
    head = _HEAD.format(
        title=made.title[0].upper() + made.title[1:],
        setup=indent(bug.setup.strip(), " " * 8),
        forward=indent(bug.forward.strip(), " " * 8),
    )
    tail = (_TRAIN if made.training else _INFER).format(inputs=made.inputs)
    return head + made.model + tail


def write_host(host: str, fault: str, folder: Path) -> Path:
    """Write the script into a folder of its own under ``folder``; returns its path."""
    split(f"{host}:{fault}")
    path = folder / f"{host}-{fault}" / "repro.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source(host, fault), encoding="utf-8")
    return path


def main(argv: Sequence[str]) -> int:
    """Write the chosen pairs, or all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="HOST:FAULT", help="default: every pair")
    parser.add_argument("--out", type=Path, default=Path("hosts"), help="where to write them")
    given = parser.parse_args(argv)
    for name in given.names or names():
        try:
            print(write_host(*split(name), given.out))
        except ValueError as error:
            parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
